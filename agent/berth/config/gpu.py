"""The ``[gpu]`` table: whether GPUs are offered, at which door, and which are offered otherwise.

Every GPU is offered as the table says; a group changes that for the GPUs, MIG devices or VFIO
functions that it selects. So a node with GPUs needs no group at all.

Contract: GH §1.7 (sharing), §2.2 (library), §2.6 (session), §3 (CDI), §5.1 (doors).
"""

from __future__ import annotations

from enum import Enum
from itertools import combinations
from pathlib import Path
from typing import Final

import attrs

from berth.config.decode import Written, key, table, tables
from berth.config.doors import Door, Inject, resource
from berth.config.finding import Cursor, toml_text
from berth.config.forms import (
    PATH,
    Choice,
    Flag,
    OnlyDefault,
    OrEmpty,
    Text,
    Whole,
    listed,
)
from berth.config.gpumatch import GpuMatch, GpuType
from berth.config.health import Times
from berth.config.match import DNS_LABEL
from berth.config.nodecost import COSTS, MEANING, check_capacities, check_door
from berth.config.skip import Skip, never
from berth.model.nodecost import NodeCosts


def usual_resource(form: GpuType, profile: str, *, shared: bool) -> str:
    """The resource of GPUs of a form, where their group names none.

    Args:
        profile: Of a MIG device; empty where it is not known.
    """
    name = form.value
    if form is GpuType.MIG and profile:
        name = f"mig-{profile.replace('+', '.')}"
    return f"nvidia.com/{name}{'.shared' if shared else ''}"


class Session(Enum):
    """Whether NVML stays open."""

    HOLD = "hold"
    PROBE = "probe"


class Occupancy(Enum):
    """Whether the driver is asked who computes on a GPU before it is given."""

    OFF = "off"
    CHECK = "check"


class CdiSource(Enum):
    """Who says what a container needs besides its device nodes."""

    AUTO = "auto"
    NVIDIA_CTK = "nvidia-ctk"
    BUILTIN = "builtin"


class ShareMemory(Enum):
    """What a claim on a shared GPU consumes of its memory unless it says so."""

    DIVIDE = "divide"
    FREE = "free"


class Prefer(Enum):
    """Which GPU the next share comes from."""

    SPREAD = "spread"
    PACK = "pack"


def _door(text: str) -> Door | None:
    return next((door for door in Door if door.value == text), None)


DOOR: Final = OrEmpty(Text(what=listed([toml_text(door) for door in Door], last="or"), parse=_door))
"""The way by which devices reach pods; empty for that of the table around."""

RESOURCE: Final = resource("nvidia.com/gpu")


@attrs.frozen(kw_only=True)
class GpuShare:
    """share: how one GPU is held by several. Nothing isolates them from each other."""

    slots: int = key(
        Whole(least=1, most=1024),
        1,
        "Most holders of one device at once; 1: it is not shared. "
        "Neither memory nor time nor faults are kept apart: a fault hits every holder.",
    )
    memory: ShareMemory = key(
        Choice(kind=ShareMemory),
        ShareMemory.DIVIDE,
        "What a claim that names no memory consumes: `divide`: an equal part; `free`: nothing. "
        "It is accounted, not enforced.",
    )
    many: bool = key(
        Flag(),
        False,
        "Whether a container may have several shares of one GPU through the device plugin. "
        "It gives no more speed.",
    )
    prefer: Prefer = key(
        Choice(kind=Prefer),
        Prefer.SPREAD,
        "Which share the device plugin prefers: `spread`: of another GPU; `pack`: of the same.",
    )

    def check(self, cursor: Cursor, written: Written) -> None:
        """What says how shares are given needs more than one."""
        if self.slots > 1 or "slots" in written.at_fault:
            return
        plain = GpuShare()
        for name in ("memory", "many", "prefer"):
            if getattr(self, name) != getattr(plain, name):
                cursor.at(name).say("is given without shares", mend="give slots above 1")


