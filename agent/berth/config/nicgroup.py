"""One ``[[nic.group]]``: NICs that are offered alike, and what its keys may say together.

Contract: network.md §1.4, §9. ``defaults`` and ``claims_may`` speak of a claim's own configuration,
which the ``nic`` package reads and checks; here they are kept as written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

import attrs

from berth.config.attributes import OwnAttributes
from berth.config.bandwidth import BANDWIDTH, MEGABIT
from berth.config.bind import BindWhen, NicBind
from berth.config.decode import Written, key, table
from berth.config.doors import Door, Inject, resource
from berth.config.finding import Cursor
from berth.config.forms import AnyTable, Choice, Flag, OrEmpty, Several, Text, Whole
from berth.config.health import NicHealth
from berth.config.match import DNS_LABEL, NicMatch
from berth.config.nodecost import COSTS, MEANING, check_capacities, check_door
from berth.config.skip import Skip, never
from berth.model.device import Attribute, NicKind, NicMode
from berth.model.nodecost import NodeCosts

SLOTS_LIMIT: Final = 1024
"""Most claims that may be let use one parent at once."""


class Attach(Enum):
    """Who moves a NIC that was asked for as a resource into its pod."""

    CNI = "cni"
    NRI = "nri"


class Scrub(Enum):
    """What is done to a NIC between two holders."""

    RESTORE = "restore"
    REBIND = "rebind"


class ChildKind(Enum):
    """Kinds of link that are made over a shared parent."""

    MACVLAN = "macvlan"
    IPVLAN = "ipvlan"
    VLAN = "vlan"


def _field(text: str) -> str | None:
    return text if re.fullmatch(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*", text) else None


_FIELD = Text(what='a field of NicConfig such as "rules"', parse=_field)


@attrs.frozen(kw_only=True)
class NicShared:
    """shared: how a parent is divided among claims."""

    slots: int = key(
        Whole(least=1, most=SLOTS_LIMIT), 32, "Most claims that use the parent at once."
    )
    children: tuple[ChildKind, ...] = key(
        Several(item=Choice(kind=ChildKind), least=1),
        (ChildKind.MACVLAN,),
        "Kinds of link that may be made over the parent; "
        "the first is made unless the claim says otherwise. "
        "macvlan and ipvlan are not made over one parent.",
    )
    bandwidth: int | None = key(
        OrEmpty(BANDWIDTH),
        None,
        'Bandwidth of the parent, such as `"25G"`, which the scheduler divides among claims. '
        "It is accounted, not enforced. Empty: not accounted.",
        unit="bit/s",
    )

    def check(self, cursor: Cursor, written: Written) -> None:
        """Children must bear each other, and each slot come to a step of bandwidth."""
        if {ChildKind.MACVLAN, ChildKind.IPVLAN} <= {*self.children}:
            cursor.at("children").say(
                "holds macvlan and ipvlan",
                rule="a parent carries only one of the two",
                mend="make two groups, with a parent each",
            )
        if self.bandwidth is None or "slots" in written.at_fault:
            return
        if self.bandwidth < self.slots * MEGABIT:
            cursor.at("bandwidth").say(
                f"is less than 1M for each of {self.slots} slots",
                rule="1M is the least that a claim takes",
                mend="give fewer slots or more bandwidth",
            )


@attrs.frozen(kw_only=True)
class NicGroup:
    """[[nic.group]]: NICs that are offered alike."""

    name: str = key(
        DNS_LABEL,
        "",
        "Name of the group, published as the attribute `group`; no two are alike.",
        required=True,
    )
    match: NicMatch = table(
        NicMatch,
        "Which NICs belong to the group: all conditions given must hold, "
        "the items of one are alternatives.",
        required=True,
    )
    excepts: tuple[str, ...] = key(
        Several(item=DNS_LABEL),
        (),
        "Groups further up in the file whose NICs this one leaves to them: "
        "whatever meets their conditions is not taken, also when it meets these.",
        name="except",
        known_as=("exclude", "excepts", "not"),
    )
    mode: NicMode = key(
        Choice(kind=NicMode),
        NicMode.EXCLUSIVE,
        "`exclusive`: the NIC moves into one pod. "
        "`shared`: it stays at home and claims get links made over it. "
        "`vfio`: it is bound to vfio-pci for its claim, and given back to its driver afterwards; "
        'with `door = "plugin"` it is given as what it is, if vfio-pci has it already.',
    )
    allow_noiommu: bool = key(
        Flag(),
        False,
        "With mode `vfio`: whether NICs are given without an IOMMU. "
        "Nothing then keeps their DMA from the node's memory.",
    )
    door: Door = key(
        Choice(kind=Door),
        Door.DRA,
        "How the NICs are asked for. `dra`: by claims. `plugin`: as a resource. "
        "`both`: either, and the node sees to it that no two get one. "
        "`auto`: by claims where the cluster knows them, else as a resource.",
    )
    resource: str = key(
        resource("vendor.example/fast_nic"),
        "",
        "Name of the resource. Empty: the driver's name, a slash and the group's.",
        known_as=("resourceName",),
    )
    attach: Attach = key(
        Choice(kind=Attach),
        Attach.CNI,
        "Who moves a NIC that was asked for as a resource. "
        "`cni`: a CNI plugin, which is told its address; berth hands it out and puts back what the "
        "plugin left changed. `nri`: berth, as it does for claims, by `defaults`.",
    )
    skip_node_operations: Skip = key(
        never(
            "prepare makes a NIC ready, and has it moved into its pod or bound to a driver, and "
            "unprepare brings it home"
        ),
        Skip.NONE,
        "What kubelet does without asking berth: for NICs, nothing.",
    )
    exclude_topology: bool = key(
        Flag(),
        False,
        "Whether kubelet is not told the NUMA node of a NIC that is asked for as a resource.",
        known_as=("excludeTopology",),
    )
    inject: Inject = key(
        Choice(kind=Inject),
        Inject.AUTO,
        "How device nodes of a NIC that was asked for as a resource get into the container. "
        "`specs`: kubelet tells the runtime. `cdi`: the runtime reads it from a file. "
        "`auto`: `specs`, which every runtime takes.",
    )
    vhost: bool = key(
        Flag(),
        False,
        "Whether a container that asked for the NIC as a resource gets `/dev/vhost-net` and "
        "`/dev/net/tun` too.",
        known_as=("needVhostNet",),
    )
    order: int = key(
        Whole(least=-1000, most=1000),
        0,
        "Groups of a lower number are published first, and first fit takes them first. "
        "Among equals dedicated NICs come before shared parents, "
        "then the order of the file decides.",
    )
    attributes: Mapping[str, Attribute] = key(
        OwnAttributes(),
        {},
        "Own attributes of the devices, for selectors: text, whole numbers, true or false, "
        'or `{ version = "1.2.3" }`.',
    )
    take_configured: bool = key(
        Flag(),
        False,
        "Whether NICs are offered that carry an address or a static route of the host.",
    )
    claims_may: tuple[str, ...] = key(
        Several(item=_FIELD),
        (),
        "Guarded fields that the author of a claim may set; else only a DeviceClass may.",
    )
    claims_deny: tuple[str, ...] = key(
        Several(item=_FIELD), (), "Other fields that the author of a claim may not set."
    )
    defaults: Mapping[str, Any] = key(
        AnyTable("table: a NicConfig without apiVersion and kind"),
        {},
        "Settings that hold for every claim on the group unless a class or claim sets them, "
        'and for every NIC that is asked for as a resource with `attach = "nri"`. '
        "With mode `vfio` those below `vfio` hold for one that is asked for as a resource, too.",
    )
    scrub: Scrub = key(
        Choice(kind=Scrub),
        Scrub.RESTORE,
        "What is done when a NIC that berth moved comes home. `restore`: everything is set as it "
        "was before. `rebind`: the driver of a VF is bound anew besides, so that rings, flow rules "
        "and whatever else a pod set are gone; other NICs are restored. With mode `exclusive`.",
    )
    beside_vfs: bool = key(
        Flag(),
        False,
        "Whether a PF that has VFs is offered beside them, to claims alone: a pod has the PF while "
        "nobody has one of its VFs, or pods have these while nobody has the PF. "
        "Needs a server that takes counters (Kubernetes 1.36); elsewhere the PF is not offered. "
        "With mode `exclusive`.",
    )
    node_cost: NodeCosts = key(COSTS, {}, MEANING)
    health: NicHealth = table(NicHealth, "How the NICs are watched, and what counts as sick.")
    bind: NicBind = table(NicBind, "What the binding of a pod waits for, once it was given a NIC.")
    shared: NicShared = table(NicShared, "How a parent is divided; with mode `shared`.")

    def check(self, cursor: Cursor, written: Written) -> None:
        """Tables that go with a mode, and fields that are both given and taken away."""
        unshared = "mode" not in written.at_fault and self.mode is not NicMode.SHARED
        if unshared and "shared" in written.given:
            cursor.at("shared").say(
                f'is given with mode "{self.mode.value}"',
                rule='it says how a parent of mode "shared" is divided',
                mend='write mode = "shared", or drop it',
            )
        if self.allow_noiommu and "mode" not in written.at_fault and self.mode is not NicMode.VFIO:
            cursor.at("allow_noiommu").say(
                f'is given with mode "{self.mode.value}"', rule='it goes with mode "vfio"'
            )
        unmoved = "mode" not in written.at_fault and self.mode is not NicMode.EXCLUSIVE
        if self.scrub is Scrub.REBIND and unmoved:
            cursor.at("scrub").say(
                f'is "rebind" with mode "{self.mode.value}"', rule='it goes with mode "exclusive"'
            )
        if self.beside_vfs:
            self._check_beside_vfs(cursor.at("beside_vfs"), written)
        for name in ("resource", "attach", "exclude_topology", "inject", "vhost"):
            if name in written.given and self.door is Door.DRA and "door" not in written.at_fault:
                cursor.at(name).warn('is not used with door "dra"')
        if self.mode is NicMode.VFIO:
            self._check_vfio(cursor, written)
        check_capacities(self.node_cost, self.capacities, cursor)
        check_door(self.node_cost, self.door, cursor, written)
        if self.bind.is_wanted and self.door is Door.PLUGIN and "door" not in written.at_fault:
            cursor.at("bind").warn(
                'is not used with door "plugin": no scheduler waits for a resource'
            )
        for field in sorted({*self.claims_may} & {*self.claims_deny}):
            cursor.at("claims_deny").say(
                f'holds "{field}", which claims_may holds as well', mend="drop one of the two"
            )

    def _check_beside_vfs(self, cursor: Cursor, written: Written) -> None:
        """Counters are for claims, on a PF that one holder has alone."""
        if self.mode is not NicMode.EXCLUSIVE and "mode" not in written.at_fault:
            rule = (
                "what is made over a parent stands beside its VFs anyway"
                if self.mode is NicMode.SHARED
                else "a PF that is bound to vfio-pci loses its VFs"
            )
            cursor.say(f'is true with mode "{self.mode.value}"', rule=rule, mend="drop it")
        if self.door is not Door.DRA and "door" not in written.at_fault:
            cursor.say(
                f'is true with door "{self.door.value}"',
                rule="only the scheduler counts, and only for claims",
                mend='write door = "dra", or drop it',
            )
        kinds = self.match.kind
        if self.match.pf or (kinds and NicKind.PF not in kinds):
            cursor.say(
                "is true, and match selects no PF",
                rule="it is for PFs; match.pf selects the VFs of one",
                mend='write match.kind = ["pf"] and the PF\'s name or address, or drop it',
            )

    @property
    def capacities(self) -> tuple[str, ...]:
        """Names of the capacities of which each claim on one of its NICs consumes some."""
        if self.mode is not NicMode.SHARED:
            return ()
        return ("slots",) if self.shared.bandwidth is None else ("slots", "bandwidth")

    def _check_vfio(self, cursor: Cursor, written: Written) -> None:
        """What a function that vfio-pci has cannot be asked for by, or have done to it."""
        if self.door in {Door.BOTH, Door.AUTO} and "door" not in written.at_fault:
            cursor.at("door").say(
                f'is "{self.door.value}" with mode "{self.mode.value}"',
                rule="a claim has its NIC bound to vfio-pci, a resource is what is bound already",
                mend='write door = "dra", or "plugin" for NICs that you have bound yourself',
            )
        if self.bind.when is BindWhen.LINK_UP:
            cursor.at("bind", "when").say(
                'is "link-up" with mode "vfio"',
                rule="what vfio-pci has comes with no link",
                mend='write when = "command"',
            )
        if self.door is Door.PLUGIN and self.attach is Attach.NRI:
            cursor.at("attach").say(
                f'is "{self.attach.value}" with mode "{self.mode.value}"',
                rule="what vfio-pci has comes with no link that could be moved",
                mend="drop it",
            )
