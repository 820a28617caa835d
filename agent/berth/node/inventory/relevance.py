"""Which of the kernel's events may change the inventory.

A node starts and ends pods all day, and each brings a pair of links, addresses on them and routes
to them. None of that makes or unmakes a NIC, so none of it is worth a look. Whatever is not known
to be of that sort is.

Invariant: a link counts as a bystander only while its own last event, or the last look, said so.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from berth.config.nic import NicTable
from berth.host.netlink.address import Address
from berth.host.netlink.events import Event, Overflow, Removed
from berth.host.netlink.link import Link
from berth.host.netlink.nsid import Nsid
from berth.host.netlink.route import RTN_UNICAST, Route
from berth.nic.survey import link_mac

_PAIRS: Final = frozenset({"veth", "netkit"})
# Kinds of link that join a pod to its host.


class Relevance:
    """Tells events that matter from those of pods' links."""

    def __init__(self) -> None:
        self._wanted: frozenset[str] = frozenset()
        self._nics: frozenset[int] = frozenset()
        self._bystanders: set[int] = set()

    def settle(self, links: Iterable[Link], nics: Iterable[int], table: NicTable) -> None:
        """Take what a look found.

        Args:
            nics: Indexes of links that are NICs of ours.
            table: The settings by which it was judged.
        """
        matches = [group.match for group in table.groups]
        self._wanted = frozenset(
            word for match in matches for word in (*match.name, *match.altname, *match.mac)
        )
        self._nics = frozenset(nics)
        self._bystanders = {link.index for link in links if self._stands_by(link)}

    def concerns(self, event: Event) -> bool:
        """Whether the machine should be looked at because of an event; each is told once."""
        if isinstance(event, Overflow):
            self._bystanders.clear()
            return True
        value = event.value
        if isinstance(value, Link):
            return self._concerns_link(value, gone=isinstance(event, Removed))
        if isinstance(value, Address):
            return value.index not in self._bystanders
        if isinstance(value, Route):
            return self._concerns_route(value)
        return not isinstance(value, Nsid)

    def _concerns_link(self, link: Link, *, gone: bool) -> bool:
        known = link.index in self._bystanders
        self._bystanders.discard(link.index)
        if gone:
            return not known
        if self._stands_by(link):
            self._bystanders.add(link.index)
            return False
        return True

    def _concerns_route(self, route: Route) -> bool:
        if route.type != RTN_UNICAST:
            return False
        ways = {hop.index for hop in route.hops}
        return route.default or not ways or not ways <= self._bystanders

    def _stands_by(self, link: Link) -> bool:
        named = not self._wanted.isdisjoint((*link.names, link_mac(link)))
        return link.kind in _PAIRS and link.index not in self._nics and not named