@attrs.frozen(kw_only=True)
class GpuVfio:
    """vfio: GPUs for virtual machines."""

    rebind: bool = key(
        Flag(),
        False,
        "Whether a GPU is bound to vfio-pci when a claim asks for that, and given back to its "
        "driver afterwards; else only GPUs that are bound to it already are offered so. "
        "Needs a server that takes counters (Kubernetes 1.36), which keep both forms apart.",
    )
    iommufd: bool = key(
        Flag(),
        False,
        "Whether a container that asked for the GPU as a resource gets `/dev/iommu` and the "
        "function's own node in place of that of its IOMMU group. A claim says so itself.",
    )


@attrs.frozen(kw_only=True)
class GpuMig:
    """mig: parts of GPUs."""

    create: bool = key(
        OnlyDefault(Flag(), False),
        False,
        "Whether MIG devices are made as claims ask for them; "
        "else those are offered that an operator made.",
    )


@attrs.frozen(kw_only=True)
class GpuGroup:
    """[[gpu.group]]: devices that are offered otherwise than `[gpu]` says."""

    name: str = key(
        DNS_LABEL,
        "",
        "Name of the group, published as the attribute `group`; no two are alike.",
        required=True,
    )
    match: GpuMatch = table(
        GpuMatch,
        "Which devices belong to the group: all conditions given must hold, "
        "the items of one are alternatives.",
        required=True,
    )
    door: Door | None = key(
        DOOR, None, "The way by which the devices reach pods; that of `[gpu]` when empty."
    )
    resource: str = key(
        RESOURCE,
        "",
        "Extended resource under which the device plugin offers them. "
        "Empty: `nvidia.com/gpu`, `nvidia.com/mig-<profile>` or `nvidia.com/vfio`, "
        "with `.shared` behind it when they are shared.",
        known_as=("resourceName",),
    )
    inject: Inject = key(
        Choice(kind=Inject),
        Inject.AUTO,
        "How a device of the plugin comes into its container. "
        "`auto`: by CDI where the runtime takes it, else by device specs.",
    )
    skip_node_operations: Skip = key(
        never(
            "prepare writes the CDI file by which a GPU and its driver's libraries reach a "
            "container, or binds it to vfio-pci, and unprepare undoes that"
        ),
        Skip.NONE,
        "What kubelet does without asking berth: for GPUs, nothing.",
    )
    share: GpuShare = table(GpuShare, "How one GPU is held by several.")
    vfio: GpuVfio = table(GpuVfio, "GPUs for virtual machines.")
    mig: GpuMig = table(GpuMig, "Parts of GPUs.")
    node_cost: NodeCosts = key(COSTS, {}, MEANING)
    health: Times = table(Times, "How the devices are watched.")

    def check(self, cursor: Cursor, written: Written) -> None:
        """A VFIO function belongs to one machine."""
        if self.share.slots > 1 and self.match.type == (GpuType.VFIO,):
            cursor.at("share").say(
                "is given for VFIO alone", rule="a virtual machine has its GPU for itself"
            )
        if self.resource and self.door is Door.DRA and "resource" not in written.at_fault:
            cursor.at("resource").warn('is not used with door "dra"')
        shared = ("slots", "memory") if self.share.slots > 1 else ()
        check_capacities(self.node_cost, shared, cursor)
        check_door(self.node_cost, self.door, cursor, written)
        if self.vfio.iommufd and self.door is Door.DRA and "door" not in written.at_fault:
            cursor.at("vfio", "iommufd").warn(
                'is not used with door "dra": a claim says so by its VfioConfig'
            )
        if self.vfio.rebind:
            self._check_rebind(cursor.at("vfio", "rebind"), written)

    def _check_rebind(self, cursor: Cursor, written: Written) -> None:
        """Binding is for claims, on GPUs that one holder has alone."""
        types, profiles = self.match.type, self.match.profile
        if (types and GpuType.VFIO not in types) or (profiles and "vfio" not in profiles):
            cursor.say(
                "is true, and match selects no function for virtual machines",
                rule='the group that selects type "vfio" lets claims have GPUs bound',
                mend='add "vfio" to match.type or match.profile, or drop the line',
            )
        if self.share.slots > 1:
            cursor.say(
                "is true for GPUs in shares",
                rule="a GPU is bound for one holder",
                mend="drop it, or share",
            )
        if self.door is Door.PLUGIN and "door" not in written.at_fault:
            cursor.say(
                'is true with door "plugin"', rule="only a claim has a GPU bound", mend="drop it"
            )


