"""Devices: what the machine has, and what a slice says of it.

A `Nic` is every network device that discovery saw, offered or not. A `Device` is what is published
of an offered one; it knows nothing of JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, TypeAlias

import attrs

from berth.model.nodecost import NodeCosts


@attrs.frozen
class Version:
    """A semantic version, an attribute kind of its own; strict semver 2.0.0 without ``v``."""

    text: str


Attribute: TypeAlias = bool | int | str | Version
"""Value of one device attribute; strings and versions are at most 64 bytes."""


def by_kind(attributes: Mapping[str, Attribute]) -> tuple[Mapping[str, Attribute], frozenset[str]]:
    """What attributes are compared by: 1 is ``True`` to Python, and another kind to a slice.

    Returns:
        The attributes, and which of them are true or false.
    """
    truths = (name for name, value in attributes.items() if value is True or value is False)
    return attributes, frozenset(truths)


Values: TypeAlias = "tuple[int, ...] | tuple[str, ...]"
"""Several values of one attribute, at least one."""


@attrs.frozen(kw_only=True)
class CapacityRange:
    """Amounts that a request may ask for: ``minimum``, and ``step`` upwards from there."""

    minimum: int
    step: int


@attrs.frozen(kw_only=True)
class Capacity:
    """One capacity of a device, in base units.

    Attributes:
        value: The whole amount.
        default: What a request that does not name it consumes; ``None``: no request policy.
        values: The only amounts allowed, ascending; excludes ``bounds``.
    """

    value: int
    default: int | None = None
    values: tuple[int, ...] = ()
    bounds: CapacityRange | None = None


@attrs.frozen(kw_only=True)
class Taint:
    """Keeps claims that do not tolerate it from being given a device.

    Attributes:
        key: Qualified by a domain.
        effect: ``NoSchedule``, ``NoExecute`` or ``None``.
    """

    key: str
    value: str
    effect: str


@attrs.frozen(kw_only=True)
class CounterSet:
    """What several devices of a pool draw on; the sum of what they draw is never more.

    Attributes:
        name: DNS label, unique in its pool.
        counters: Amounts in base units, by DNS labels; at most 32.
    """

    name: str
    counters: Mapping[str, int]


@attrs.frozen(kw_only=True)
class Consumption:
    """What one device draws from a `CounterSet` while it is allocated.

    Attributes:
        counter_set: Name of the set.
        counters: Amounts in base units, each of a counter of the set.
        groups: Compatibility groups: of devices on one set only such go together as have one in
            common, and one without any goes with none that has some.
    """

    counter_set: str
    counters: Mapping[str, int]
    groups: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Device:
    """One device as its slice tells it.

    Attributes:
        name: DNS label, unique in its pool, the same over reboots and renames.
        identity: What the thing is, physically; also its key in the ledger.
        type: ``nic``, ``nic-shared``, ``nic-vfio``, ``rdma``, ``gpu``, ``mig``, ``vfio``,
            ``generic``.
        attributes: Bare names belong to the driver's domain.
        shared: The device may be allocated to several claims, by its capacities.
        taints: What keeps claims from it for now.
        bucket: Devices of one bucket are placed side by side, so that what changes together is
            written together.
        consumes: At most two.
        only_counted: It is not published where the server takes no counters.
        costs: What it costs the node of its own resources while it is allocated.
        claimed: A claim has it, so it stays published where no taint can keep others from it.
        lists: Attributes that its slice tells as lists, in place of their single values.
        binding: Types of the conditions that must hold of it before a pod that was given it is
            bound.
        failure: Types of those by which a claim's devices are given up; none without the others.
        only_awaited: It is not published where the server drops them.
        skips: What kubelet need not ask of the driver for its claims, in the words of a slice.
    """

    name: str
    identity: str
    type: str
    group: str
    attributes: Mapping[str, Attribute] = attrs.field(eq=by_kind)
    capacity: Mapping[str, Capacity] = attrs.field(factory=dict)
    shared: bool = False
    taints: tuple[Taint, ...] = ()
    bucket: str = ""
    consumes: tuple[Consumption, ...] = ()
    only_counted: bool = False
    costs: NodeCosts = attrs.field(factory=dict)
    claimed: bool = False
    lists: Mapping[str, Values] = attrs.field(factory=dict)
    binding: tuple[str, ...] = ()
    failure: tuple[str, ...] = ()
    only_awaited: bool = False
    skips: tuple[str, ...] = ()


class NicKind(Enum):
    """What sort of network device it is (network.md §1.1)."""

    PF = "pf"
    VF = "vf"
    PCI = "pci"
    USB = "usb"
    VIRTUAL = "virtual"
    RDMA = "rdma"


class NicMode(Enum):
    """How a group hands its NICs out."""

    EXCLUSIVE = "exclusive"
    SHARED = "shared"
    VFIO = "vfio"


RETURNING: Final = "returning"
"""Reason of a device whose claim has ended and that is not at home yet."""

RESTORE_FAILED: Final = "restore-failed"
"""Reason of one that cannot be put back as it was; nobody gets it before."""


@attrs.frozen(kw_only=True)
class Exclusion:
    """Why a device is not offered.

    Attributes:
        reason: One of the words of network.md §1.2.
        detail: The path or the finding, for a person; may be empty.
    """

    reason: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}" if self.detail else self.reason


@attrs.frozen(kw_only=True)
class Nic:
    """One network device that discovery saw, or that a claim holds.

    Attributes:
        identity: ``pci:<address>[/<dev_port>]``, ``usb:<path>`` or ``link:<boot id>:<ifindex>``.
        name: Its name in slices, whether it is in one or not.
        group: The TOML group that selects it; empty when none does.
        ifname: Name at home; empty when it has no link.
        ifindex: Index in the host's namespace; 0 when it has no link there.
        pci: Address of the PCI function behind it; empty when there is none.
        mac: Permanent address, lower case; empty when unknown.
        held_by: Claims that hold it now, as ``namespace/name``.
        exclusion: Why it is not offered; ``None`` when it is.
    """

    identity: str
    name: str
    kind: NicKind
    group: str = ""
    mode: NicMode = NicMode.EXCLUSIVE
    ifname: str = ""
    ifindex: int = 0
    pci: str = ""
    driver: str = ""
    mac: str = ""
    held_by: tuple[str, ...] = ()
    exclusion: Exclusion | None = None
