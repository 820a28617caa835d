"""What contradicts itself within one NIC's configuration, whatever the device (row 25, row 32)."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from berth.model.claim import ConfigSource
from berth.model.device import NicKind
from tests.unit.nic.config.claims import NIC, SHARED, class_faults, entry, resolved

V4 = {"address": "10.0.0.5/24"}
V6 = {"address": "fd00::5/64"}


def _routes(*routes: dict[str, Any], addresses: Any = (V4, V6), **more: Any) -> list[str]:
    """The faults of an interface with some routes."""
    return class_faults({"addresses": [*addresses], "routes": [*routes], **more})


@pytest.mark.parametrize(
    ("route", "more"),
    [
        ({"to": "default", "via": "10.0.0.1"}, {}),
        ({"to": "default", "via": "10.0.0.0"}, {}),
        ({"to": "default", "via": "fd00::1"}, {}),
        ({"to": "default", "via": "fe80::1"}, {}),
        ({"to": "fd01::/64", "via": "fe80::1"}, {"addresses": []}),
        ({"to": "default", "via": "192.168.7.1", "onLink": True}, {}),
        ({"to": "default", "via": "10.1.0.9"}, {"addresses": [{**V4, "peer": "10.1.0.1"}]}),
        ({"to": "default", "via": "fd01::9"}, {"addresses": [{**V6, "peer": "fd01::9"}]}),
        ({"to": "10.9.0.0/16", "via": "10.0.0.4"}, {"addresses": [{"address": "10.0.0.5/31"}]}),
        ({"to": "10.9.0.0/16", "via": "10.0.0.1", "table": 100}, {}),
    ],
)
def test_via_when_reachable(route: dict[str, Any], more: dict[str, Any]) -> None:
    """A gateway in an address's network, link-local, or said to be on the link is let through."""

    assert _routes(route, **more) == []


@pytest.mark.parametrize(
    ("via", "more"),
    [
        ("192.168.7.1", {}),
        ("10.0.1.1", {}),
        ("fd07::1", {}),
        ("169.254.1.1", {}),
        ("10.0.0.1", {"addresses": []}),
        ("10.0.0.1", {"addresses": [{**V4, "noPrefixRoute": True}]}),
        ("fd00::1", {"addresses": [{**V6, "noPrefixRoute": True}]}),
        ("10.0.0.1", {"addresses": [{**V4, "peer": "10.1.0.1"}]}),
        ("10.0.0.6", {"addresses": [{"address": "10.0.0.5/32"}]}),
    ],
)
def test_via_when_not_reachable(via: str, more: dict[str, Any]) -> None:
    """A gateway that the kernel would refuse is told, with the two ways out."""

    assert _routes({"to": "default", "via": via}, **more) == [
        (
            f"routes[0].via: {via} is not reachable by any address of this interface: "
            "give onLink or a link-scope route"
        )
    ]


@pytest.mark.parametrize(
    ("link", "via", "table", "reached"),
    [
        ({"to": "172.16.0.0/24"}, "172.16.0.1", "main", True),
        ({"to": "172.16.0.0/24"}, "172.16.0.1", 100, True),
        ({"to": "172.16.0.0/24", "scope": "host"}, "172.16.0.1", "main", True),
        ({"to": "172.16.0.0/24", "scope": "global"}, "172.16.0.1", "main", False),
        ({"to": "172.16.0.0/24", "table": 100}, "172.16.0.1", 100, True),
        ({"to": "172.16.0.0/24", "table": 100}, "172.16.0.1", 200, False),
        ({"to": "172.16.0.0/24", "table": 100}, "172.16.0.1", "main", False),
        ({"to": "172.16.0.0/24", "via": "10.0.0.1"}, "172.16.0.1", "main", False),
        ({"to": "fd20::/64"}, "fd20::1", "main", True),
        ({"to": "fd20::/64", "scope": "global"}, "fd20::1", 100, True),
        ({"to": "fd20::/64", "table": 100}, "fd20::1", "main", False),
        ({"to": "fd20::/64", "via": "fd00::1"}, "fd20::1", "main", False),
    ],
)
def test_via_when_a_route_leads_to_it(
    link: dict[str, Any], via: str, table: object, *, reached: bool
) -> None:
    """A route of link scope in the same table or main makes a gateway reachable, as in Linux."""

    assert len(_routes(link, {"to": "default", "via": via, "table": table})) == (not reached)