def _check_groups(groups: tuple[GpuGroup, ...], cursor: Cursor) -> None:
    """What must hold among groups: names differ, no GPU is named twice, shares have own names."""
    for (first, one), (second, other) in combinations(enumerate(groups, start=1), 2):
        here = cursor.at(second - 1)
        if one.name and one.name == other.name:
            here.at("name").say(
                f'is "{other.name}", as is that of group {first}', mend="choose another name"
            )
        _check_twice(one, other, here, first)
        if other.resource and other.resource == one.resource and _mixed(one, other):
            here.at("resource").say(
                f'is "{other.resource}", as is that of group {first}',
                rule="one is shared and the other is not",
                mend="choose another name",
            )


def _check_twice(one: GpuGroup, other: GpuGroup, here: Cursor, first: int) -> None:
    """A device that both name, and no other condition tells apart."""
    mine, theirs = (attrs.evolve(group.match, uuid=(), pci=()) for group in (one, other))
    if mine != theirs:
        return
    for name in ("uuid", "pci"):
        for thing in getattr(other.match, name):
            if thing in getattr(one.match, name):
                here.at("match", name).say(
                    f"takes {thing}, as does group {first}",
                    rule="a device belongs to one group",
                    mend="drop it from one of the two",
                )


def _mixed(one: GpuGroup, other: GpuGroup) -> bool:
    return (one.share.slots > 1) != (other.share.slots > 1)


@attrs.frozen(kw_only=True)
class GpuCdi:
    """cdi: what a container gets besides device nodes."""

    source: CdiSource = key(
        Choice(kind=CdiSource),
        CdiSource.AUTO,
        "Who says which libraries and files a container needs. "
        "`auto`: `nvidia-ctk` where it is installed and its answer passes the checks, "
        "else berth's own list.",
    )


@attrs.frozen(kw_only=True)
class GpuTable:
    """[gpu]: NVIDIA GPUs."""

    enabled: bool = key(Flag(), True, "Whether GPUs are looked for and offered.")
    library: Path | None = key(
        OrEmpty(PATH),
        None,
        "File of the driver's management library, libnvidia-ml.so.1; "
        "where the system's linker finds it when empty.",
    )
    session: Session = key(
        Choice(kind=Session),
        Session.HOLD,
        "`hold`: the library stays open, which events need. "
        "`probe`: it is opened for each look, so that nothing hinders a reset in between.",
    )
    door: Door = key(
        Choice(kind=Door),
        Door.DRA,
        "The way by which GPUs reach pods. `dra`: claims. "
        "`plugin`: resource limits such as `nvidia.com/gpu`. "
        "`auto`: claims where the cluster serves them, else limits. `both`: either.",
    )
    graphics: bool = key(
        Flag(), False, "Whether containers get the GPU's nodes for graphics, `/dev/dri/…`, as well."
    )
    dev_char_links: bool = key(
        Flag(),
        True,
        "Whether links `/dev/char/<major>:<minor>` are made for nodes that are handed out. "
        "Without them containers lose their GPU when systemd is reloaded.",
    )
    occupancy: Occupancy = key(
        Choice(kind=Occupancy),
        Occupancy.OFF,
        "`check`: a whole GPU is refused while the driver tells of a process on it that no holder "
        "explains. `off`: it is not asked.",
    )
    compatibility_groups: bool = key(
        Flag(),
        False,
        "Whether parts tell the scheduler by compatibility groups with what they go together. "
        "The feature gate `DRADeviceCompatibilityGroups` (alpha in 1.37) must be on in API server "
        "and scheduler: a scheduler without it passes the whole node over.",
    )
    partition_type: bool = key(
        Flag(),
        False,
        "Whether slices say that the attribute `profile` tells what part of its GPU a device is "
        "(`partitionTypeAttribute`), for summaries of pools. "
        "An API server without the gate `DRAPartitionableDevicesType` (alpha in 1.37) drops it.",
    )
    cdi: GpuCdi = table(GpuCdi, "What a container gets besides device nodes.")
    groups: tuple[GpuGroup, ...] = tables(
        GpuGroup,
        "Devices that are offered otherwise than `[gpu]` says.",
        name="group",
        check=_check_groups,
    )
