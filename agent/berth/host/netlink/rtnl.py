"""The kernel's network tables, as values, over one blocking socket: for worker threads.

Reads give values of one moment; a table that changes while it is read is read again (see
`socket.Netlink.dump`). Writes go through `apply` with a request of `linkrequest`, `address`,
`route`, `rule` or `neighbor`; an acknowledgement is not the proof of a state, so read back.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Final

from berth.errors import HostError, RemoteProtocolError
from berth.host.netlink import linkrequest
from berth.host.netlink.address import RTM_NEWADDR, Address, dump_addresses, parse_address
from berth.host.netlink.ip import AF_INET, AF_INET6, IpAddress
from berth.host.netlink.link import RTM_NEWLINK, Link, parse_link
from berth.host.netlink.namespace import Netns, netns_descriptor
from berth.host.netlink.neighbor import RTM_NEWNEIGH, Neighbor, dump_neighbors, parse_neighbor
from berth.host.netlink.nexthop import RTM_NEWNEXTHOP, NextHop, dump_next_hops, parse_next_hop
from berth.host.netlink.nsid import (
    NO_NSID,
    RTM_NEWNSID,
    dump_nsids,
    get_nsid,
    new_nsid,
    parse_nsid,
)
from berth.host.netlink.route import RTM_NEWROUTE, Route, dump_routes, get_route, parse_route
from berth.host.netlink.rule import RTM_NEWRULE, Rule, dump_rules, parse_rule
from berth.host.netlink.socket import Netlink, Sender, open_in, send_now

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from berth.host.netlink.message import Message, Request

_FAMILIES: Final = (AF_INET, AF_INET6)
# No route, or one of the types unreachable, prohibit and blackhole: each answers with its number.
_NO_WAY: Final = frozenset({errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EACCES, errno.EINVAL})


class Rtnl:
    """The link, address, route, rule, neighbor and namespace tables of one namespace.

    Every method blocks, and raises HostError when the kernel refuses and RemoteProtocolError when
    its answer is malformed.

    Args:
        netlink: The socket; closed with this.
    """

    def __init__(self, netlink: Netlink) -> None:
        self.netlink = netlink

    @classmethod
    def home(cls, *, send: Sender = send_now) -> Self:
        """Open the tables of the calling thread's namespace, which is the host's."""
        return cls(Netlink(where="host", send=send))

    @classmethod
    def of(cls, netns: Netns, *, where: str = "pod", send: Sender = send_now) -> Self:
        """Open the tables of another namespace; it lives at least until `close`."""
        return cls(open_in(netns, where=where, send=send))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket. May be called twice."""
        self.netlink.close()

    def apply(self, request: Request) -> None:
        """Do what a request says."""
        self.netlink.request(request)

    def links(self, *, nsid: int | None = None, master: int = 0) -> tuple[Link, ...]:
        """Give all links, without virtual functions.

        Args:
            nsid: Namespace id to look into, None for the socket's own namespace.
            master: Interface index of the master whose ports alone are wanted.
        """
        parts = self.netlink.dump(linkrequest.dump_links(nsid=nsid, master=master))
        return tuple(parse_link(part) for part in parts if part.type == RTM_NEWLINK)

    def link(
        self, *, index: int = 0, name: str = "", nsid: int | None = None, vfs: bool = False
    ) -> Link | None:
        """Give one link, found by its index, or by its name or one of its altnames.

        Args:
            index: Interface index.
            name: Used where no index is given.
            nsid: Namespace id to look into, None for the socket's own namespace.
            vfs: Tell its virtual functions too.

        Returns:
            None when there is no such link.
        """
        request = linkrequest.get_link(index=index, name=name, nsid=nsid, vfs=vfs)
        try:
            answers = self.netlink.request(request)
        except HostError as error:
            if error.errno == errno.ENODEV:
                return None
            raise
        return parse_link(self._single(request, answers, RTM_NEWLINK))

    def addresses(self, *, index: int = 0) -> tuple[Address, ...]:
        """Give all addresses, or those of one link."""
        parts = self.netlink.dump(dump_addresses(index=index))
        return tuple(parse_address(part) for part in parts if part.type == RTM_NEWADDR)

    def routes(self, *, table: int = 0, index: int = 0) -> tuple[Route, ...]:
        """Give all IPv4 and IPv6 routes of all tables, or those of one table, or by one link.

        Args:
            table: Number of the table.
            index: Interface index; a multipath route counts when any of its hops leads there.
        """
        parts = [p for f in _FAMILIES for p in self._dump_routes(f, table)]
        routes = [parse_route(part) for part in parts if part.type == RTM_NEWROUTE]
        return tuple(route for route in routes if route and (not index or _uses(route, index)))

    def _dump_routes(self, family: int, table: int) -> tuple[Message, ...]:
        try:
            return self.netlink.dump(dump_routes(family, table=table))
        except HostError as error:
            # The kernel's answer for a table that nobody has written to yet.
            if table and error.errno == errno.ENOENT:
                return ()
            raise

    def route_to(self, destination: IpAddress, *, whole: bool = False) -> Route | None:
        """Give the way that packets to an address would take; None when there is none.

        Args:
            destination: Where to.
            whole: Give the route itself, with all its ways out, of which each packet takes one.
        """
        request = get_route(destination, whole=whole)
        try:
            answers = self.netlink.request(request)
        except HostError as error:
            if error.errno in _NO_WAY:
                return None
            raise
        return parse_route(self._single(request, answers, RTM_NEWROUTE))

    def rules(self) -> tuple[Rule, ...]:
        """Give all IPv4 and IPv6 rules, in the order in which they are asked."""
        parts = [part for family in _FAMILIES for part in self.netlink.dump(dump_rules(family))]
        rules = [parse_rule(part) for part in parts if part.type == RTM_NEWRULE]
        return tuple(rule for rule in rules if rule is not None)

    def neighbors(self, *, index: int = 0) -> tuple[Neighbor, ...]:
        """Give all IP neighbors, or those of one link."""
        parts = self.netlink.dump(dump_neighbors(index=index))
        neighbors = [parse_neighbor(part) for part in parts if part.type == RTM_NEWNEIGH]
        return tuple(neighbor for neighbor in neighbors if neighbor is not None)

    def next_hops(self) -> tuple[NextHop, ...]:
        """Give all nexthop objects; none on a kernel that knows none (before 5.3)."""
        try:
            parts = self.netlink.dump(dump_next_hops())
        except HostError as error:
            if error.errno == errno.EOPNOTSUPP:
                return ()
            raise
        return tuple(parse_next_hop(part) for part in parts if part.type == RTM_NEWNEXTHOP)

    def nsids(self) -> tuple[int, ...]:
        """Give the ids that other namespaces have in this one."""
        parts = self.netlink.dump(dump_nsids())
        return tuple(parse_nsid(part).number for part in parts if part.type == RTM_NEWNSID)

    def nsid_of(self, netns: Netns) -> int | None:
        """Give the id that another namespace has in this one; None when it has none."""
        with netns_descriptor(netns) as descriptor:
            request = get_nsid(descriptor)
            answers = self.netlink.request(request)
        number = parse_nsid(self._single(request, answers, 0)).number
        return None if number == NO_NSID else number

    def ensure_nsid(self, netns: Netns) -> int:
        """Give the id that another namespace has in this one, made now if it had none.

        Nothing of this keeps the namespace alive.
        """
        with netns_descriptor(netns) as descriptor:
            number = self.nsid_of(descriptor)
            if number is not None:
                return number
            try:
                self.apply(new_nsid(descriptor))
            except HostError as error:
                # Somebody else made one meanwhile.
                if error.errno != errno.EEXIST:
                    raise
            number = self.nsid_of(descriptor)
        if number is None:
            raise RemoteProtocolError(self.netlink.where, "a namespace without id after it got one")
        return number

    def _single(self, request: Request, answers: tuple[Message, ...], kind: int) -> Message:
        """Give the one answer of a kind; 0 takes any."""
        for answer in answers:
            if kind in {0, answer.type}:
                return answer
        raise RemoteProtocolError(
            f"{self.netlink.where}: {request.label}", "acknowledged without an answer"
        )


def _uses(route: Route, index: int) -> bool:
    return any(hop.index == index for hop in route.hops)
