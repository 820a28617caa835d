"""Looks at a NIC in its pod after the hook was answered; blocks, for worker threads.

What could not be completed in the hook's time is completed here: an announcement that nobody would
have heard then, the end of a search for duplicate addresses.
"""

from __future__ import annotations

import attrs

from berth.errors import BerthError
from berth.host.netlink.socket import Sender, send_now
from berth.nic.announce import announce, can_be_heard, waits_for_announcement
from berth.nic.execute import open_namespaces
from berth.nic.identity import find_in_pod
from berth.nic.record import NicRecord


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
                announce(spaces, record, link, addresses)
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


def waits_for_carrier(record: NicRecord) -> bool:
    """Whether the NIC is up without carrier, as far as was seen."""
    return record.config.interface.up and not record.carrier


def waits_for_search(record: NicRecord) -> bool:
    """Whether the kernel was asked to look for duplicates of an address."""
    return any(item.address.version == 6 and not item.no_dad for item in record.config.addresses)