@pytest.mark.parametrize("via", ["10.0.0.5", "fd00::5"])
def test_via_when_the_interface_itself(via: str) -> None:
    """A gateway that is the interface itself is told, even if it is said to be on the link."""

    for more in ({}, {"onLink": True}):
        assert _routes({"to": "default", "via": via, **more}) == [
            f"routes[0].via: {via} is this interface's own address: a gateway is another host"
        ]


def test_via_when_a_broadcast_address() -> None:
    """The kernel takes no broadcast address for a gateway."""

    assert _routes({"to": "default", "via": "10.0.0.255"}) == [
        "routes[0].via: 10.0.0.255 is a broadcast address: a gateway is one host"
    ]


def test_via_when_the_addresses_could_not_be_read() -> None:
    """A fault in an address is not told a second time as an unreachable gateway."""

    found = _routes({"to": "default", "via": "10.7.0.1"}, addresses=[{"address": "10.7.0.5"}])

    assert len(found) == 1
    assert found[0].startswith("addresses[0].address: ")


def test_via_when_a_route_could_not_be_read() -> None:
    """Nor is a fault in the route that would lead to the gateway."""

    found = _routes({"to": "172.16.0.0"}, {"to": "default", "via": "172.16.0.1"})

    assert len(found) == 1
    assert found[0].startswith("routes[0].to: ")


def test_source_when_an_address_of_the_interface() -> None:
    """A source may be any of the interface's addresses."""

    assert _routes({"to": "10.1.0.0/16", "via": "10.0.0.1", "source": "10.0.0.5"}) == []
    assert _routes({"to": "fd01::/64", "via": "fd00::1", "source": "fd00::5"}) == []


def test_source_when_of_nobody() -> None:
    """A source that the pod would lack is told before the host loses the NIC (row 25)."""

    assert _routes({"to": "10.1.0.0/16", "source": "10.0.0.6"}) == [
        "routes[0].source: 10.0.0.6 is no address of this interface: it must be one of addresses"
    ]


def test_source_when_still_tentative() -> None:
    """The kernel takes no source whose duplicate is still searched for."""

    addresses = [{**V6, "noDAD": False}]

    assert _routes({"to": "fd01::/64", "source": "fd00::5"}, addresses=addresses) == [
        (
            "routes[0].source: fd00::5 cannot be used before the search for duplicates is over: "
            "the kernel takes no such route; drop source, or noDAD of that address"
        )
    ]


def test_source_when_the_addresses_could_not_be_read() -> None:
    """A fault in an address is not told a second time as a missing source."""

    assert len(_routes({"to": "10.1.0.0/16", "source": "10.0.0.6"}, addresses=[{}])) == 1


@pytest.mark.parametrize(
    ("route", "address"),
    [
        ({"to": "10.0.0.0/24"}, "10.0.0.5/24"),
        ({"to": "10.0.0.0/24", "via": "10.0.0.1"}, "10.0.0.5/24"),
        ({"to": "fd00::/64", "metric": 256}, "fd00::5/64"),
    ],
)
def test_route_when_the_address_brings_it(route: dict[str, Any], address: str) -> None:
    """A route that the kernel makes of its own accord cannot be made again."""

    assert _routes(route) == [
        (
            f"routes[0].to: {route['to']} is the network of {address}, "
            "which has that route already: the kernel refuses a second one; "
            "drop the route, or give it a metric, or the address noPrefixRoute"
        )
    ]


