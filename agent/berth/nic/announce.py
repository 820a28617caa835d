"""Tells the network of a NIC's addresses; blocks, for worker threads.

The kernel tells of an address when its link comes up, and never again. With hardware that is lost:
carrier comes by the driver, a moment or a minute later. So it is told here once it can be heard,
and leaves no trace on the link: neither neighbors nor RDMA GIDs are forgotten, as they are when its
hardware address is set to itself, and the kernel takes that address for nobody's choice.

- IPv4: the kernel is made to ask who has the link's own address: a gratuitous ARP.
- IPv6: an advertisement is sent; of an address whose search for duplicates is not over, the kernel
  sends it at its end, where ``ndisc_notify`` lets it.

Knowingly left out, since the kernel asks for them by another address: another IPv4 address of a
network that the link has one of, and one with a peer; the kernel itself would tell of both at "up".
Neighbors learn of these by the pod's first question from them. Left out is also an IPv4 address of
which the pod has a neighbor entry on its own link: to ask would take it away.

Source: ``inetdev_event`` in Linux ``net/ipv4/devinet.c``, ``arp_solicit`` in ``net/ipv4/arp.c``,
``inet_select_addr`` in ``net/ipv4/devinet.c``, ``addrconf_dad_completed`` in
``net/ipv6/addrconf.c``; tried on 6.12 and 6.18.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address
from typing import Final

from berth.errors import HostError
from berth.host.advertisement import advertise
from berth.host.netlink.address import Address
from berth.host.netlink.link import IFF_NOARP, Link
from berth.host.netlink.namespace import run_in_netns
from berth.host.netlink.neighbor import Neighbor, ask_for, delete_neighbor
from berth.host.netlink.rtnl import Rtnl
from berth.nic.execute import Namespaces
from berth.nic.record import NicRecord
from berth.nic.settings import read_settings

_FORWARDING: Final = "ipv6/forwarding"

_LINK_SCOPE: Final = 253
"""RT_SCOPE_LINK: by an address of a narrower scope the kernel asks nobody."""

_SENDING: Final = frozenset({"up", "unknown"})
# A port that waits for its station to log in is "dormant": it drops what is sent.


def can_be_heard(link: Link) -> bool:
    """Whether what is sent by a link goes out: carrier alone may be there a moment before."""
    return link.carrier and link.operstate in _SENDING


def announce(
    spaces: Namespaces, record: NicRecord, link: Link, addresses: Sequence[Address]
) -> None:
    """Tell the network of a NIC's addresses in the pod; what the pod added is its own affair.

    Args:
        link: It can be heard.
        addresses: All that it has there.

    Raises:
        HostError: The kernel refused, of one family perhaps; what it took is told.
    """
    if link.flags & IFF_NOARP or not link.mac:
        # Nobody asks where such a link's addresses are.
        return
    wanted = {item.address.ip for item in record.config.addresses}
    ready = [
        ip
        for address in addresses
        if isinstance(ip := address.ip.ip, IPv6Address) and ip in wanted and not address.tentative
    ]
    try:
        for ip in own_askers(addresses):
            if ip in wanted:
                _ask_for_own(spaces.pod, link.index, ip)
    finally:
        # The table of neighbors, which may be full, is IPv4's and the whole machine's.
        if ready:
            run_in_netns(spaces.pod_fd, lambda: _advertise(link, ready))


def own_askers(addresses: Sequence[Address]) -> tuple[IPv4Address, ...]:
    """Those IPv4 addresses that the kernel asks for in their own name.

    Args:
        addresses: All of the link, as the kernel keeps them: it asks by the first whose network has
            what is asked for, and by another link's address where there is none.
    """
    askers = [
        (ip, _network(address))
        for address in addresses
        if isinstance(ip := address.ip.ip, IPv4Address)
        and not address.secondary
        and address.scope <= _LINK_SCOPE
    ]
    return tuple(
        ip
        for ip, _ in askers
        if next((asker for asker, network in askers if ip in network), None) == ip
    )


def _network(address: Address) -> IPv4Network:
    """What is on the link by an IPv4 address: its peer's network, if it has one."""
    end = address.peer or address.ip.ip
    return IPv4Network((int(end), address.ip.network.prefixlen), strict=False)


def _ask_for_own(pod: Rtnl, index: int, ip: IPv4Address) -> None:
    """Have the kernel ask for an address of its own link, once; somebody's entry of it is kept."""
    try:
        pod.apply(ask_for(index, ip))
    except HostError as error:
        if error.errno != errno.EEXIST:
            raise
        if any(each.ip == ip and each.mac for each in pod.neighbors(index=index)):
            return
        # Left by a death of ours between the two messages.
        _forget(pod, index, ip)
        pod.apply(ask_for(index, ip))
    _forget(pod, index, ip)


def _forget(pod: Rtnl, index: int, ip: IPv4Address) -> None:
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
