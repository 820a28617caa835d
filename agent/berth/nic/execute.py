"""Does the steps of a plan, in the host's namespace and in a pod's; blocks, for worker threads.

Everything here blocks: a move holds the kernel's rtnl lock for about 25 ms. The `Sender` is the
seam by which a crash test ends the process before or after any message.

Nothing of a pod's namespace stays open after the ``with`` block: a socket there keeps the namespace
alive, and with it the NIC (seen).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import attrs

from berth.errors import HostError
from berth.host.netlink.address import delete_address, new_address
from berth.host.netlink.kinds import Vrf
from berth.host.netlink.link import Link
from berth.host.netlink.linkrequest import (
    UP,
    LinkChange,
    add_altnames,
    delete_altnames,
    delete_link,
    new_link,
    set_link,
    set_vf,
)
from berth.host.netlink.namespace import CLONE_NEWNET, HOME, netns_descriptor, run_in_netns
from berth.host.netlink.neighbor import Neighbor, delete_neighbor, new_neighbor
from berth.host.netlink.route import Route, new_route
from berth.host.netlink.rtnl import Rtnl
from berth.host.netlink.rule import delete_rule, new_rule
from berth.host.netlink.socket import Sender, send_now
from berth.host.netlink.vf import vf_value
from berth.nic.settings import write_settings
from berth.nic.steps import (
    Altnames,
    Change,
    DropAddress,
    DropRule,
    DropVrf,
    JoinVrf,
    MakeChild,
    MakeVrf,
    MoveAway,
    Place,
    PutAddress,
    PutNeighbor,
    PutRoute,
    PutRule,
    PutSettings,
    PutSwitches,
    RemoveLink,
    SetLink,
    SetVf,
    Step,
)
from berth.nic.switches import leave_switches, write_switches
from berth.nic.vf import VfSeat

_NOT_TAKEN: Final = frozenset({errno.EOPNOTSUPP, errno.EINVAL, errno.EPROTONOSUPPORT})
# By these drivers say of a VF's value that they know no such thing (seen with igb).

_NS_GET_NSTYPE: Final = 0xB703
"""Asks a namespace's descriptor for its kind; ``linux/nsfs.h``, since 4.11."""


class Namespaces:
    """The host's tables and, for the time of one piece of work, those of one pod.

    Args:
        home: The host's tables.
        pod: The pod's tables; ``None`` when the work is at home alone.
        pod_fd: Descriptor of the pod's namespace; -1 without a pod.
        send: How messages to other tables leave.
    """

    def __init__(self, home: Rtnl, pod: Rtnl | None, pod_fd: int, *, send: Sender) -> None:
        self.home = home
        self._pod = pod
        self.pod_fd = pod_fd
        self.send = send

    @property
    def pod(self) -> Rtnl:
        """The pod's tables.

        Raises:
            HostError: The work has none; its namespace is gone.
        """
        if self._pod is None:
            raise HostError("pod", "its network namespace is gone", errno=errno.ENOENT)
        return self._pod

    def tables(self, place: Place) -> Rtnl:
        """The tables of one of the two places."""
        return self.home if place is Place.HOME else self.pod


@contextlib.contextmanager
def open_namespaces(
    netns_path: str = "", *, inode: int = 0, send: Sender = send_now
) -> Iterator[Namespaces]:
    """Open the host's tables, and a pod's where a path is given.

    Args:
        inode: The namespace that must lie at the path; 0 takes any.

    Raises:
        HostError: The path is gone or holds another namespace by now (errno ENOENT), or what it
            holds cannot be told (another errno).
    """
    with Rtnl.home(send=send) as home, contextlib.ExitStack() as stack:
        if not netns_path:
            yield Namespaces(home, None, -1, send=send)
            return
        fd = stack.enter_context(netns_descriptor(netns_path))
        if inode and _inode(fd, netns_path) != inode:
            raise HostError(
                netns_path, "holds another network namespace by now", errno=errno.ENOENT
            )
        pod = stack.enter_context(Rtnl.of(fd, send=send))
        yield Namespaces(home, pod, fd, send=send)


def inode_of(netns_path: str) -> int:
    """The inode of the namespace at a path, by which it is told from a later one.

    Raises:
        HostError: There is none (errno ENOENT), or it cannot be told (another errno).
    """
    with netns_descriptor(netns_path) as fd:
        return _inode(fd, netns_path)


