"""Which of the kernel's events are worth a look."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_interface, ip_network
from typing import Any

import pytest

from berth.config.nic import NicTable
from berth.host.netlink.address import Address
from berth.host.netlink.events import Changed, Event, Overflow, Removed
from berth.host.netlink.link import Link
from berth.host.netlink.nexthop import NextHop
from berth.host.netlink.nsid import Nsid
from berth.host.netlink.route import RTN_LOCAL, Hop, Route
from berth.host.netlink.rule import Rule
from berth.node.inventory.relevance import Relevance
from tests.unit.nic.machine import group

RTN_MULTICAST = 5
POD = Link(index=9, name="cali9", kind="veth", mac="ee:ee:ee:ee:ee:ee")
NIC = Link(index=3, name="ens1f0", parent_device="0000:41:00.0", parent_bus="pci")
BRIDGE = Link(index=4, name="br0", kind="bridge")


def _settled(*links: Link, nics: Sequence[int] = (3,), table: NicTable | None = None) -> Relevance:
    relevance = Relevance()
    relevance.settle(links, nics, table or NicTable())
    return relevance


def _address(index: int) -> Address:
    return Address(index=index, ip=ip_interface("192.0.2.7/24"))


def _route(*indexes: int, to: str = "10.0.0.1/32", **facts: Any) -> Route:
    hops = tuple(Hop(index=index) for index in indexes)
    return Route(destination=ip_network(to), hops=hops, **facts)


@pytest.mark.parametrize(
    "value",
    [
        NIC,
        BRIDGE,
        Link(index=5, name="mv0", kind="macvlan", parent=3),
        _address(3),
        _address(77),
        _route(3),
        _route(9, 3),
        _route(to="0.0.0.0/0"),
        _route(9, to="0.0.0.0/0"),
        _route(9, to="::/1"),
        _route(nexthop_id=5),
        NextHop(id=5, index=9),
        Rule(priority=100, table=100),
    ],
)
@pytest.mark.parametrize("kind", [Changed, Removed])
def test_what_may_change_the_inventory_is_worth_a_look(
    value: Any, kind: type[Changed | Removed]
) -> None:
    """Hardware, masters, children, ways out; and whatever is not known to be a pod's."""

    assert _settled(POD, NIC, BRIDGE).concerns(kind(value=value))


@pytest.mark.parametrize(
    "value",
    [
        POD,
        _address(9),
        _route(9),
        _route(3, type=RTN_LOCAL),
        _route(3, to="ff00::/8", type=RTN_MULTICAST),
        Nsid(number=4),
    ],
)
@pytest.mark.parametrize("kind", [Changed, Removed])
def test_what_pods_bring_is_worth_none(value: Any, kind: type[Changed | Removed]) -> None:
    """Their links, addresses on them, routes to them, and their namespaces."""

    assert not _settled(POD, NIC).concerns(kind(value=value))


def test_pod_that_starts_is_worth_no_look() -> None:
    """Its link was not there at the last look: its own event says what it is."""

    relevance = _settled(NIC)
    new = Link(index=12, name="cali12", kind="veth")
    events: list[Event] = [
        Changed(value=new),
        Changed(value=_address(12)),
        Changed(value=_route(12)),
        Removed(value=_route(12)),
        Removed(value=new),
    ]

    assert [relevance.concerns(event) for event in events] == [False] * 5


def test_number_of_a_link_that_is_gone_says_nothing() -> None:
    """The kernel may give it to another."""

    relevance = _settled(POD, NIC)
    relevance.concerns(Removed(value=POD))

    assert relevance.concerns(Changed(value=_address(9)))


@pytest.mark.parametrize(
    "match",
    [{"name": ("cali9",)}, {"altname": ("slot-9",)}, {"mac": ("ee:ee:ee:ee:ee:ee",)}],
)
def test_link_that_a_group_names_is_worth_a_look(match: dict[str, tuple[str, ...]]) -> None:
    """A veth end may be a NIC of ours, in tests and in labs."""

    named = Link(**{**_facts(POD), "altnames": ("slot-9",)})
    table = NicTable(groups=(group("lab", **match),))
    relevance = _settled(named, table=table)

    assert relevance.concerns(Changed(value=named))
    assert relevance.concerns(Changed(value=_address(9)))


def _facts(link: Link) -> dict[str, Any]:
    return {"index": link.index, "name": link.name, "kind": link.kind, "mac": link.mac}


def test_link_that_is_renamed_to_a_wanted_name_is_worth_a_look() -> None:
    """It was a bystander until then."""

    table = NicTable(groups=(group("lab", name=("uplink0",)),))
    relevance = _settled(POD, table=table)
    renamed = Link(**{**_facts(POD), "name": "uplink0"})

    assert not relevance.concerns(Changed(value=POD))
    assert relevance.concerns(Changed(value=renamed))
    assert relevance.concerns(Changed(value=_address(9)))


def test_nic_of_ours_is_worth_a_look_under_any_name() -> None:
    """It was renamed, and is in the inventory by its number."""

    relevance = _settled(POD, nics=(9,))

    assert relevance.concerns(Changed(value=POD))
    assert relevance.concerns(Removed(value=POD))


def test_after_lost_events_nobody_is_a_bystander() -> None:
    """What is known of links may be old."""

    relevance = _settled(POD)

    assert relevance.concerns(Overflow())
    assert relevance.concerns(Changed(value=_address(9)))


def test_before_the_first_look_everything_matters() -> None:
    """But links that say themselves what they are."""

    relevance = Relevance()

    assert relevance.concerns(Changed(value=_address(9)))
    assert not relevance.concerns(Changed(value=POD))
