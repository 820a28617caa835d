"""A look at a NIC in its pod after the hook has answered, and its announcement; for worker threads.

The kernel tells the network of an address when the link comes up with carrier. Where carrier comes
later it tells nothing, and neighbors keep what they knew; setting the link's hardware address to
what it is makes the kernel tell it then, in both families. No packet socket is needed. The kernel
forgets the link's neighbors with that, permanent ones too, so these are put back.

Source: ``inetdev_event`` in Linux ``net/ipv4/devinet.c``, ``ndisc_netdev_event`` in
``net/ipv6/ndisc.c``, ``neigh_changeaddr`` in ``net/core/neighbour.c``; tried on 6.12 and 6.18.
"""

from __future__ import annotations

import attrs

from berth.host.netlink.link import Link
from berth.host.netlink.linkrequest import LinkChange, set_link
from berth.host.netlink.rtnl import Rtnl
from berth.host.netlink.socket import Sender, send_now
from berth.nic.execute import open_namespaces, put_neighbor
from berth.nic.identity import find_in_pod
from berth.nic.record import NicRecord


@attrs.frozen(kw_only=True)
class Sight:
    """How a NIC is in its pod now.

    Attributes:
        nsid: The number under which the pod's namespace sends its events to the host's.
        index: Interface index in the pod.
        carrier: The cable answers; if it did not before, the addresses are announced now.
        tentative: A search for duplicates is going on.
        duplicates: Addresses that another station holds, in text.
    """

    nsid: int
    index: int
    carrier: bool
    tentative: bool = False
    duplicates: tuple[str, ...] = ()


def look_after(record: NicRecord, *, send: Sender = send_now) -> Sight | None:
    """Look at a NIC in its pod, and announce its addresses if it has carrier that it had not.

    Returns:
        ``None`` when it is not in its sandbox any more.

    Raises:
        HostError: The sandbox is gone, or the kernel refused.
    """
    sandbox = record.sandbox
    if sandbox is None:
        return None
    with open_namespaces(sandbox.netns_path, inode=sandbox.netns_inode, send=send) as spaces:
        link = find_in_pod(record, spaces.pod.links())
        if link is None:
            return None
        addresses = spaces.pod.addresses(index=link.index)
        if link.carrier and not record.carrier and record.config.announce:
            _announce(spaces.pod, link)
        return Sight(
            nsid=spaces.home.ensure_nsid(spaces.pod_fd),
            index=link.index,
            carrier=link.carrier,
            tentative=any(a.tentative and not a.dad_failed for a in addresses),
            duplicates=tuple(str(a.ip) for a in addresses if a.dad_failed),
        )


def _announce(pod: Rtnl, link: Link) -> None:
    """Have the kernel tell the network of the link's addresses."""
    wanted = [one for one in pod.neighbors(index=link.index) if one.permanent]
    pod.apply(set_link(link.index, LinkChange(mac=link.mac), label=link.name))
    for neighbor in wanted:
        put_neighbor(pod, neighbor)


def waits_for_carrier(record: NicRecord) -> bool:
    """Whether the network is still to be told of the NIC's addresses."""
    wanted = record.config.announce and record.config.interface.up
    return wanted and not record.carrier and bool(record.config.addresses)


def waits_for_search(record: NicRecord) -> bool:
    """Whether the kernel was asked to look for duplicates of an address."""
    return any(item.address.version == 6 and not item.no_dad for item in record.config.addresses)
