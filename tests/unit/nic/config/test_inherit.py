"""What a NIC has at home, taken over into a pod."""

from __future__ import annotations

from ipaddress import ip_address, ip_interface, ip_network

import attrs

from berth.model.claim import ConfigSource
from berth.nic.config import (
    AddressConfig,
    HomeSettings,
    NeighborConfig,
    RouteConfig,
    RouteScope,
    from_document,
    to_document,
)
from tests.unit.nic.config.claims import NIC, class_faults, entry, resolved

ADDRESS = AddressConfig(address=ip_interface("10.0.0.5/24"))
ROUTE = RouteConfig(
    to=ip_network("10.1.0.0/16"),
    via=ip_address("10.0.0.1"),
    source=ip_address("10.0.0.5"),
    scope=RouteScope.GLOBAL,
    metric=0,
)
NEIGHBOR = NeighborConfig(address=ip_address("10.0.0.9"), hardware_addr="02:00:00:00:00:09")
HOME = attrs.evolve(
    NIC, home=HomeSettings(addresses=(ADDRESS,), routes=(ROUTE,), neighbors=(NEIGHBOR,))
)
CLASS = ConfigSource.CLASS


def test_home_when_nothing_is_inherited() -> None:
    """What the NIC has at home stays out of the pod unless it is asked for."""

    config = resolved(facts=HOME)[0].config

    assert (config.addresses, config.routes, config.neighbors) == ((), (), ())


def test_home_when_all_is_inherited() -> None:
    """Addresses, routes and neighbors stand behind those that the configuration gives itself."""

    own = {"addresses": [{"address": "10.0.0.6/24"}], "inherit": ["neighbors", "addresses"]}
    config = resolved(entry(own, source=CLASS), facts=HOME)[0].config

    assert [str(a.address) for a in config.addresses] == ["10.0.0.6/24", "10.0.0.5/24"]
    assert config.neighbors == (NEIGHBOR,)
    assert config.routes == ()
    assert config.inherit == ("neighbors", "addresses")


def test_home_when_the_configuration_says_the_same() -> None:
    """Where both speak of one thing, the configuration's own word holds."""

    own = {
        "addresses": [{"address": "10.0.0.5/16"}],
        "routes": [{"to": "10.1.0.0/16"}],
        "inherit": ["addresses", "routes"],
    }
    config = resolved(entry(own, source=CLASS), facts=HOME)[0].config

    assert [str(a.address) for a in config.addresses] == ["10.0.0.5/16"]
    assert [route.via for route in config.routes] == [None]


def test_route_when_its_source_is_not_inherited() -> None:
    """A route whose source the pod would lack is refused, not dropped."""

    assert class_faults({"inherit": ["routes"]}, facts=HOME) == [
        (
            'inherit["10.1.0.0/16, table main, metric 0"].source: '
            "10.0.0.5 is no address of this interface: it must be one of addresses"
        ),
        (
            'inherit["10.1.0.0/16, table main, metric 0"].via: '
            "10.0.0.1 is not reachable by any address of this interface: "
            "give onLink or a link-scope route"
        ),
    ]
    assert class_faults({"inherit": ["routes", "addresses"]}, facts=HOME) == []


def test_inherit_when_at_fault() -> None:
    """Nothing is taken over by a wish that could not be read."""

    found = class_faults({"inherit": ["routes", "rules"]}, facts=HOME)

    assert len(found) == 1
    assert found[0].startswith('inherit[1]: "rules": ')


def test_inherit_when_the_lists_grow_too_long() -> None:
    """With what is inherited a list has the same limit."""

    many = tuple(AddressConfig(address=ip_interface(f"10.0.{number}.1/24")) for number in range(16))
    facts = attrs.evolve(NIC, home=HomeSettings(addresses=many))
    own = {"addresses": [{"address": "10.9.0.1/24"}], "inherit": ["addresses"]}

    assert class_faults({"inherit": ["addresses"]}, facts=facts) == []
    assert class_faults(own, facts=facts) == [
        "inherit: 17 addresses with those of the node: at most 16 are allowed"
    ]


def test_inherit_when_the_own_list_is_too_long_already() -> None:
    """A list that is too long by itself is told once."""

    own = {
        "addresses": [{"address": f"10.0.{number}.1/24"} for number in range(17)],
        "inherit": ["addresses"],
    }

    assert class_faults(own, facts=HOME) == ["addresses: 17 items: at most 16 are allowed"]


def test_home_when_it_has_what_no_claim_can_say() -> None:
    """It is refused by its name, not dropped, and not told again as something missing."""

    odd = HomeSettings(
        addresses=(AddressConfig(address=ip_interface("10.0.0.5/0")), ADDRESS),
        routes=(attrs.evolve(ROUTE, table=253), attrs.evolve(ROUTE, source=ip_address("10.9.9.9"))),
        neighbors=(attrs.evolve(NEIGHBOR, hardware_addr="33:33:00:00:00:01"),),
    )
    wish = {"inherit": ["addresses", "routes", "neighbors"]}

    assert class_faults(wish, facts=attrs.evolve(NIC, home=odd)) == [
        (
            'inherit["10.0.0.5"].address: "10.0.0.5/0" has the prefix 0, which would take every '
            'destination: it must be the address of a host with its prefix, such as "10.0.0.5/24"'
        ),
        (
            'inherit["10.1.0.0/16, table 253, metric 0"].table: '
            "253 is the kernel's own table default: "
            "routes and rules of a claim stay out of it"
        ),
        (
            'inherit["10.0.0.9"].hardwareAddr: "33:33:00:00:00:01" is a group address: '
            'it must be a unicast address of 6 octets, such as "02:00:00:00:00:01"'
        ),
    ]


def test_address_when_its_duplicates_were_searched_for_at_home() -> None:
    """An inherited IPv6 address is used at once, so that routes can name it as source."""

    address = AddressConfig(address=ip_interface("fd00::5/64"), no_dad=False)
    route = RouteConfig(
        to=ip_network("fd01::/64"),
        source=ip_address("fd00::5"),
        scope=RouteScope.GLOBAL,
        metric=1024,
    )
    facts = attrs.evolve(NIC, home=HomeSettings(addresses=(address,), routes=(route,)))
    wish = entry({"inherit": ["addresses", "routes"]}, source=CLASS)
    config = resolved(wish, facts=facts)[0].config

    assert config.addresses == (attrs.evolve(address, no_dad=True),)
    assert config.routes == (route,)
    assert from_document(to_document(config), where="x") == config
