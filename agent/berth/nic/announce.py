"""Tells the network of a NIC's addresses, and looks at a NIC after the hook; for worker threads.

The kernel tells of an address when its link comes up, and never again. With hardware that is lost:
carrier comes by the driver, a moment or a minute later. So it is told here once it can be heard,
and leaves no trace on the link: neither neighbors nor RDMA GIDs are forgotten, as they are when its
hardware address is set to itself, and the kernel takes that address for nobody's choice.

- IPv4: the kernel is made to ask who has the link's own address: a gratuitous ARP.
- IPv6: an advertisement is sent; of an address whose search for duplicates is not over, the kernel
  sends it at its end.

Knowingly left out, since the kernel asks by an address of the link's that is in the same network:
another IPv4 address of a network that the link has one of, and one with a peer. Neighbors learn of
these by the first packet.

Source: ``inetdev_event`` in Linux ``net/ipv4/devinet.c``, ``arp_solicit`` in ``net/ipv4/arp.c``,
``addrconf_dad_completed`` in ``net/ipv6/addrconf.c``; tried on 6.12 and 6.18.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address
from typing import Final

import attrs

from berth.errors import BerthError, HostError
from berth.host.advertisement import advertise
from berth.host.netlink.address import Address
from berth.host.netlink.link import IFF_NOARP, Link
from berth.host.netlink.namespace import run_in_netns
from berth.host.netlink.neighbor import Neighbor, ask_for, delete_neighbor
from berth.host.netlink.rtnl import Rtnl
from berth.host.netlink.socket import Sender, send_now
from berth.nic.execute import Namespaces, open_namespaces
from berth.nic.identity import find_in_pod
from berth.nic.record import NicRecord
from berth.nic.settings import read_settings

_FORWARDING: Final = "ipv6/forwarding"

_SENDING: Final = frozenset({"up", "unknown"})
# A port that waits for its station to log in is "dormant": it drops what is sent.


@attrs.frozen(kw_only=True)
class Sight:
    """How a NIC is in its pod now.

    Attributes:
        nsid: The number under which the pod's namespace sends its events to the host's.
        index: Interface index in the pod.
        carrier: The cable answers.
        announced: The network was told of its addresses, now or before.
        untold: Why it could not be told now; empty when it was, or could not hear.
        tentative: A search for duplicates is going on.
        duplicates: Addresses that another station holds, in text.
    """

    nsid: int
    index: int
    carrier: bool
    announced: bool = False
    untold: str = ""
    tentative: bool = False
    duplicates: tuple[str, ...] = ()


def look_after(record: NicRecord, *, send: Sender = send_now) -> Sight | None:
    """Look at a NIC in its pod, and announce its addresses if that is due and they can be heard.

    Returns:
        ``None`` when it is not in its sandbox any more.

    Raises:
        HostError: The sandbox is gone, or the kernel tells nothing of it.
    """
    sandbox = record.sandbox
    if sandbox is None:
        return None
    with open_namespaces(sandbox.netns_path, inode=sandbox.netns_inode, send=send) as spaces:
        found = find_in_pod(record, spaces.pod.links())
        # Only asked for by itself does the kernel tell no carrier that nothing goes out by yet.
        link = spaces.pod.link(index=found.index) if found is not None else None
        if link is None:
            return None
        addresses = spaces.pod.addresses(index=link.index)
        announced, untold = record.announced, ""
        if waits_for_announcement(record) and can_be_heard(link):
            try:
                announce(spaces, link, addresses)
            except BerthError as error:
                untold = str(error)
            announced = not untold
        return Sight(
            nsid=spaces.home.ensure_nsid(spaces.pod_fd),
            index=link.index,
            carrier=link.carrier,
            announced=announced,
            untold=untold,
            tentative=any(a.tentative and not a.dad_failed for a in addresses),
            duplicates=tuple(str(a.ip) for a in addresses if a.dad_failed),
        )


def can_be_heard(link: Link) -> bool:
    """Whether what is sent by a link goes out: carrier alone may be there a moment before."""
    return link.carrier and link.operstate in _SENDING


def announce(spaces: Namespaces, link: Link, addresses: Sequence[Address]) -> None:
    """Tell the network of a link's addresses in the pod.

    Args:
        link: It can be heard.
        addresses: What it has there.

    Raises:
        HostError: The kernel refused; what came before was told.
    """
    if link.flags & IFF_NOARP or not link.mac:
        # Nobody asks where such a link's addresses are.
        return
    for address in addresses:
        ip = address.ip.ip
        if isinstance(ip, IPv4Address) and address.peer is None and not address.secondary:
            _ask_for_own(spaces.pod, link.index, ip)
    ready = [
        address.ip.ip
        for address in addresses
        if isinstance(address.ip.ip, IPv6Address) and not address.tentative
    ]
    if ready:
        run_in_netns(spaces.pod_fd, lambda: _advertise(link, ready))


def _ask_for_own(pod: Rtnl, index: int, ip: IPv4Address) -> None:
    """Have the kernel ask for an address of its own link, once."""
    pod.apply(ask_for(index, ip))
    with contextlib.suppress(HostError):
        pod.apply(delete_neighbor(Neighbor(index=index, ip=ip)))


def _advertise(link: Link, ips: Sequence[IPv6Address]) -> None:
    router = bool(read_settings(link.name, (_FORWARDING,)).get(_FORWARDING, 0))
    advertise(link.index, ips, link.mac, router=router)


def waits_for_announcement(record: NicRecord) -> bool:
    """Whether the network is still to be told of the NIC's addresses."""
    config = record.config
    wanted = config.announce and config.interface.up and bool(config.addresses)
    return wanted and not record.announced


def waits_for_carrier(record: NicRecord) -> bool:
    """Whether the NIC is up without carrier, as far as was seen."""
    return record.config.interface.up and not record.carrier


def waits_for_search(record: NicRecord) -> bool:
    """Whether the kernel was asked to look for duplicates of an address."""
    return any(item.address.version == 6 and not item.no_dad for item in record.config.addresses)
