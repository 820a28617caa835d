"""Peripherals: devices that a container reaches by device nodes, such as GPUs and serial adapters.

A NIC is moved into its pod; a peripheral stays where it is, and its container is given nodes,
mounts and environment. GPUs and the devices of ``[[generic]]`` groups come to this one value, so
that what hands them out (the ledger, both doors) needs to know no kind. So does what the device
plugin hands out of a NIC: whoever moves it, the container is given nodes and environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

import attrs

from berth.model.device import Attribute, Capacity, Consumption, Exclusion, by_kind
from berth.model.edits import Edits

ABSENT: Final = "absent"
"""Why a device that somebody holds is unhealthy: the machine does not show it any more."""

VFIO_GPU: Final = "vfio"
"""Type of a GPU that is given as a PCI function."""

_GROUP: Final = "iommu:"
_NUMBERS: Final = ("chr:", "blk:", _GROUP)
# Begin the keys of device nodes (GH §5.3) and of IOMMU groups, by their numbers.


class Door(Enum):
    """By which of kubelet's interfaces a device is asked for (GH §5.1)."""

    DRA = "dra"
    PLUGIN = "plugin"
    BOTH = "both"

    @property
    def opens_dra(self) -> bool:
        """Whether claims get the device."""
        return self is not Door.PLUGIN

    @property
    def opens_plugin(self) -> bool:
        """Whether ``resources.limits`` get the device."""
        return self is not Door.DRA


@attrs.frozen(kw_only=True)
class PciInfo:
    """What programs in a container, and CNI plugins, are told of a NIC that was given.

    Attributes:
        address: Its PCI address; its slice name where it has none.
        pf: Address of the PF that it is a VF of; empty for others.
        rdma_device: Name of the RDMA device on it; empty without one.
        vhost: Node of the host's packet queue; empty where that is not given.
        sections: What the container's environment says of it, by subject and name.
    """

    address: str
    pf: str = ""
    rdma_device: str = ""
    vhost: str = ""
    sections: Mapping[str, Mapping[str, str]] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class Peripheral:
    """One device that discovery saw and a group selects.

    Attributes:
        identity: What the thing is, physically: the same over reboots and renumbering.
        name: Its name in slices, a DNS label.
        kind: Class of its CDI names: ``gpu``, ``vfio``, ``generic``, ``nic``.
        type: Value of its attribute ``type``: ``gpu``, ``mig``, ``vfio``, ``generic``, ``nic``,
            ``nic-shared``.
        keys: What it is in the ledger; two devices that share a key are never held by two at once.
        door: The doors it is offered at; ``auto`` is decided before.
        resource: Extended resource name at the plugin door; empty when that door is closed.
        ids: Its ids at the plugin door, one for each share; empty when that door is closed.
        slots: How many may hold it at once.
        inject: How a container gets it by the plugin door: ``specs``, ``cdi``, or ``auto`` for
            ``specs`` where these can say all of it.
        many: A container may have several of its shares.
        pack: Its shares are given before those of the next device.
        numa: NUMA nodes that it is near to; empty when the machine does not say.
        pcie_root: PCIe root complex, as in the standard attribute; empty when it is none's.
        links: NVLinks that it has with others, by the slice names of those.
        bearer: What carries it beside others that are spread over all such, as a PF does its VFs;
            empty for a device of its own.
        stays: It keeps its place in the device plugin's list, as unhealthy, while it is excluded.
        guarded: The node may need it itself from one moment to the next, so the machine is looked
            at anew before the device plugin gives it.
        info: What is told of it by its address; ``None`` for what is no NIC.
        consumes: What it draws from counter sets while it is allocated.
        only_counted: It is another form of something, and offered to claims only where counters
            keep the scheduler from giving both.
        edits: What a container gets of it, by what the machine shows now.
        admin: What a container gets that only looks at it (``adminAccess``).
        common: What a container gets once, however many devices of ``kind`` it has.
        path: Its node or PCI address, for people.
        exclusion: Why it is not offered; ``None`` when it is.
        unhealthy: Why it is offered as unhealthy, such as ``absent``; empty when it is well.
        lacking: Nodes that its containers need and whose numbers nobody knows now.
        held_by: Who has it now, in words for people.
    """

    identity: str
    name: str
    kind: str
    type: str
    group: str
    keys: tuple[str, ...]
    door: Door = Door.DRA
    resource: str = ""
    ids: tuple[str, ...] = ()
    slots: int = 1
    inject: str = "auto"
    many: bool = False
    pack: bool = False
    numa: tuple[int, ...] = ()
    pcie_root: str = ""
    links: Mapping[str, int] = attrs.field(factory=dict)
    bearer: str = ""
    stays: bool = False
    guarded: bool = False
    info: PciInfo | None = None
    attributes: Mapping[str, Attribute] = attrs.field(factory=dict, eq=by_kind)
    capacity: Mapping[str, Capacity] = attrs.field(factory=dict)
    consumes: tuple[Consumption, ...] = ()
    only_counted: bool = False
    edits: Edits = attrs.field(factory=Edits)
    admin: Edits = attrs.field(factory=Edits)
    common: Edits = attrs.field(factory=Edits)
    path: str = ""
    exclusion: Exclusion | None = None
    unhealthy: str = ""
    lacking: tuple[str, ...] = ()
    held_by: tuple[str, ...] = ()

    @property
    def obstacle(self) -> str:
        """Why nobody can be given it now, whoever holds it, in words; empty when nothing does."""
        if not self.hindrance and self.unhealthy:
            return f"is unhealthy ({self.unhealthy})"
        return self.hindrance

    @property
    def hindrance(self) -> str:
        """Why nobody can even look at it now: a monitor looks at what is not well, too."""
        if self.exclusion is not None:
            return f"is not offered now ({self.exclusion})"
        if self.unhealthy == ABSENT:
            return "is not seen on this node"
        if self.lacking:
            return f"needs {', '.join(self.lacking)}, whose number the machine does not tell"
        return ""

    @property
    def is_by_cdi(self) -> bool:
        """Whether a container that asked by the plugin door gets it by a CDI file.

        Kubelet's answer has no place for hooks and groups.
        """
        beyond = any(edits.hooks or edits.gids for edits in (self.edits, self.common))
        # A CDI file names no device that a container gets nothing of.
        wanted = self.inject == "cdi" and bool(self.edits)
        return wanted or (self.inject == "auto" and beyond)

    @property
    def bundle(self) -> str:
        """Key of the IOMMU group that is given with it as a whole; empty without one."""
        return next((key for key in self.keys if key.startswith(_GROUP)), "")

    @property
    def is_listed(self) -> bool:
        """Whether the device plugin lists it: offered there, or held through it."""
        if self.door is Door.DRA:
            return False
        return self.exclusion is None or self.stays or bool(self.held_by)

    def absent(self) -> Peripheral:
        """The device when it was removed while it is held: names and keys stay, its nodes do not.

        The numbers may be another device's by now, so nothing of it can be handed out.
        """
        gone = Edits()
        return attrs.evolve(self, unhealthy=ABSENT, exclusion=None, edits=gone, admin=gone)

    def after_reboot(self) -> Peripheral:
        """The device with those of its keys that mean the same in another boot.

        Numbers of nodes and groups are dealt anew, so they may be another device's by now.
        """
        keys = tuple(key for key in self.keys if not key.startswith(_NUMBERS))
        return attrs.evolve(self, keys=keys)
