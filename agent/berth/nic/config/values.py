"""What a NIC shall be in its pod: the values that a claim's configuration becomes.

Attributes are named as the fields of the configuration are, in Python's manner (``noDAD`` becomes
``no_dad``), so that one table of fields (`berth.nic.config.fields`) reads and writes them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
)
from typing import Final, TypeAlias

import attrs

from berth.model.claim import ClaimRef
from berth.vfio.wayin import WayIn

Ip: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network
HostAddress: TypeAlias = IPv4Interface | IPv6Interface

MAIN_TABLE: Final = 254
"""The routing table ``main``. Source: Linux ``include/uapi/linux/rtnetlink.h``."""


class AttachMode(Enum):
    """How a pod gets the NIC."""

    MOVE = "move"
    MACVLAN = "macvlan"
    IPVLAN = "ipvlan"
    VLAN = "vlan"
    VFIO = "vfio"

    @property
    def is_child(self) -> bool:
        """A link is made over the NIC, which stays at home."""
        return self in {AttachMode.MACVLAN, AttachMode.IPVLAN, AttachMode.VLAN}


class MacvlanMode(Enum):
    """How children of one parent reach each other."""

    BRIDGE = "bridge"
    PRIVATE = "private"
    VEPA = "vepa"
    PASSTHRU = "passthru"


class IpvlanMode(Enum):
    """On which layer ipvlan children of a parent are told apart, and who routes for them."""

    L2 = "l2"
    L3 = "l3"
    L3S = "l3s"


class IpvlanFlag(Enum):
    """How ipvlan children of one parent reach each other."""

    BRIDGE = "bridge"
    PRIVATE = "private"
    VEPA = "vepa"


class VlanProtocol(Enum):
    """How a VLAN's tag is told from other packets."""

    Q = "802.1Q"
    AD = "802.1ad"


VLAN_ETHERTYPES: Final[Mapping[VlanProtocol, int]] = {
    VlanProtocol.Q: 0x8100,
    VlanProtocol.AD: 0x88A8,
}
"""EtherTypes of the tags. Source: Linux ``include/uapi/linux/if_ether.h``."""


class VfLinkState(Enum):
    """Whether a VF has carrier: as its PF, always, or never."""

    AUTO = "auto"
    ENABLE = "enable"
    DISABLE = "disable"


class RouteScope(Enum):
    """How far away a route's destination is."""

    GLOBAL = "global"
    LINK = "link"
    HOST = "host"


class RdmaUse(Enum):
    """Whether the pod gets the RDMA side of the NIC."""

    AUTO = "auto"
    NONE = "none"
    REQUIRED = "required"


@attrs.frozen(kw_only=True)
class InterfaceConfig:
    """The link itself; ``None`` leaves what the device has.

    Attributes:
        name: In the pod; empty only before a name is assigned.
        hardware_addr: Lower case with colons. A macvlan child always has one, but in mode
            ``passthru``, where the kernel gives it the parent's, as it does to other children.
    """

    name: str = ""
    mtu: int | None = None
    hardware_addr: str | None = None
    gso_max_size: int | None = None
    gro_max_size: int | None = None
    gso_ipv4_max_size: int | None = None
    gro_ipv4_max_size: int | None = None
    tx_queue_len: int | None = None
    up: bool = True
    promiscuous: bool | None = None
    allmulticast: bool | None = None


@attrs.frozen(kw_only=True)
class MacvlanConfig:
    """A macvlan child."""

    mode: MacvlanMode = MacvlanMode.BRIDGE


@attrs.frozen(kw_only=True)
class IpvlanConfig:
    """An ipvlan child; all of one parent have the same."""

    mode: IpvlanMode = IpvlanMode.L2
    flag: IpvlanFlag = IpvlanFlag.BRIDGE


@attrs.frozen(kw_only=True)
class VlanConfig:
    """A child for one VLAN of its parent.

    Attributes:
        id: Its number; ``None`` with other modes alone.
    """

    id: int | None = None
    protocol: VlanProtocol = VlanProtocol.Q


@attrs.frozen(kw_only=True)
class VfConfig:
    """What is set of a VF through its PF; ``None`` leaves what it has.

    Attributes:
        vlan: VLAN that it is held in; 0 for none.
        vlan_qos: Priority in that VLAN's tag.
        admin_mac: Its hardware address is set through the PF too.
    """

    vlan: int | None = None
    vlan_qos: int | None = None
    vlan_protocol: VlanProtocol | None = None
    spoof_check: bool | None = None
    trust: bool | None = None
    link_state: VfLinkState | None = None
    min_tx_mbps: int | None = None
    max_tx_mbps: int | None = None
    admin_mac: bool = False


@attrs.frozen(kw_only=True)
class VrfConfig:
    """A VRF of the interface's own in the pod.

    Attributes:
        name: Empty for none.
        table: Its routing table; ``None`` for one that is free in the pod.
    """

    name: str = ""
    table: int | None = None


