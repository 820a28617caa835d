"""Visits a NIC where it should be, and tells what is seen of its link; blocks, for worker threads.

Nothing is changed but that a pod's namespace gets a number at home, by which its events are heard.
Nothing of a pod's namespace stays open: that would keep the namespace alive, and with it the NIC.

Source: network.md §6.1, §7.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Mapping
from typing import Final

import attrs

from berth.errors import HostError
from berth.host.netlink.link import Link
from berth.host.netlink.socket import Sender, send_now
from berth.nic import plan
from berth.nic.execute import Namespaces, open_namespaces
from berth.nic.health.post import Place, Post
from berth.nic.health.sight import LinkSight
from berth.nic.homecoming import is_alive, link_at_home
from berth.nic.identity import find_home, find_in_pod
from berth.nic.look import look
from berth.nic.record import NicRecord, SandboxRef

NAMESPACES_LIMIT: Final = 256
"""In so many namespaces a link is looked for that left its pod."""

_TOLD: Final = ("addresses[", "routes[")
# Of all that a configuration wants, what is missed when the pod has taken it away.


def visit(
    post: Post,
    *,
    former: SandboxRef | None = None,
    physfn: Callable[[str], str] = lambda _: "",
    pfs: Mapping[str, int] | None = None,
    send: Sender = send_now,
) -> LinkSight:
    """Look at one NIC.

    Args:
        former: Sandbox that it was in last.
        physfn: Gives the PF's address of a function; empty for what is no VF.
        pfs: Interface index at home of the link of each PF, by its address.

    Raises:
        HostError: The kernel refused, or what lies at the sandbox's path cannot be told.
        RemoteProtocolError: Its answer was malformed.
    """
    sight = _at_post(post, former, send)
    pf = physfn(post.address) if post.address else ""
    index = (pfs or {}).get(pf, 0)
    if not index:
        return attrs.evolve(sight, pf=pf)
    with open_namespaces(send=send) as spaces:
        return attrs.evolve(sight, pf=pf, pf_link=spaces.home.link(index=index))


def _at_post(post: Post, former: SandboxRef | None, send: Sender) -> LinkSight:
    record = post.record
    if record is not None and post.place is Place.POD:
        return _in_pod(record, send)
    if record is not None and post.place is Place.STAGED:
        with open_namespaces(send=send) as spaces:
            link = link_at_home(spaces, record)
        return LinkSight(link=link, in_former=former is not None and is_alive(former))
    if post.place in {Place.FREE, Place.PARENT}:
        with open_namespaces(send=send) as spaces:
            link = spaces.home.link(index=post.index) if post.index else None
        return LinkSight(link=link, children=tuple(_in_pod(one, send) for one in post.children))
    return LinkSight()


def _in_pod(record: NicRecord, send: Sender) -> LinkSight:
    """The record's link in its sandbox."""
    sandbox = record.sandbox
    if sandbox is None:
        return LinkSight(ended=True)
    try:
        with open_namespaces(sandbox.netns_path, inode=sandbox.netns_inode, send=send) as spaces:
            # Asked for before the look, so that no change after it goes unheard.
            nsid = spaces.home.ensure_nsid(spaces.pod_fd)
            link = find_in_pod(record, spaces.pod.links())
            if link is None:
                return LinkSight(nsid=nsid, where=_where(spaces, record))
            return _seen(spaces, record, link, nsid)
    except HostError as error:
        if error.errno != errno.ENOENT:
            raise
        return LinkSight(ended=True)


def _seen(spaces: Namespaces, record: NicRecord, link: Link, nsid: int) -> LinkSight:
    view = look(spaces.pod, link)
    fields = [step.field for step in plan.settle(record.config_there, view)]
    return LinkSight(
        link=link,
        nsid=nsid,
        lacking=tuple(field for field in fields if field.startswith(_TOLD)),
        duplicates=tuple(str(address.ip) for address in view.addresses if address.dad_failed),
    )


def _where(spaces: Namespaces, record: NicRecord) -> str:
    """Where a link is that left its pod: at home, or in a namespace that home has a number of."""
    link = find_home(record, spaces.home.links())
    if link is not None:
        return f"at home as {link.name}"
    for nsid in spaces.home.nsids()[:NAMESPACES_LIMIT]:
        # It may end while it is looked into.
        with contextlib.suppress(HostError):
            link = find_home(record, spaces.home.links(nsid=nsid))
            if link is not None:
                return f"in network namespace {nsid} (`ip netns list-id`) as {link.name}"
    return ""
