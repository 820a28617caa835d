"""Counters that keep a PF from its VFs: a PF for one pod alone, or its VFs, and never both.

One set for each PF of a group that says so. Each VF draws one of it, wherever it is and whichever
group it is in, and the PF draws all. A PF with several links is no such: its links do not exclude
each other, as they would.

Source: daemon.md §4 (PF or its VFs by counters); KC §9.3.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import attrs

from berth.model.device import Consumption, CounterSet, Device
from berth.model.names import device_name
from berth.nic.topology import Topology

COUNTER: Final = "functions"


@attrs.frozen(kw_only=True)
class Counted:
    """Devices with what they draw, and the sets that they draw on."""

    devices: tuple[Device, ...]
    counter_sets: tuple[CounterSet, ...] = ()


def counted(
    devices: Iterable[Device],
    topology: Topology,
    pfs: Collection[str],
    *,
    held: Collection[str] = (),
) -> Counted:
    """The devices, PFs and VFs among them with what keeps one from the other.

    Args:
        pfs: Identities of PFs that are offered beside their VFs.
        held: Identities that somebody has: they are told of whatever the server takes.
    """
    devices = tuple(devices)
    virtual = vfs_of(topology)
    sets = {
        address: CounterSet(name=device_name("nic", f"{address}-functions"), counters={COUNTER: n})
        for identity in sorted(pfs)
        if (n := len(virtual.get(address := _address(identity), ())))
    }
    if not sets:
        return Counted(devices=devices)
    return Counted(
        devices=tuple(_drawing(one, topology, sets, held) for one in devices),
        counter_sets=tuple(sets[address] for address in sorted(sets)),
    )


def vfs_of(topology: Topology) -> Mapping[str, tuple[str, ...]]:
    """Addresses of VFs by that of their PF."""
    found: dict[str, tuple[str, ...]] = {}
    for function in topology.scan.functions:
        if function.physfn:
            found[function.physfn] = (*found.get(function.physfn, ()), function.address)
    return found


def _drawing(
    one: Device, topology: Topology, sets: Mapping[str, CounterSet], held: Collection[str]
) -> Device:
    address = _address(one.identity)
    if address in sets:
        every = Consumption(counter_set=sets[address].name, counters=sets[address].counters)
        return attrs.evolve(one, consumes=(every,), only_counted=one.identity not in held)
    function = topology.functions.get(address)
    own = sets.get(function.physfn) if function is not None else None
    if own is None:
        return one
    return attrs.evolve(one, consumes=(Consumption(counter_set=own.name, counters={COUNTER: 1}),))


def _address(identity: str) -> str:
    return identity.removeprefix("pci:").partition("/")[0]
