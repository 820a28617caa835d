"""An API server's shelf of slices as a plain value holder, and how a scheduler reads it."""

import attrs

from berth.dra.slices import Edition, Origin, PoolPlan, Verb, Write, plan
from berth.kube.slices import Owner, Slice
from berth.model.device import Device

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


class Shelf:
    """Slices as a server keeps them, and the editions that the publishing process remembers."""

    def __init__(self) -> None:
        self.slices: dict[str, Slice] = {}
        self.editions: dict[str, Edition] = {}
        self._counter = 0

    def plan(self, devices: tuple[Device, ...]) -> tuple[PoolPlan, ...]:
        """Plan for what is here now, and remember the editions."""
        plans = plan(ORIGIN, devices, self.slices.values(), editions=self.editions, accepted={})
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

    def sync(self, devices: tuple[Device, ...]) -> list[Write]:
        """Plan, apply all of it, and give what was written."""
        writes = [write for item in self.plan(devices) for write in item.writes]
        for write in writes:
            self.apply(write)
        return writes

    def read(self, pool: str) -> tuple[str, ...] | None:
        """What a scheduler sees of a pool; None while it is incomplete."""
        slices = [item for _, item in sorted(self.slices.items()) if item.pool == pool]
        newest = max((item.generation for item in slices), default=0)
        current = [item for item in slices if item.generation == newest]
        if any(item.slice_count != len(current) for item in current):
            return None
        return tuple(device["name"] for item in current for device in item.devices)