@pytest.mark.parametrize(
    ("route", "more"),
    [
        ({"to": "10.0.0.0/24", "metric": 1}, {}),
        ({"to": "10.0.0.0/24", "table": 5}, {}),
        ({"to": "10.0.0.0/25"}, {}),
        ({"to": "fd00::/64"}, {}),
        ({"to": "10.0.0.0/24"}, {"addresses": [{**V4, "noPrefixRoute": True}]}),
    ],
)
def test_route_when_beside_that_of_the_address(route: dict[str, Any], more: Any) -> None:
    """Another metric, table or prefix is another route."""

    assert _routes(route, **more) == []


def test_up_when_false_beside_routes() -> None:
    """The kernel takes no route through an interface that is down."""

    assert _routes({"to": "10.1.0.0/16"}, interface={"up": False}) == [
        "interface.up: false beside routes: a route needs an interface that is up"
    ]
    assert _routes(interface={"up": False}) == []
    assert _routes({"to": "10.1.0.0/16"}, interface={"up": True}) == []


def test_ipv6_when_disabled_beside_what_needs_it() -> None:
    """Addresses, routes and neighbors of IPv6 need it; each kind is told."""

    neighbor = {"address": "fd00::9", "hardwareAddr": "02:00:00:00:00:01"}
    disabled = {"sysctls": {"ipv6": {"disable_ipv6": 1}}}

    assert _routes({"to": "fd01::/64"}, neighbors=[neighbor], **disabled) == [
        f"sysctls.ipv6.disable_ipv6: 1 beside IPv6 {what}: the kernel takes none of them then"
        for what in ("addresses", "routes", "neighbors")
    ]
    assert _routes({"to": "10.1.0.0/16"}, addresses=[V4], **disabled) == []
    enabled = {"sysctls": {"ipv6": {"disable_ipv6": 0}}}
    assert _routes({"to": "fd01::/64"}, **enabled) == []


def _rules(rule: dict[str, Any], *routes: dict[str, Any]) -> list[str]:
    return class_faults({"routes": [*routes], "rules": [{"priority": 9, **rule}]})


def test_rule_when_its_table_has_routes() -> None:
    """A rule for a table of this configuration is let through, in the families that it has."""

    v4, v6 = {"to": "10.1.0.0/16", "table": 100}, {"to": "fd01::/64", "table": 100}

    assert _rules({"table": 100, "from": "10.0.0.0/8"}, v4) == []
    assert _rules({"table": 100, "to": "fd00::/8"}, v4, v6) == []
    assert _rules({"table": 100, "fwmark": 7}, v6) == []


def test_rule_when_its_table_has_no_route() -> None:
    """A rule for a table of nobody is told."""

    assert _rules({"table": 100}, {"to": "10.1.0.0/16"}) == [
        "rules[0].table: 100 is the table of no route: it must be that of one of routes"
    ]


def test_rule_when_its_table_has_none_of_its_family() -> None:
    """A rule must lead to a route of its own family."""

    assert _rules({"table": 100, "from": "fd00::/8"}, {"to": "10.1.0.0/16", "table": 100}) == [
        "rules[0].table: 100 has no IPv6 route: the rule would lead nowhere"
    ]


def test_rule_when_the_routes_could_not_be_read() -> None:
    """A fault in a route is not told a second time as an empty table."""

    assert len(_rules({"table": 100}, {"to": "x", "table": 100})) == 1


def test_rule_versions_when_the_rule_names_no_network() -> None:
    """It is made in each family that its table has routes of, else in its own."""

    routes = [{"to": "10.1.0.0/16", "table": 5}, {"to": "fd01::/64", "table": 5}]
    rules = [{"priority": 1, "table": 5}, {"priority": 2, "table": 5, "from": "fd00::/8"}]
    config = resolved(entry({"routes": routes, "rules": rules}, source=ConfigSource.CLASS))[
        0
    ].config

    assert [config.rule_versions(rule) for rule in config.rules] == [(4, 6), (6,)]


