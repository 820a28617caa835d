"""Items of lists: contradictions inside one, and two that are alike."""

from __future__ import annotations

import json
from collections.abc import Mapping
from ipaddress import ip_address, ip_interface, ip_network
from typing import Any

import pytest

from berth.errors import ClaimError
from berth.nic.config.decode import decode
from berth.nic.config.report import Place, Report
from berth.nic.config.values import AddressConfig, RouteConfig, RouteKey, RouteScope, RuleConfig


def _decode(document: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[str]]:
    report = Report()
    layer = decode(json.loads(json.dumps(document)), Place(report=report, root="c"))
    values = {path: setting.value for path, setting in layer.settings.items()}
    return values, [str(fault) for fault in report.faults(ClaimError)]


def _route(**fields: Any) -> RouteConfig:
    """One route as it is read, without fault."""
    values, faults = _decode({"routes": [fields]})
    assert faults == []
    route: RouteConfig = values["routes"][0]
    return route


def _fault(path: str, **fields: Any) -> list[str]:
    """The faults of one item, without its place; the item is not kept."""
    values, faults = _decode({path: [fields]})
    assert values[path] == ()
    return [fault.removeprefix(f"c.{path}[0].") for fault in faults]


def test_address_when_little_is_said() -> None:
    """An address is used at once and brings the route to its network."""

    values, _ = _decode({"addresses": [{"address": "fd00::5/64"}]})

    assert values["addresses"] == (
        AddressConfig(address=ip_interface("fd00::5/64"), no_dad=True, no_prefix_route=False),
    )


def test_peer_when_of_another_family() -> None:
    """A peer is of the address's family."""

    assert _fault("addresses", address="10.0.0.5/24", peer="fd00::1") == [
        "peer: fd00::1 is IPv6, 10.0.0.5 is IPv4: both must be of one family"
    ]


def test_peer_when_the_address_itself() -> None:
    """A peer is somebody else."""

    assert _fault("addresses", address="10.0.0.5/24", peer="10.0.0.5") == [
        "peer: 10.0.0.5 is the address itself"
    ]


def test_no_dad_when_false_on_ipv4() -> None:
    """IPv4 has no search for duplicates to ask for; that there is none may be said."""

    assert _fault("addresses", address="10.0.0.5/24", noDAD=False) == [
        "noDAD: false on an IPv4 address: only IPv6 searches for duplicates"
    ]
    assert _decode({"addresses": [{"address": "10.0.0.5/24", "noDAD": True}]})[1] == []


@pytest.mark.parametrize(
    ("address", "more", "networks"),
    [
        ("10.0.0.5/24", {}, [("10.0.0.0/24", 0)]),
        ("10.0.0.5/32", {}, []),
        ("10.0.0.4/31", {}, [("10.0.0.4/31", 0)]),
        ("10.0.0.5/24", {"peer": "10.1.0.9"}, [("10.1.0.0/24", 0)]),
        ("10.0.0.5/32", {"peer": "10.1.0.9"}, [("10.1.0.9/32", 0)]),
        ("fd00::5/64", {}, [("fd00::/64", 256)]),
        ("fd00::5/128", {}, [("fd00::5/128", 256)]),
        ("fd00::5/64", {"peer": "fd01::9"}, [("fd00::/64", 256), ("fd01::9/128", 256)]),
        ("10.0.0.5/24", {"no_prefix_route": True}, []),
        ("fd00::5/64", {"no_prefix_route": True}, []),
    ],
)
def test_connected_routes_when(
    address: str, more: Mapping[str, Any], networks: list[tuple[str, int]]
) -> None:
    """An address brings the routes that Linux 6.18 was seen to make for it."""

    given = {**more, "peer": ip_address(more["peer"])} if "peer" in more else more
    item = AddressConfig(address=ip_interface(address), **given)

    assert item.connected == tuple(RouteKey(ip_network(n), 254, m) for n, m in networks)


def test_route_when_little_is_said_of_ipv4() -> None:
    """A route without gateway has the scope link, metric 0 and lies in main."""

    assert _route(to="10.1.0.0/16") == RouteConfig(
        to=ip_network("10.1.0.0/16"), scope=RouteScope.LINK, table=254, metric=0
    )


def test_route_when_little_is_said_of_ipv6() -> None:
    """IPv6 has the metric 1024 where none is given, and where 0 is given."""

    assert _route(to="fd01::/64", via="fd00::1") == _route(to="fd01::/64", via="fd00::1", metric=0)
    assert _route(to="fd01::/64", via="fd00::1").metric == 1024
    assert _route(to="fd01::/64", via="fd00::1").scope is RouteScope.GLOBAL


def test_route_when_all_is_said() -> None:
    """Everything that is said is kept."""

    route = _route(
        to="10.1.0.0/16",
        via="10.0.0.1",
        source="10.0.0.5",
        scope="global",
        table=100,
        metric=7,
        mtu=1400,
        onLink=True,
    )

    assert route == RouteConfig(
        to=ip_network("10.1.0.0/16"),
        via=ip_address("10.0.0.1"),
        source=ip_address("10.0.0.5"),
        scope=RouteScope.GLOBAL,
        table=100,
        metric=7,
        mtu=1400,
        on_link=True,
    )


@pytest.mark.parametrize(
    ("fields", "to"),
    [
        ({"via": "10.0.0.1"}, "0.0.0.0/0"),
        ({"via": "fe80::1"}, "::/0"),
        ({"source": "10.0.0.5"}, "0.0.0.0/0"),
        ({"source": "fd00::5"}, "::/0"),
    ],
)
def test_default_route_when_gateway_or_source_tells_the_family(
    fields: Mapping[str, str], to: str
) -> None:
    """The word ``default`` stands for everything in the family of the route's other addresses."""

    assert _route(to="default", **fields).to == ip_network(to)


