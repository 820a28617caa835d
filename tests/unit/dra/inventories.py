"""Inventories of any size and mix, drawn for properties of what is published.

Hypothesis draws a few kinds of devices, and a number; each device is of the kind that its place in
the order of publication says. So thousands of devices cost the drawing of five.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import attrs
from hypothesis import strategies as st

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

_COUNTERS: Final = {"memory": 2**36, "slices": 7}
_TYPES: Final = ("nic", "nic-shared", "gpu", "mig", "vfio", "generic")


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


def _lists() -> st.SearchStrategy[Mapping[str, Values]]:
    """Standard attributes as lists."""
    nodes = st.lists(st.integers(0, 7), min_size=1, max_size=4, unique=True).map(tuple)
    roots = st.lists(
        st.sampled_from(["pci0000:00", "pci0000:40"]), min_size=1, max_size=2, unique=True
    ).map(tuple)
    return st.fixed_dictionaries(
        {},
        optional={
            "resource.kubernetes.io/numaNode": nodes,
            "resource.kubernetes.io/pcieRoot": roots,
        },
    )


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
    draws = type_ in {"mig", "gpu"} and draw(st.booleans())
    waits = type_ in {"nic", "generic"} and draw(st.booleans())
    together = draw(st.sampled_from([(), ("mig",)])) if gated else ()
    return Device(
        name="",
        identity="",
        type=type_,
        group=draw(st.sampled_from(["a", "b"])),
        attributes={
            **draw(st.dictionaries(names, _values(), max_size=28 - len(capacity))),
            "type": type_,
        },
        capacity=capacity,
        shared=is_shared,
        taints=draw(_taints()),
        binding=("berth.dev/ready",) if waits else (),
        failure=("berth.dev/failed",) if waits else (),
        lists=draw(_lists()) if gated else {},
        bucket=draw(st.sampled_from(["", "together"])),
        consumes=(
            (Consumption(counter_set="", counters={"memory": 2**30}, groups=together),)
            if draws
            else ()
        ),
        costs=draw(_costs(sorted(capacity))) if costs else {},
    )


@st.composite
def inventories(
    draw: st.DrawFn,
    most: int = MOST,
    *,
    costs: bool = True,
    gated: bool = True,
    skips: bool = False,
) -> Inventory:
    """Draw an inventory in its order of publication.

    Args:
        draw: Of Hypothesis.
        most: Most devices.
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
    count = draw(
        st.one_of(st.sampled_from([each for each in edges if each <= most]), st.integers(0, most))
    )
    numbered = (device_of(drawn[number % len(drawn)], number) for number in range(count))
    devices = sorted(numbered, key=lambda device: (device.type, device.group))
    used = {one.counter_set for device in devices for one in device.consumes}
    sets = tuple(CounterSet(name=name, counters=_COUNTERS) for name in sorted(used))
    return Inventory(devices=tuple(devices), sets=sets)


def device_of(kind: Device, number: int) -> Device:
    """One device of a kind."""
    whole = number // _PER_SET
    return attrs.evolve(
        kind,
        name=f"{kind.type}-{number:04d}",
        identity=f"pci:{number}",
        attributes={**kind.attributes, "number": number},
        bucket=f"{kind.bucket}-{whole}" if kind.bucket else "",
        consumes=tuple(
            attrs.evolve(one, counter_set=f"whole-{whole:04d}") for one in kind.consumes
        ),
    )
