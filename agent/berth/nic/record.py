"""What is remembered of a NIC that a claim holds: where it is, how it was, how it shall be.

The stage says how far things went, and is written before the step that it announces, so at each
crash point the truth is at the recorded stage or one step beyond it::

    reserved -> staged -> attaching -> attached -> returning -> home
                  ^                                               |
                  +-----------------------------------------------+   (a new sandbox of the pod)

``lost`` ends it from anywhere: the device itself is gone.

A NIC that a CNI plugin moves is ``lent`` instead, from before it was given until it is put back;
where it is meanwhile is that plugin's affair.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import attrs

from berth.host.netlink.address import Address
from berth.host.netlink.link import Offload
from berth.host.netlink.neighbor import Neighbor
from berth.host.netlink.route import Route
from berth.host.netlink.vf import Vf
from berth.model.claim import NetworkData
from berth.nic.config.values import NicConfig
from berth.nic.vf import VfSeat


class Stage(Enum):
    """How far a NIC is on its way into a pod and home."""

    RESERVED = "reserved"
    STAGED = "staged"
    ATTACHING = "attaching"
    ATTACHED = "attached"
    RETURNING = "returning"
    HOME = "home"
    LOST = "lost"
    LENT = "lent"


class ScrubStep(Enum):
    """What is done to a VF next whose driver is bound anew on its way home."""

    UNBIND = "unbind"
    PROBE = "probe"


@attrs.frozen(kw_only=True)
class SandboxRef:
    """The sandbox that a NIC is moved into.

    Attributes:
        id: The runtime's id, by which late events of another sandbox are told apart.
        netns_path: The pinned namespace.
        netns_inode: Its inode, since a path can be used again by another namespace.
    """

    id: str
    pod_uid: str
    pod: str
    netns_path: str
    netns_inode: int


@attrs.frozen(kw_only=True)
class Originals:
    """How a link was at home before we touched it; read once, at the claim's first prepare.

    Attributes:
        index: Interface index at home.
        mac: Hardware address in use then, which need not be the permanent one.
        broadcast: Hardware broadcast address; empty when it was not told.
        perm_mac: Hardware address burnt in; empty where there is none.
        port_name: Tells the links of a function with several ports apart; empty for one port.
        flags: IFF_UP, PROMISC, ALLMULTI, NOARP and MULTICAST of it; the rest is the kernel's.
        addresses: Permanent addresses that are not link-local.
        routes: Routes through it that are not the kernel's, a router's or a redirect's.
        neighbors: Permanent ones.
        sysctls: Per-interface settings that differ from the namespace's default, by
            ``ipv4/<name>`` and ``ipv6/<name>``.
        switches: What ethtool can turn of it, by ``feature/<name>`` and ``flag/<name>``.
        xdp_program_id: 0 when none was attached.
        driver: Kernel driver of its device; empty for virtual links.
        vf: What was set of it through its PF, for a VF whose PF is here.
    """

    name: str
    index: int
    kind: str
    mtu: int
    mac: str
    flags: int
    txqlen: int
    group: int
    alias: str
    broadcast: str = ""
    perm_mac: str = ""
    port_name: str = ""
    altnames: tuple[str, ...] = ()
    offload: Offload = attrs.field(factory=Offload)
    addresses: tuple[Address, ...] = ()
    routes: tuple[Route, ...] = ()
    neighbors: tuple[Neighbor, ...] = ()
    sysctls: Mapping[str, int] = attrs.field(factory=dict)
    switches: Mapping[str, bool] = attrs.field(factory=dict)
    xdp_program_id: int = 0
    driver: str = ""
    vf: Vf | None = None


@attrs.frozen(kw_only=True)
class NicRecord:
    """One NIC of a claim.

    Attributes:
        identity: What it physically is; for a child, what its parent is.
        device: Its slice name, for messages.
        group: The TOML group that gave it; kept while it is held.
        config: How it shall be in the pod, resolved: every default and name is in it.
        parent_device: Name of the device that carries the link, as netlink tells it in every
            namespace (``0000:41:00.0``, ``virtio3``); empty for virtual links.
        originals: ``None`` for a child, which is made and unmade, and before they are read.
        parent_index: A child's parent at home; 0 for a link that is moved.
        seat: Where a VF hangs; ``None`` for other NICs, and while its PF's link is not seen.
        stage: See the module's text.
        sandbox: Where it is or was meant to go last.
        pod_index: Interface index in the sandbox, once known.
        network: How it looks in the pod; ``None`` while it is not attached.
        carrier: Whether it had carrier when that was looked at last in the pod.
        announced: The network was told of its addresses in the pod, when it could hear.
        vrf_table: Routing table of its VRF in the pod; 0 for none, and before it is known.
        duplicates: Its addresses in the pod that another station holds, in text.
        fault: Why the last step failed, for people; empty when it did not.
        scrub: Its driver is bound anew when it comes home from a pod.
        scrub_step: How far that has come; ``None`` while nothing of it was begun.
        home_name: Name at home now where the original one was taken; empty when it has its own.
    """

    identity: str
    device: str
    group: str
    config: NicConfig
    boot_id: str
    parent_device: str = ""
    originals: Originals | None = None
    parent_index: int = 0
    seat: VfSeat | None = None
    stage: Stage = Stage.RESERVED
    sandbox: SandboxRef | None = None
    pod_index: int = 0
    network: NetworkData | None = None
    carrier: bool = False
    announced: bool = False
    vrf_table: int = 0
    duplicates: tuple[str, ...] = ()
    fault: str = ""
    scrub: bool = False
    scrub_step: ScrubStep | None = None
    home_name: str = ""

    @property
    def config_there(self) -> NicConfig:
        """Its configuration with what was found for it in the pod it is in."""
        if not self.vrf_table:
            return self.config
        vrf = attrs.evolve(self.config.vrf, table=self.vrf_table)
        return attrs.evolve(self.config, vrf=vrf)

    @property
    def is_child(self) -> bool:
        """Made over a parent that stays at home, instead of moved."""
        return self.parent_index != 0

    def is_same(self, other: NicRecord) -> bool:
        """Whether it is the same NIC of the same pod; two children of one parent have two names."""
        mine, theirs = self.config.interface.name, other.config.interface.name
        return (self.identity, mine) == (other.identity, theirs)

    @property
    def is_away(self) -> bool:
        """Not known to be at home as it was: in a pod, or on its way in or out."""
        return self.stage in {Stage.ATTACHING, Stage.ATTACHED, Stage.RETURNING}

    @property
    def is_touched(self) -> bool:
        """Something was done to it, or may have been, that is not known to be undone."""
        begun = self.stage is Stage.RESERVED and self.originals is not None
        return self.is_away or begun or self.stage in {Stage.STAGED, Stage.LENT}
