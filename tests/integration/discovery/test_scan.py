"""Looks at real tables: what is in them, what is left out, and what is decoded again."""

from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path

import pytest

from berth.host.netlink.route import RTN_UNICAST
from berth.host.scan import Scanner
from berth.host.sysfs import Sysfs
from berth.nic.topology import Topology
from berth.nic.uplink import uplinks
from tests.netns import ScratchNetns

pytestmark = pytest.mark.root

SCENE = (
    "link add w0 type veth peer name q0",
    "link set p0 up",
    "link set q0 up",
    "link set v0 up",
    "link set w0 up",
    "address add 192.0.2.7/24 dev v0",
    "address add 198.51.100.7/24 dev w0",
    "route add 203.0.113.0/24 nexthop via 192.0.2.1 nexthop via 198.51.100.1",
    "route add blackhole 203.0.113.128/25",
    "neighbor add 192.0.2.1 lladdr 02:00:5e:10:00:01 dev v0 nud permanent",
    "neighbor add 192.0.2.2 lladdr 02:00:5e:10:00:02 dev v0 nud stale",
)


@pytest.fixture(name="scanner")
def _scanner(home: ScratchNetns, tmp_path: Path) -> Scanner:
    """Of a host with two ways to one place."""
    for line in SCENE:
        home.ip(*line.split())
    return Scanner(Sysfs(tmp_path))


def _names(home: ScratchNetns) -> dict[int, str]:
    return {row["ifindex"]: row["ifname"] for row in home.ip_json("link")}


def test_way_to_an_address_has_all_its_ways_out(home: ScratchNetns, scanner: Scanner) -> None:
    """Each packet takes one of two links, and the node needs both of them (NW §1.3)."""

    look = home.run(lambda: scanner.scan(toward=("203.0.113.9",)))
    found = uplinks(Topology(look))
    names = _names(home)

    assert {names[index] for index in found} >= {"v0", "w0"}
    assert {path for index, path in found.items() if names[index] in {"v0", "w0"}} == {
        "way to the API server at 203.0.113.9 → v0",
        "way to the API server at 203.0.113.9 → w0",
    }


@pytest.mark.parametrize("address", ["203.0.113.200", "240.0.0.1", "2001:db8::1"])
def test_address_without_a_way_has_none(home: ScratchNetns, scanner: Scanner, address: str) -> None:
    """A blackhole, and no route at all."""

    look = home.run(lambda: scanner.scan(toward=(address,)))

    assert uplinks(Topology(look)) == {}


def test_routes_are_unicast_and_neighbors_are_set(home: ScratchNetns, scanner: Scanner) -> None:
    """What a kernel makes of addresses is not asked for, nor kept."""

    look = home.run(scanner.scan)
    destinations = {route.destination for route in look.routes}

    assert {route.type for route in look.routes} == {RTN_UNICAST}
    assert ip_network("203.0.113.0/24") in destinations
    assert ip_network("192.0.2.0/24") in destinations
    assert [str(neighbor.ip) for neighbor in look.neighbors] == ["192.0.2.1"]


def test_second_look_decodes_nothing_that_did_not_change(
    home: ScratchNetns, tmp_path: Path
) -> None:
    """A kernel tells a link in the same bytes as long as nothing happens to it."""

    scanner = Scanner(Sysfs(tmp_path))
    home.ip("route", "add", "203.0.113.0/24", "dev", "lo")
    first = home.run(scanner.scan)
    home.ip("link", "set", "v0", "mtu", "1400")
    second = home.run(scanner.scan)
    known = {id(value) for value in (*first.links, *first.routes, *first.addresses)}

    assert [link.name for link in second.links if id(link) not in known] == ["v0"]
    assert all(id(value) in known for value in (*second.routes, *second.addresses))
