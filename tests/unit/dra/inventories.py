"""Inventories of any size and mix, drawn for properties of what is published.

Hypothesis draws a few kinds of devices, and a number; each device is of the kind that its place in
the order of publication says. So thousands of devices cost the drawing of five.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs
from hypothesis import strategies as st

from berth.dra.lists import NUMA_NODE, PCIE_ROOT
from berth.model.device import (
    Attribute,
    Capacity,
    CapacityRange,
    Consumption,
    CounterSet,
    Device,
    Taint,
    Values,
    Version,
)
from berth.model.nodecost import NodeCost, NodeCosts

MOST: Final = 4096
"""Most devices of an inventory."""

_PER_SET: Final = 8
# Devices that draw on one set.

_PFS: Final = 3

_COUNTERS: Final = {
    "memory": 2**36,
    "slices": 7,
    **{f"slice-{number}": 1 for number in range(30)},
}
# As many as a set may have.
_SETS: Final = ("whole", "links")
# Of each eight devices; a device draws on two at most.

_TYPES: Final = ("nic", "nic-shared", "nic-vfio", "rdma", "gpu", "mig", "vfio", "generic")
_COUNTED: Final = frozenset({"gpu", "mig", "vfio", "generic"})
# Types of one pool, in which all sets are.

_READY: Final = ("berth.dev/ready", "berth.dev/carrier", "example.com/approved", "example.com/warm")
_FAILED: Final = ("berth.dev/failed", "berth.dev/gone", "example.com/denied", "example.com/cold")
_KEYS: Final = 28
# Most attributes and capacities of a device, beside four attributes that have a meaning.


@attrs.frozen(kw_only=True)
class Inventory:
    """What is to be published.

    Attributes:
        devices: In the order of publication.
        sets: What devices draw on.
    """

    devices: tuple[Device, ...]
    sets: tuple[CounterSet, ...]


def _values() -> st.SearchStrategy[Attribute]:
    return st.one_of(
        st.booleans(),
        st.integers(-(2**63), 2**63 - 1),
        st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=16),
        st.builds(
            lambda numbers: Version(".".join(map(str, numbers))),
            st.tuples(*[st.integers(0, 999)] * 3),
        ),
    )


def _capacities() -> st.SearchStrategy[Capacity]:
    plain = st.builds(Capacity, value=st.integers(0, 2**40))
    listed = st.builds(
        lambda values, place: Capacity(
            value=values[-1], values=tuple(values), default=values[place % len(values)]
        ),
        st.lists(st.integers(1, 2**40), min_size=1, max_size=10, unique=True).map(sorted),
        st.integers(0, 9),
    )
    ranged = st.builds(
        lambda step, least, count: Capacity(
            value=least + step * count,
            default=least,
            bounds=CapacityRange(minimum=least, step=step),
        ),
        st.integers(1, 2**20),
        st.integers(0, 2**20),
        st.integers(1, 64),
    )
    return st.one_of(plain, listed, ranged)


def _taints() -> st.SearchStrategy[tuple[Taint, ...]]:
    one = st.builds(
        Taint,
        key=st.sampled_from(["berth.dev/fault", "berth.dev/held", "berth.dev/degraded"]),
        value=st.sampled_from(["xid-79", "absent", "operator"]),
        effect=st.sampled_from(["NoSchedule", "NoExecute", "None"]),
    )
    return st.lists(one, max_size=3, unique_by=lambda taint: taint.key).map(tuple)


def _costs(capacities: Sequence[str]) -> st.SearchStrategy[NodeCosts]:
    """What a device with these capacities costs its node."""
    milli = st.integers(1, 2**50)
    ways = [
        st.builds(NodeCost, device_milli=milli),
        st.builds(NodeCost, pod_milli=milli, container_milli=milli),
    ]
    if capacities:
        by = st.sampled_from(capacities)
        ways.append(st.builds(NodeCost, capacity=by, times_milli=milli, pod_milli=milli))
    return st.dictionaries(
        st.sampled_from(["cpu", "memory", "hugepages-2Mi"]), st.one_of(ways), max_size=3
    )


def _standard() -> st.SearchStrategy[Mapping[str, Attribute]]:
    """Attributes that all drivers have in common, of which lists may be made."""
    return st.fixed_dictionaries(
        {},
        optional={
            NUMA_NODE: st.integers(0, 7),
            PCIE_ROOT: st.sampled_from(["pci0000:00", "pci0000:40"]),
        },
    )


def _lists(single: Mapping[str, Attribute]) -> Mapping[str, Values]:
    """The standard attributes as lists, the longest that a device could have."""
    nodes: dict[str, Values] = {NUMA_NODE: tuple(range(8))} if NUMA_NODE in single else {}
    root = single.get(PCIE_ROOT)
    return {**nodes, PCIE_ROOT: (root,)} if isinstance(root, str) else nodes


def _draws(*, gated: bool) -> st.SearchStrategy[tuple[Consumption, ...]]:
    """What a device draws on one set or two, the sets without their numbers."""
    counters = st.lists(st.sampled_from(sorted(_COUNTERS)), min_size=1, unique=True)
    groups = st.sampled_from([(), ("mig",), ("mig", "whole")]) if gated else st.just(())
    return st.lists(st.sampled_from(_SETS), unique=True).flatmap(
        lambda names: st.tuples(
            *(
                st.builds(
                    Consumption,
                    counter_set=st.just(name),
                    counters=counters.map(lambda some: dict.fromkeys(some, 1)),
                    groups=groups,
                )
                for name in names
            )
        )
    )


def _some(names: Sequence[str]) -> st.SearchStrategy[tuple[str, ...]]:
    return st.integers(1, len(names)).map(lambda count: tuple(names[:count]))


@st.composite
def kinds(draw: st.DrawFn, *, costs: bool = True, gated: bool = True) -> Device:
    """Draw a device that stands for all of its kind.

    Args:
        costs: It may cost its node something.
        gated: It may have what a server drops or refuses unless it is told not to.
    """
    type_ = draw(st.sampled_from(_TYPES))
    capacity: Mapping[str, Capacity] = draw(
        st.dictionaries(
            st.sampled_from(["memory", "slots", "bandwidth"]), _capacities(), max_size=3
        )
    )
    is_shared = type_ == "nic-shared"
    if not is_shared:
        # A policy is for what several claims may have.
        capacity = {name: Capacity(value=each.value) for name, each in capacity.items()}
    names = st.from_regex(r"[a-z][a-zA-Z0-9]{0,15}", fullmatch=True)
    waits = draw(st.booleans())
    standard = draw(_standard())
    return Device(
        name="",
        identity="",
        type=type_,
        group=draw(st.sampled_from(["a", "b"])),
        attributes={
            **draw(st.dictionaries(names, _values(), max_size=_KEYS - len(capacity))),
            **standard,
            "type": type_,
        },
        capacity=capacity,
        shared=is_shared,
        taints=draw(_taints()),
        binding=draw(_some(_READY)) if waits else (),
        failure=draw(_some(_FAILED)) if waits else (),
        lists=_lists(standard) if gated and draw(st.booleans()) else {},
        bucket=draw(st.sampled_from(["", "together", "between"])),
        consumes=draw(_draws(gated=gated)) if type_ in _COUNTED else (),
        costs=draw(_costs(sorted(capacity))) if costs else {},
    )


def fullest(type_: str, *, costs: bool = True, gated: bool = True) -> Device:
    """All that a device of a type could have, as much of each as a server takes."""
    is_shared = type_ == "nic-shared"
    names = [f"capacity{number}" for number in range(8)]
    capacity = {name: Capacity(value=2**40) for name in names}
    if is_shared:
        bounds = CapacityRange(minimum=2**10, step=2**10)
        capacity["capacity0"] = Capacity(value=2**40, default=2**20, bounds=bounds)
        amounts = tuple(range(1, 11))
        capacity["capacity1"] = Capacity(value=10, default=10, values=amounts)
    standard: Mapping[str, Attribute] = {NUMA_NODE: 7, PCIE_ROOT: "pci0000:40"}
    numbered = [f"attribute{number}" for number in range(_KEYS - len(capacity))]
    draws = tuple(
        Consumption(
            counter_set=name,
            counters=dict.fromkeys(_COUNTERS, 1),
            groups=("mig", "whole") if gated else (),
        )
        for name in _SETS
    )
    cost = NodeCost(device_milli=1500, pod_milli=10, container_milli=1)
    return Device(
        name="",
        identity="",
        type=type_,
        group="a",
        attributes={**dict.fromkeys(numbered, "é" * 32), **standard, "type": type_},
        capacity=capacity,
        shared=is_shared,
        taints=tuple(
            Taint(key=f"berth.dev/fault{number}", value="x" * 63, effect="NoSchedule")
            for number in range(15)
        ),
        binding=_READY,
        failure=_FAILED,
        lists=_lists(standard) if gated else {},
        bucket="together",
        consumes=draws if type_ in _COUNTED else (),
        costs=dict.fromkeys(("cpu", "memory", "hugepages-2Mi"), cost) if costs else {},
        skips=("*",) if gated and type_ == "generic" else (),
    )


def everything(count: int = MOST, *, costs: bool = True, gated: bool = True) -> Inventory:
    """As many devices of each type as of each other, with all that they could have."""
    return inventory_of([fullest(one, costs=costs, gated=gated) for one in _TYPES], count)


@st.composite
def inventories(
    draw: st.DrawFn,
    most: int = MOST,
    *,
    least: int = 0,
    costs: bool = True,
    gated: bool = True,
    skips: bool = False,
) -> Inventory:
    """Draw an inventory in its order of publication.

    Args:
        draw: Of Hypothesis.
        most: Most devices.
        least: Fewest.
        costs: Devices may cost the node something.
        gated: They may have lists and compatibility groups.
        skips: One of the generic groups may be one that kubelet does not ask for.
    """
    drawn = draw(st.lists(kinds(costs=costs, gated=gated), min_size=1, max_size=5))
    if skips:
        words = draw(st.sampled_from([(), ("*",), ("NodeUnprepareResources",)]))
        drawn = [
            attrs.evolve(one, skips=words if (one.type, one.group) == ("generic", "a") else ())
            for one in drawn
        ]
    edges = [0, 1, 63, 64, 65, 128, 129, 1024, most]
    near = st.sampled_from([each for each in edges if least <= each <= most])
    return inventory_of(drawn, draw(st.one_of(near, st.integers(least, most))))


def inventory_of(kinds: Sequence[Device], count: int) -> Inventory:
    """That many devices, of each kind as many as of each other."""
    numbered = (device_of(kinds[number % len(kinds)], number) for number in range(count))
    devices = sorted(numbered, key=lambda device: (device.type, device.group))
    return Inventory(devices=tuple(devices), sets=sets_of(devices))


def sets_of(devices: Iterable[Device]) -> tuple[CounterSet, ...]:
    """The sets that devices draw on."""
    used = {one.counter_set for device in devices for one in device.consumes}
    return tuple(CounterSet(name=name, counters=_COUNTERS) for name in sorted(used))


def device_of(kind: Device, number: int) -> Device:
    """One device of a kind."""
    whole = number // _PER_SET
    # As the VFs of a PF: one after the other, or between those of other PFs.
    place = whole if kind.bucket == "together" else number % _PFS
    return attrs.evolve(
        kind,
        name=f"{kind.type}-{number:04d}",
        identity=f"pci:{number}",
        attributes={**kind.attributes, "number": number},
        # No bucket has devices of two groups.
        bucket=f"{kind.type}/{kind.group}/{kind.bucket}-{place}" if kind.bucket else "",
        consumes=tuple(
            attrs.evolve(one, counter_set=f"{one.counter_set}-{whole:04d}") for one in kind.consumes
        ),
    )
