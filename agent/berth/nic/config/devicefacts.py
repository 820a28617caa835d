"""What must be known of a device, and of the node, to check a claim's configuration for it.

Whoever looks at the machine fills these; here nothing is looked up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from berth.model.claim import DeviceResult
from berth.model.device import NicKind
from berth.nic.config.values import AddressConfig, NeighborConfig, RouteConfig


@attrs.frozen(kw_only=True)
class HomeSettings:
    """What people and programs set on a NIC at home, in the order in which the kernel lists it.

    Left out: link-local addresses, addresses with a lifetime, and routes and neighbors that the
    kernel, a router's advertisement or a redirect made.
    """

    addresses: tuple[AddressConfig, ...] = ()
    routes: tuple[RouteConfig, ...] = ()
    neighbors: tuple[NeighborConfig, ...] = ()


@attrs.frozen(kw_only=True)
class Child:
    """A link over a parent, as far as others over it are concerned.

    Attributes:
        kind: The kernel's word for its kind.
        sort: What its kind has to say: of ``ipvlan`` mode and flag, of ``vlan`` number and
            protocol; empty for others.
        holder: Whose it is, in words for a person.
    """

    kind: str
    sort: tuple[str, ...] = ()
    holder: str = ""


@attrs.frozen(kw_only=True)
class DeviceFacts:
    """One device: the NIC itself, or the parent whose child a claim gets.

    Attributes:
        identity: As in `berth.model.device.Nic`.
        type: ``nic``, ``nic-shared``, ``nic-vfio`` or ``rdma``.
        link_type: ``ether`` or ``infiniband``.
        mtu: Set now, in bytes; 0 is unknown.
        min_mtu: Least that the kernel takes for it; 0 is none.
        max_mtu: Most that the kernel takes for it; 0 is none.
        pf_mtu: MTU of a VF's PF; 0 for other devices, and where it is unknown.
        uplink: Why the node needs it itself; empty when it does not.
        home: What a claim may inherit.
        companions: Keys of its IOMMU group, and of what else is in it; none without a group.
        vfs: Keys of its VFs, where it is offered beside these.
        children: Links of the node's own over it.
        rdma: Names of its RDMA devices.
        rdma_netns: ``shared`` when all namespaces see these, ``exclusive`` when one does.
        rdma_lacking: Paths of nodes of theirs that are not there.
    """

    identity: str
    type: str
    kind: NicKind
    group: str
    link_type: str = "ether"
    mtu: int = 0
    min_mtu: int = 0
    max_mtu: int = 0
    pf_mtu: int = 0
    uplink: str = ""
    home: HomeSettings = HomeSettings()
    companions: tuple[str, ...] = ()
    vfs: tuple[str, ...] = ()
    children: tuple[Child, ...] = ()
    rdma: tuple[str, ...] = ()
    rdma_netns: str = ""
    rdma_lacking: tuple[str, ...] = ()

    @property
    def shares_rdma(self) -> bool:
        """It has RDMA devices that a pod can use where they are."""
        return bool(self.rdma) and self.rdma_netns != "exclusive"


@attrs.frozen(kw_only=True)
class HostFacts:
    """What concerns all devices of the node.

    Attributes:
        hardware_addrs: Addresses in use, lower case, and by whom: the identity of a device, or
            words for a person. Children that records of other claims tell of are among them, those
            of the claim in question are not.
        children: Links that other claims have, or will have, over a parent, by its identity.
    """

    hardware_addrs: Mapping[str, str] = attrs.field(factory=dict)
    children: Mapping[str, tuple[Child, ...]] = attrs.field(factory=dict)


UNKNOWN_HOST: Final = HostFacts()
"""Nothing is known of the node."""


@attrs.frozen(kw_only=True)
class Target:
    """A NIC that was allocated to a claim."""

    result: DeviceResult
    facts: DeviceFacts

    def __str__(self) -> str:
        return f'{self.result.device} (request "{self.result.request}")'
