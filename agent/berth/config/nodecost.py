"""The ``node_cost`` tables of groups: what each device costs the node of its own resources.

Source: KC §9.6; ``IsNodeAllocatableResourceName`` of Kubernetes 1.37.2 for the names. Kubelet
names huge pages by their size in the largest binary unit (``HugePageResourceName``), and a page of
the kernel has a power of two of bytes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

import attrs
from typing_extensions import override

from berth.config.decode import Table, Written, key
from berth.config.doors import Door
from berth.config.finding import Cursor
from berth.config.forms import Form, OrEmpty, Text, listed
from berth.model.nodecost import NodeCost, NodeCosts

_RESOURCE: Final = re.compile(r"cpu|memory|hugepages-(?P<page>[1-9][0-9]*[KMGT]i)")
_AMOUNT: Final = re.compile(r"([0-9]{1,16})(m|[kMGT]|[KMGT]i)?")
_AMOUNTS: Final = ("device", "pod", "container")
"""Of a resource itself; ``times`` is a factor, such as a thousandth of a GPU's memory."""
_NEXT_UNIT: Final = 1024
_MILLI: Final[Mapping[str, int]] = {
    "m": 1,
    "": 1000,
    **{prefix: 1000 ** (power + 2) for power, prefix in enumerate("kMGT")},
    **{f"{prefix}i": 1000 * 1024 ** (power + 1) for power, prefix in enumerate("KMGT")},
}


def _amount(text: str) -> int | None:
    found = _AMOUNT.fullmatch(text)
    milli = int(found[1]) * _MILLI[found[2] or ""] if found else 0
    return milli if 0 < milli < 2**63 else None


AMOUNT: Final = OrEmpty(
    Text(what='an amount above zero such as "2", "500m" or "64Mi"', parse=_amount)
)


@attrs.frozen(kw_only=True)
class CostKeys:
    """An item of node_cost: what a device costs of one resource of the node."""

    device: int | None = key(
        AMOUNT, None, "For each device of a claim, which one pod alone can use then."
    )
    capacity: str = key(
        Text(what="the name of a capacity", parse=str),
        "",
        "Capacity of a shared device, such as `slots`: the claim pays for what it consumes of it, "
        "and one pod alone can use it then.",
    )
    times: int | None = key(AMOUNT, None, "For each unit of `capacity`.")
    pod: int | None = key(AMOUNT, None, "For each pod that refers to the claim.")
    container: int | None = key(AMOUNT, None, "For each container that refers to the claim.")

    def check(self, cursor: Cursor, written: Written) -> None:
        """One of two ways to pay by the claim, and anything at all."""
        if written.at_fault:
            return
        if bool(self.capacity) != (self.times is not None):
            lacking = "times" if self.capacity else "capacity"
            cursor.say(f"lacks {lacking}", rule="capacity and times go together")
            return
        if self.device is not None and self.times is not None:
            cursor.at("device").say(
                "is given beside capacity", rule="a claim pays in one of the two ways"
            )
        if (self.device, self.times, self.pod, self.container) == (None,) * 4:
            cursor.say("costs nothing", rule="device, capacity with times, pod or container says")

    @property
    def cost(self) -> NodeCost:
        """The same as a value."""
        return NodeCost(
            device_milli=self.device or 0,
            capacity=self.capacity,
            times_milli=self.times or 0,
            pod_milli=self.pod or 0,
            container_milli=self.container or 0,
        )


@attrs.frozen
class Costs(Form["NodeCosts"]):
    """A table of the node's resources, each with what a device costs of it."""

    @property
    @override
    def label(self) -> str:
        words = listed([each.name for each in attrs.fields(CostKeys)], last="or")
        return f"table of resources, each with {words}"

    @override
    def read(self, value: object, cursor: Cursor) -> NodeCosts | None:
        if not isinstance(value, Mapping):
            cursor.refuse(value, rule='it must be a table such as { cpu = { pod = "500m" } }')
            return None
        read: dict[str, NodeCost] = {}
        for name, raw in value.items():
            here = cursor.at(name)
            resource = _RESOURCE.fullmatch(name)
            if resource is None:
                rule = "they are cpu, memory and hugepages-<size> such as hugepages-2Mi"
                here.say("is no resource of a node", rule=rule)
            keys = Table(CostKeys).read(raw, here)
            if keys is not None:
                read[name] = keys.cost
                if resource is not None:
                    _check_units(name, raw, here)
                    _check_pages(keys, resource["page"] or "", here)
        return read


def _check_units(resource: str, raw: Mapping[str, object], cursor: Cursor) -> None:
    """CPUs are counted by thousandths, and bytes whole."""
    is_cpu, at_fault = resource == "cpu", frozenset(cursor.at_fault())
    for name in _AMOUNTS:
        text = raw.get(name) if name not in at_fault else None
        found = _AMOUNT.fullmatch(text) if isinstance(text, str) else None
        suffix = found[2] if found else None
        if suffix and is_cpu != (suffix == "m"):
            cursor.at(name).refuse(
                text,
                rule='CPUs are whole or thousandths, such as "2" or "500m"'
                if is_cpu
                else 'bytes are whole, such as "1048576" or "64Mi"',
            )


def _check_pages(keys: CostKeys, page: str, cursor: Cursor) -> None:
    """Huge pages are of a size that a kernel can have, and had whole."""
    size_milli = _amount(page)
    if size_milli is None:
        return
    number = int(page[:-2])
    if number & (number - 1) or number >= _NEXT_UNIT:
        # hugepages-2048Ki is the size of a page, and no name that kubelet gives it.
        cursor.say(
            "is no size of a huge page",
            rule="it is a power of two in its largest unit, such as hugepages-2Mi or hugepages-1Gi",
        )
        return
    for name in ("device", "pod", "container"):
        amount = getattr(keys, name)
        if amount is not None and amount % size_milli:
            cursor.at(name).say(
                "is no whole number of pages",
                rule=f"a page has {page}",
                mend=f'write a multiple, such as "{page}"',
            )


COSTS: Final = Costs()
MEANING: Final = (
    "What each device costs the node of its own resources while a pod has it, which the scheduler "
    'takes from the node\'s room: such as `{ "hugepages-2Mi" = { device = "64Mi" }, '
    'cpu = { pod = "500m", container = "100m" } }`. The feature gate `DRANodeAllocatableResources` '
    "(alpha in 1.37) must be on in API server, scheduler and kubelet; an older server, or one with "
    "the gate off, is not told, and the cost is not accounted."
)


def check_capacities(costs: NodeCosts, capacities: Collection[str], cursor: Cursor) -> None:
    """Note costs by capacities of which no claim on the group's devices consumes some.

    Args:
        capacities: Those of which one does; none for devices that one holder has alone.
        cursor: Of the group.
    """
    for name, cost in costs.items():
        if cost.capacity and cost.capacity not in capacities:
            there = listed(list(capacities), last="or") or "none: one claim has a device alone"
            cursor.at("node_cost", name, "capacity").say(
                f'is "{cost.capacity}"', rule=f"what claims consume some of is {there}"
            )


def check_door(costs: NodeCosts, door: Door | None, cursor: Cursor, written: Written) -> None:
    """Warn of costs of a group whose devices no claim can have."""
    if costs and door is Door.PLUGIN and "door" not in written.at_fault:
        cursor.at("node_cost").warn('is not used with door "plugin": only claims are counted')
