"""One link with all that hangs on it, as one namespace showed it at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from berth.host.netlink.address import Address
from berth.host.netlink.link import (
    IFF_ALLMULTI,
    IFF_MULTICAST,
    IFF_NOARP,
    IFF_PROMISC,
    IFF_UP,
    Link,
)
from berth.host.netlink.neighbor import Neighbor
from berth.host.netlink.route import (
    RTPROT_KERNEL,
    RTPROT_RA,
    RTPROT_REDIRECT,
    Route,
)
from berth.host.netlink.vf import Vf
from berth.nic.record import Originals
from berth.nic.vf import own_values

KEPT_FLAGS: Final = IFF_UP | IFF_PROMISC | IFF_ALLMULTI | IFF_NOARP | IFF_MULTICAST
"""Flags of a link that somebody set; the others are the kernel's findings."""

_LEARNT: Final = frozenset({RTPROT_KERNEL, RTPROT_RA, RTPROT_REDIRECT})


@attrs.frozen(kw_only=True)
class View:
    """A link, its addresses, its routes, its neighbors and its settings.

    Attributes:
        sysctls: Its settings by ``ipv4/<name>`` and ``ipv6/<name>``: at home all, in a pod those
            that were asked for and that it has.
        fresh: What a new link at home gets of them; empty in a pod.
        switches: What ethtool can turn of it, by ``feature/<name>`` and ``flag/<name>``; empty in a
            pod.
        vf: At home, what its PF shows of a VF.
        master: In a pod, the link that it is a port of; ``None`` for none.
    """

    link: Link
    addresses: tuple[Address, ...] = ()
    routes: tuple[Route, ...] = ()
    neighbors: tuple[Neighbor, ...] = ()
    sysctls: Mapping[str, int] = attrs.field(factory=dict)
    fresh: Mapping[str, int] = attrs.field(factory=dict)
    switches: Mapping[str, bool] = attrs.field(factory=dict)
    vf: Vf | None = None
    master: Link | None = None

    @property
    def own_addresses(self) -> tuple[Address, ...]:
        """Addresses that somebody set: permanent, and not made from the link itself."""
        return tuple(a for a in self.addresses if a.permanent and not a.ip.ip.is_link_local)

    @property
    def own_routes(self) -> tuple[Route, ...]:
        """Routes that somebody set, not those that follow from addresses or were learnt."""
        return tuple(r for r in self.routes if r.protocol not in _LEARNT)

    @property
    def own_neighbors(self) -> tuple[Neighbor, ...]:
        """Neighbors that somebody set."""
        return tuple(n for n in self.neighbors if n.permanent)


def take_originals(
    view: View, *, driver: str = "", name: str = "", made_up: bool = False
) -> Originals:
    """What must stand again when the link has come home, from how it is now.

    Args:
        name: Its own name, where it has another one now for want of it.
        made_up: Its driver made up its hardware address.
    """
    link = view.link
    return Originals(
        name=name or link.name,
        index=link.index,
        kind=link.kind,
        mtu=link.mtu,
        mac=link.mac,
        flags=link.flags & KEPT_FLAGS,
        txqlen=link.txqlen,
        group=link.group,
        alias=link.alias,
        broadcast=link.broadcast,
        perm_mac=link.perm_mac,
        port_name=link.port_name,
        altnames=tuple(n for n in link.altnames if n != name),
        offload=link.offload,
        addresses=view.own_addresses,
        routes=view.own_routes,
        neighbors=view.own_neighbors,
        sysctls={n: v for n, v in view.sysctls.items() if view.fresh.get(n) not in {None, v}},
        switches=dict(view.switches),
        xdp_program_id=link.xdp.program_id if link.xdp else 0,
        driver=driver,
        vf=own_values(view.vf, link, made_up=made_up) if view.vf is not None else None,
    )