@attrs.frozen(kw_only=True)
class EthtoolConfig:
    """Switches of the link, by the names that the kernel and the driver have for them."""

    features: Mapping[str, bool] = attrs.field(factory=dict)
    private_flags: Mapping[str, bool] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class AddressConfig:
    """An address of the interface.

    Attributes:
        no_dad: Use an IPv6 address at once, without asking the network for a duplicate.
        no_prefix_route: Make no route to the address's network.
        peer: The other end of a point-to-point link.
    """

    address: HostAddress
    no_dad: bool = True
    no_prefix_route: bool = False
    peer: Ip | None = None

    @property
    def connected(self) -> tuple[RouteKey, ...]:
        """The routes that the kernel makes for the address.

        Source: tried on Linux 6.18; IPv4 takes the peer's network, IPv6 its own and the peer.
        """
        if self.no_prefix_route:
            return ()
        own = self.address.network
        if isinstance(self.address, IPv4Interface):
            if self.peer is None:
                return () if own.prefixlen == 32 else (RouteKey(own, MAIN_TABLE, 0),)
            there = IPv4Network((int(self.peer), own.prefixlen), strict=False)
            return (RouteKey(there, MAIN_TABLE, 0),)
        peers = () if self.peer is None else (IPv6Network(int(self.peer)),)
        return tuple(RouteKey(network, MAIN_TABLE, 256) for network in (own, *peers))


@attrs.frozen
class RouteKey:
    """What the kernel tells routes apart by."""

    to: Network
    table: int
    metric: int

    def __str__(self) -> str:
        table = "main" if self.table == MAIN_TABLE else self.table
        return f"{self.to}, table {table}, metric {self.metric}"


@attrs.frozen(kw_only=True)
class RouteConfig:
    """A route through the interface.

    Attributes:
        to: ``0.0.0.0/0`` or ``::/0`` for a default route.
        scope: As the kernel will show it; IPv6 knows no scopes and shows ``global``.
        metric: The effective one: 0 is IPv4's default, 1024 IPv6's.
    """

    to: Network
    via: Ip | None = None
    source: Ip | None = None
    scope: RouteScope
    table: int = MAIN_TABLE
    metric: int
    mtu: int | None = None
    on_link: bool = False

    @property
    def key(self) -> RouteKey:
        """What the kernel tells it from other routes by."""
        return RouteKey(self.to, self.table, self.metric)


@attrs.frozen(kw_only=True)
class RuleConfig:
    """A rule that sends packets to a routing table.

    Attributes:
        from_: Network of the source address.
        iif: Interface in the pod by which the packet came; ``lo`` for the pod's own packets.
    """

    priority: int
    from_: Network | None = None
    to: Network | None = None
    table: int
    iif: str | None = None
    fwmark: int | None = None

    @property
    def version(self) -> int | None:
        """4 or 6; ``None`` when the rule is of every family that its table has routes of."""
        network = self.to if self.from_ is None else self.from_
        return None if network is None else network.version


@attrs.frozen(kw_only=True)
class NeighborConfig:
    """A permanent entry of the neighbor table."""

    address: Ip
    hardware_addr: str


@attrs.frozen(kw_only=True)
class SysctlConfig:
    """Settings of the kernel for this interface alone, by name."""

    ipv4: Mapping[str, int] = attrs.field(factory=dict)
    ipv6: Mapping[str, int] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class NicConfig:
    """One NIC's whole configuration.

    Attributes:
        vfio: With mode ``vfio``: by which nodes it comes into its machine.
        announce: Tell the network of the addresses once there is carrier.
        inherit: What was taken over from the host; the entries themselves stand in their lists.
    """

    mode: AttachMode = AttachMode.MOVE
    interface: InterfaceConfig = InterfaceConfig()
    macvlan: MacvlanConfig = MacvlanConfig()
    ipvlan: IpvlanConfig = IpvlanConfig()
    vlan: VlanConfig = VlanConfig()
    vf: VfConfig = VfConfig()
    vfio: WayIn = WayIn()
    ethtool: EthtoolConfig = EthtoolConfig()
    vrf: VrfConfig = VrfConfig()
    addresses: tuple[AddressConfig, ...] = ()
    routes: tuple[RouteConfig, ...] = ()
    rules: tuple[RuleConfig, ...] = ()
    neighbors: tuple[NeighborConfig, ...] = ()
    sysctls: SysctlConfig = SysctlConfig()
    rdma: RdmaUse = RdmaUse.AUTO
    announce: bool = True
    inherit: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[tuple[str, str], ...]:
        """Every name that it takes in the pod, by the field that gives it."""
        wanted = (("interface.name", self.interface.name), ("vrf.name", self.vrf.name))
        return tuple((field, name) for field, name in wanted if name)

    def rule_versions(self, rule: RuleConfig) -> tuple[int, ...]:
        """The families in which ``rule`` is to be made: its own, else those of its table."""
        if rule.version is not None:
            return (rule.version,)
        return tuple(sorted({r.to.version for r in self.routes if r.table == rule.table}))


@attrs.frozen(kw_only=True)
class ResolvedNic:
    """One allocated NIC and all that shall be done with it; nothing in it is left to guess.

    Attributes:
        request: As in the claim's status, ``request`` or ``request/subrequest``.
        device: Slice name.
        share_id: Set for a child of a shared parent.
    """

    claim: ClaimRef
    request: str
    pool: str
    device: str
    share_id: str | None = None
    config: NicConfig

    @property
    def name(self) -> str:
        """Name of the interface in the pod."""
        return self.config.interface.name

    @property
    def mode(self) -> AttachMode:
        """How the pod gets the NIC."""
        return self.config.mode

    def __str__(self) -> str:
        return f'{self.device} (claim {self.claim}, request "{self.request}")'