@pytest.mark.parametrize(
    ("fields", "faults"),
    [
        (
            {"to": "default"},
            [
                (
                    "to: default without via and source does not tell its family; "
                    "write 0.0.0.0/0 or ::/0"
                ),
            ],
        ),
        (
            {"to": "fd00::/64", "via": "10.0.0.1"},
            ["via: 10.0.0.1 is IPv4, fd00::/64 is IPv6: both must be of one family"],
        ),
        (
            {"to": "default", "via": "10.0.0.1", "source": "fd00::5"},
            ["source: fd00::5 is IPv6, 0.0.0.0/0 is IPv4: both must be of one family"],
        ),
        (
            {"to": "10.1.0.0/16", "via": "10.0.0.1", "scope": "link"},
            ["scope: link beside via: what lies behind a gateway has the scope global"],
        ),
        (
            {"to": "10.1.0.0/16", "via": "10.0.0.1", "scope": "host"},
            ["scope: host beside via: what lies behind a gateway has the scope global"],
        ),
        (
            {"to": "fd00::/64", "scope": "host"},
            ["scope: host on an IPv6 route: it is a scope of IPv4"],
        ),
        (
            {"to": "10.1.0.0/16", "onLink": True},
            ["onLink: true without via: it speaks of the gateway"],
        ),
        ({"to": "fd00::/64", "mtu": 1279}, ["mtu: 1279: IPv6 needs at least 1280"]),
    ],
)
def test_route_when_it_contradicts_itself(fields: Mapping[str, Any], faults: list[str]) -> None:
    """Fields of one route that do not go together are told at the one that is out of place."""

    assert _fault("routes", **fields) == faults


@pytest.mark.parametrize(
    "fields",
    [
        {"to": "10.1.0.0/16", "scope": "host"},
        {"to": "10.1.0.0/16", "scope": "global"},
        {"to": "10.1.0.0/16", "via": "10.0.0.1", "scope": "global"},
        {"to": "fd00::/64", "scope": "link", "mtu": 1280},
        {"to": "10.1.0.0/16", "onLink": False, "mtu": 68},
    ],
)
def test_route_when_it_goes_together(fields: Mapping[str, Any]) -> None:
    """What the kernel takes and means something is let through."""

    assert _decode({"routes": [fields]})[1] == []


@pytest.mark.parametrize(
    ("fields", "version"),
    [
        ({"from": "10.0.0.0/8", "to": "10.1.0.0/16"}, 4),
        ({"from": "fd00::/8"}, 6),
        ({"to": "10.1.0.0/16"}, 4),
        ({"iif": "net1", "fwmark": 7}, None),
    ],
)
def test_rule_version_when(fields: Mapping[str, Any], version: int | None) -> None:
    """A rule's family is that of its networks."""

    values, faults = _decode({"rules": [{"priority": 1, "table": 5, **fields}]})
    rule: RuleConfig = values["rules"][0]

    assert (faults, rule.version) == ([], version)


def test_rule_when_of_two_families() -> None:
    """A rule's two networks are of one family."""

    assert _fault("rules", **{"priority": 1, "table": 5, "from": "10.0.0.0/8", "to": "::/0"}) == [
        "to: ::/0 is IPv6, 10.0.0.0/8 is IPv4: both must be of one family"
    ]


MAC = "02:00:00:00:00:01"


@pytest.mark.parametrize(
    ("path", "items", "fault"),
    [
        (
            "addresses",
            [{"address": "10.0.0.5/24"}, {"address": "10.0.0.5/16"}],
            "10.0.0.5 stands at addresses[0] too",
        ),
        (
            "routes",
            [{"to": "10.1.0.0/16"}, {"to": "10.1.0.0/16", "via": "10.0.0.1", "table": "main"}],
            "10.1.0.0/16, table main, metric 0 stands at routes[0] too",
        ),
        (
            "routes",
            [{"to": "fd01::/64", "table": 9}, {"to": "fd01::/64", "table": 9, "metric": 1024}],
            "fd01::/64, table 9, metric 1024 stands at routes[0] too",
        ),
        (
            "rules",
            [{"priority": 1, "table": 5}, {"priority": 1, "table": 5, "iif": None}],
            "the same rule stands at rules[0] too",
        ),
        (
            "neighbors",
            [
                {"address": "10.0.0.9", "hardwareAddr": MAC},
                {"address": "10.0.0.9", "hardwareAddr": "02:00:00:00:00:02"},
            ],
            "10.0.0.9 stands at neighbors[0] too",
        ),
    ],
)
def test_items_when_two_are_alike(path: str, items: list[Any], fault: str) -> None:
    """The later of two that the kernel cannot tell apart is told, with the place of the first."""

    assert _decode({path: items})[1] == [f"c.{path}[1]: {fault}; drop one of the two"]


@pytest.mark.parametrize(
    ("path", "items"),
    [
        ("addresses", [{"address": "10.0.0.5/24"}, {"address": "10.0.0.6/24"}]),
        ("routes", [{"to": "10.1.0.0/16"}, {"to": "10.1.0.0/16", "metric": 5}]),
        ("routes", [{"to": "10.1.0.0/16"}, {"to": "10.1.0.0/16", "table": 5}]),
        ("routes", [{"to": "10.1.0.0/16"}, {"to": "10.1.0.0/17"}]),
        ("rules", [{"priority": 1, "table": 5}, {"priority": 2, "table": 5}]),
    ],
)
def test_items_when_they_differ(path: str, items: list[Any]) -> None:
    """What the kernel tells apart is let through."""

    assert _decode({path: items})[1] == []
