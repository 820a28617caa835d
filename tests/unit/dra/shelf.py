"""An API server's shelf of slices as a plain value holder, and how a scheduler reads it."""

import attrs

from berth.dra.edition import Edition
from berth.dra.origin import Origin
from berth.dra.slices import PoolPlan, Verb, Write, plan
from berth.kube.slices import Owner, Slice
from berth.model.device import Consumption, CounterSet, Device

ORIGIN = Origin(driver="berth.dev", owner=Owner(name="worker-7", uid="node-uid"))


def nic(number: int, **facts: int | str) -> Device:
    """Give a NIC named by a number, its attributes from the keywords."""
    return Device(
        name=f"nic-{number:04d}",
        identity=f"pci:{number}",
        type="nic",
        group="g",
        attributes={"type": "nic", **facts},
    )


def nics(count: int) -> tuple[Device, ...]:
    """Give that many NICs."""
    return tuple(nic(number) for number in range(count))


def part(number: int, whole: int = 0, **facts: int | str) -> Device:
    """Give a part of a device, which draws on the counters of the whole."""
    return Device(
        name=f"mig-{whole:02d}-{number}",
        identity=f"mig:{whole}:{number}",
        type="mig",
        group="g",
        attributes={"type": "mig", **facts},
        consumes=(
            Consumption(counter_set=f"gpu-{whole:02d}-counters", counters={"memory": 2**30}),
        ),
    )


def counter_set(whole: int = 0, memory: int = 2**33) -> CounterSet:
    """Give the counters of a whole."""
    return CounterSet(name=f"gpu-{whole:02d}-counters", counters={"memory": memory})


class Shelf:
    """Slices as a server keeps them, and the editions that the publishing process remembers."""

    def __init__(self) -> None:
        self.slices: dict[str, Slice] = {}
        self.editions: dict[str, Edition] = {}
        self._counter = 0

    def plan(
        self, devices: tuple[Device, ...], counter_sets: tuple[CounterSet, ...] = ()
    ) -> tuple[PoolPlan, ...]:
        """Plan for what is here now, and remember the editions."""
        plans = plan(
            ORIGIN,
            devices,
            self.slices.values(),
            editions=self.editions,
            accepted={},
            counter_sets=counter_sets,
        )
        self.editions = {item.pool: item.edition for item in plans if item.edition}
        return plans

    def apply(self, write: Write) -> None:
        """Do what one request would."""
        self._counter += 1
        if write.verb is Verb.DELETE:
            assert self.slices.pop(write.slice.name) == write.slice
            return
        if write.verb is Verb.CREATE:
            name = f"{write.slice.generate_name[:58]}{self._counter:05d}"
            stored = attrs.evolve(write.slice, name=name, uid=f"uid-{self._counter}")
        else:
            stored = write.slice
            assert self.slices[stored.name].resource_version == stored.resource_version
        self.slices[stored.name] = attrs.evolve(stored, resource_version=str(self._counter))

    def sync(
        self, devices: tuple[Device, ...], counter_sets: tuple[CounterSet, ...] = ()
    ) -> list[Write]:
        """Plan, apply all of it, and give what was written."""
        writes = [write for item in self.plan(devices, counter_sets) for write in item.writes]
        for write in writes:
            self.apply(write)
        return writes

    def read(self, pool: str) -> tuple[str, ...] | None:
        """What a scheduler sees of a pool; None while it is incomplete."""
        current = self._current(pool)
        if any(item.slice_count != len(current) for item in current):
            return None
        return tuple(device["name"] for item in current for device in item.devices)

    def read_sets(self, pool: str) -> tuple[str, ...]:
        """Counter sets of a pool's newest generation; devices draw on no others."""
        current = self._current(pool)
        found = tuple(one["name"] for item in current for one in item.shared_counters)
        for item in current:
            assert not (item.devices and item.shared_counters)
            for device in item.devices:
                for drawn in device.get("consumesCounters", ()):
                    assert drawn["counterSet"] in found
        return found

    def _current(self, pool: str) -> list[Slice]:
        slices = [item for _, item in sorted(self.slices.items()) if item.pool == pool]
        newest = max((item.generation for item in slices), default=0)
        return [item for item in slices if item.generation == newest]