def _inode(fd: int, netns_path: str) -> int:
    found, home = os.fstat(fd), Path(HOME).stat()
    if found.st_dev != home.st_dev:
        # Between unmounting and removing its path a runtime leaves an empty file there; where our
        # mounts are not the runtime's there is never more than that.
        raise HostError(
            netns_path,
            "is a plain file and no network namespace",
            rule="the runtime's mounts must be seen here",
            errno=errno.EINVAL,
        )
    if fcntl.ioctl(fd, _NS_GET_NSTYPE) != CLONE_NEWNET:
        # It has an inode as well and would seem to live; a NIC would be waited for that never was
        # there.
        raise HostError(
            netns_path,
            "is a namespace of another kind",
            rule="it must be a network namespace",
            errno=errno.ENOENT,
        )
    if found.st_ino == home.st_ino:
        # Moved there the NIC would stay where it is, and the host would have the pod's addresses
        # until that is noticed.
        raise HostError(
            netns_path,
            "is the host's own network namespace",
            rule="a NIC is moved into a pod's own",
            mend="drop hostNetwork, or the claim",
            errno=errno.ENOENT,
        )
    return found.st_ino


def do(spaces: Namespaces, step: Step, link: Link) -> None:
    """Do one step on a link.

    Args:
        link: Where it is now, in the step's own place; for a child that is not made yet its
            parent at home.

    Raises:
        HostError: The kernel refused, with its words; the message names the step's field.
    """
    try:
        _do(spaces, step.place, step.change, link)
    except HostError as error:
        raise HostError(
            f"{step.field} ({link.name})",
            str(error),
            errno=error.errno,
        ) from error


def _do(spaces: Namespaces, place: Place, change: Change, link: Link) -> None:
    tables = spaces.tables(place)
    if isinstance(change, MoveAway):
        moved = attrs.evolve(change.change, netns_fd=spaces.pod_fd)
        tables.apply(set_link(link.index, moved, label=link.name))
    elif isinstance(change, MakeChild):
        made = attrs.evolve(change.change, netns_fd=spaces.pod_fd)
        tables.apply(new_link(change.name, change.kind, parent=link.index, change=made))
    elif isinstance(change, SetLink):
        tables.apply(set_link(link.index, change.change, label=link.name))
    elif isinstance(change, Altnames):
        _altnames(tables, change, link)
    elif isinstance(change, RemoveLink):
        tables.apply(delete_link(link.index, label=link.name))
    elif isinstance(change, PutSettings):
        _put_settings(spaces, place, change, link)
    elif isinstance(change, PutSwitches):
        put = write_switches if change.strictly else leave_switches
        put(link.index, change.values, send=spaces.send)
    elif isinstance(change, SetVf):
        _set_vf(spaces, change)
    elif isinstance(change, MakeVrf | JoinVrf | DropVrf):
        _do_vrf(tables, change, link)
    else:
        _do_table(tables, change, link)


def _do_table(tables: Rtnl, change: Change, link: Link) -> None:
    index = link.index
    if isinstance(change, PutAddress):
        with _unless(errno.EEXIST):
            tables.apply(new_address(attrs.evolve(change.address, index=index)))
    elif isinstance(change, DropAddress):
        with _unless(errno.EADDRNOTAVAIL):
            tables.apply(delete_address(attrs.evolve(change.address, index=index)))
    elif isinstance(change, PutRoute):
        _put_route(tables, _out_by(change.route, index))
    elif isinstance(change, PutRule):
        with _unless(errno.EEXIST):
            tables.apply(new_rule(change.rule))
    elif isinstance(change, DropRule):
        with _unless(errno.ENOENT):
            tables.apply(delete_rule(change.rule))
    elif isinstance(change, PutNeighbor):
        _put_neighbor(tables, attrs.evolve(change.neighbor, index=index))


def _do_vrf(tables: Rtnl, change: MakeVrf | JoinVrf | DropVrf, link: Link) -> None:
    if isinstance(change, MakeVrf):
        with _unless(errno.EEXIST):
            tables.apply(new_link(change.name, Vrf(table=change.table), change=UP))
        return
    vrf = tables.link(name=change.name)
    if vrf is None or vrf.kind != "vrf":
        if isinstance(change, JoinVrf):
            raise HostError(f"VRF {change.name}", "has vanished", errno=errno.ENODEV)
    elif isinstance(change, JoinVrf):
        tables.apply(set_link(link.index, LinkChange(master=vrf.index), label=link.name))
    else:
        tables.apply(delete_link(vrf.index, label=vrf.name))