def test_macvlan_when_the_nic_itself_is_moved() -> None:
    """A field without effect in the NIC's mode is a fault, never ignored."""

    assert class_faults({"macvlan": {"mode": "bridge"}}) == [
        "macvlan.mode: without effect in mode move: it belongs to mode macvlan; drop it"
    ]
    assert class_faults({"macvlan": {"mode": None}}) == []
    assert class_faults({"macvlan": {}}) == []


def test_inherit_when_a_child_is_made() -> None:
    """A child has nothing at home that it could inherit."""

    assert class_faults({"inherit": ["routes"]}, facts=SHARED) == [
        "inherit: without effect in mode macvlan: it belongs to mode move; drop it"
    ]


def test_macvlan_when_the_mode_could_not_be_read() -> None:
    """A fault in the mode is not told a second time as a field without effect."""

    found = class_faults({"mode": "macvlna", "macvlan": {"mode": "vepa"}})

    assert len(found) == 1
    assert found[0].startswith("mode: ")


VF = attrs.evolve(NIC, kind=NicKind.VF, pf_mtu=9000)


@pytest.mark.parametrize(
    ("vf", "faults"),
    [
        ({"vlan": 7, "vlanQoS": 3, "vlanProtocol": "802.1ad"}, []),
        ({"vlan": 0, "vlanQoS": 0}, []),
        ({"vlanQoS": 3}, ["vf.vlanQoS: without a VLAN: it stands in a VLAN's tag"]),
        (
            {"vlan": 0, "vlanProtocol": "802.1Q"},
            ["vf.vlanProtocol: without a VLAN: it stands in a VLAN's tag"],
        ),
        ({"minTxMbps": 10, "maxTxMbps": 10}, []),
        ({"minTxMbps": 10, "maxTxMbps": 0}, []),
        (
            {"minTxMbps": 11, "maxTxMbps": 10},
            ["vf.minTxMbps: 11 is above vf.maxTxMbps: that is 10"],
        ),
        ({"adminMAC": False}, []),
        (
            {"adminMAC": True},
            ["vf.adminMAC: true without an address: it says how interface.hardwareAddr is set"],
        ),
    ],
)
def test_vf_when_its_values_are_beside_each_other(vf: dict[str, Any], faults: list[str]) -> None:
    """A tag needs a VLAN, the least rate is not above the largest, an address has to be given."""

    assert class_faults({"vf": vf}, facts=VF) == faults


def test_admin_mac_when_an_address_is_given() -> None:
    """The address of the interface is the one that is set through the PF."""

    interface = {"hardwareAddr": "02:00:00:00:00:01"}

    assert class_faults({"interface": interface, "vf": {"adminMAC": True}}, facts=VF) == []


@pytest.mark.parametrize(
    ("parameters", "faults"),
    [
        ({"vrf": {"name": "blue"}}, []),
        ({"vrf": {"name": "blue", "table": 7}, "routes": [{"to": "10.1.0.0/16"}]}, []),
        ({"vrf": {"table": 7}}, ["vrf.table: without vrf.name: it is the table of a VRF"]),
        (
            {
                "vrf": {"name": "blue"},
                "routes": [{"to": "10.1.0.0/16", "table": 9}],
                "rules": [{"priority": 5, "table": 9}],
            },
            [
                (
                    "rules: beside vrf: the VRF says which packets use its table; "
                    "drop one of the two"
                ),
                "routes[0].table: 9 beside vrf: its routes are in the VRF's table",
            ],
        ),
    ],
)
def test_vrf_when_beside_routes_and_rules(parameters: dict[str, Any], faults: list[str]) -> None:
    """All that the interface has is in the VRF's table, and nothing else leads there."""

    assert class_faults(parameters) == faults