def _set_vf(spaces: Namespaces, change: SetVf) -> None:
    pf = find_pf(spaces.home, change.seat)
    try:
        spaces.home.apply(
            set_vf(pf.index, vf_value(change.seat.number, change.change), label=pf.name)
        )
    except HostError as error:
        if error.errno not in _NOT_TAKEN:
            raise
        raise HostError(
            f"VF {change.seat.number} of {pf.name}",
            f"cannot have it: the PF's driver does not take it ({error})",
            mend="drop the field",
            errno=error.errno,
        ) from error


def find_pf(home: Rtnl, seat: VfSeat, *, vfs: bool = False) -> Link:
    """The link of a virtual function's PF.

    Args:
        vfs: Tell its virtual functions too.

    Raises:
        HostError: It is not at home.
    """
    link = home.link(index=seat.index, vfs=vfs) if seat.index else None
    if link is not None and link.parent_device == seat.pf:
        return link
    # Its driver was bound anew; of links of one function those of its switch have port names.
    found = [each for each in home.links() if each.parent_device == seat.pf]
    found.sort(key=lambda each: each.port_name)
    link = home.link(index=found[0].index, vfs=vfs) if found else None
    if link is None:
        raise HostError(
            f"PF {seat.pf}",
            "has no link at home, through which its VFs are set",
            errno=errno.ENODEV,
        )
    return link


def _put_neighbor(tables: Rtnl, neighbor: Neighbor) -> None:
    """Add an entry; one that was learnt meanwhile gives way to what somebody wants."""
    try:
        tables.apply(new_neighbor(neighbor))
    except HostError as error:
        if error.errno != errno.EEXIST:
            raise
        with _unless(errno.ENOENT):
            tables.apply(delete_neighbor(neighbor))
        tables.apply(new_neighbor(neighbor))


def _altnames(tables: Rtnl, change: Altnames, link: Link) -> None:
    for name in change.remove:
        with _unless(errno.ENOENT):
            tables.apply(delete_altnames(link.index, (name,)))
    for name in change.add:
        # udev may have set it again already.
        with _unless(errno.EEXIST):
            tables.apply(add_altnames(link.index, (name,)))


def _put_route(tables: Rtnl, route: Route) -> None:
    try:
        tables.apply(new_route(route))
    except HostError as error:
        if error.errno != errno.EEXIST:
            raise
        holder = _same_key(tables, route)
        if holder is not None and holder.hops[:1] and _same_way(holder, route):
            return
        raise HostError(
            f"route {route.destination}",
            f"is there already, {_way(holder)}" if holder else "is there already",
            rule="a route of the pod is never replaced",
            mend="give routes[].metric or routes[].table another value",
            errno=errno.EEXIST,
        ) from error


def _same_key(tables: Rtnl, route: Route) -> Route | None:
    for present in tables.routes(table=route.table):
        if (present.destination, present.priority) == (route.destination, route.priority):
            return present
    return None


def _same_way(one: Route, other: Route) -> bool:
    ways = [[(hop.index, hop.gateway) for hop in route.hops] for route in (one, other)]
    return ways[0] == ways[1]


def _way(route: Route) -> str:
    hops = [f"via {hop.gateway or 'link'} out of link {hop.index}" for hop in route.hops]
    return ", ".join(hops) or f"of type {route.type}"


def _out_by(route: Route, index: int) -> Route:
    """The route with the link's present index: what it had at home need not be what it has now."""
    if len(route.hops) == 1:
        return attrs.evolve(route, hops=(attrs.evolve(route.hops[0], index=index),))
    return route


def _put_settings(spaces: Namespaces, place: Place, change: PutSettings, link: Link) -> None:
    if place is Place.HOME:
        write_settings(link.name, change.values)
    else:
        run_in_netns(spaces.pod_fd, lambda: write_settings(link.name, change.values))


@contextlib.contextmanager
def _unless(number: int) -> Iterator[None]:
    """Take one refusal of the kernel for what it says: it is so already."""
    try:
        yield
    except HostError as error:
        if error.errno != number:
            raise
