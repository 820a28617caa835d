"""The checks of addresses and routes against the kernel: what passes is taken, the rest is not.

Each case is resolved and, beside that, told to the kernel by ``ip`` on a veth end in a namespace of
its own. Where both must agree, the checks neither let a fault through to the hook, when the host
has lost the NIC, nor refuse what would work.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.netns import ScratchNetns, need_kind, scratch_netns
from tests.unit.nic.config.claims import class_faults

pytestmark = pytest.mark.root


@pytest.fixture
def pod() -> Iterator[ScratchNetns]:
    """A namespace with an interface ``net1`` that is up."""
    need_kind("veth")
    with scratch_netns() as namespace:
        namespace.ip("link", "add", "net1", "type", "veth", "peer", "name", "far")
        for name in ("net1", "far"):
            namespace.ip("link", "set", name, "up")
        # The kernel sets a link's own routes anew when it has learnt of the carrier, in its time.
        while "state UP" not in namespace.ip("-oneline", "link", "show", "net1"):
            time.sleep(0.005)
        yield namespace


def _address(namespace: ScratchNetns, address: dict[str, Any]) -> None:
    own, _, prefix = address["address"].partition("/")
    words = [f"{own}/{prefix}"]
    if "peer" in address:
        words = [own, "peer", f"{address['peer']}/{prefix}"]
    if address.get("noPrefixRoute"):
        words.append("noprefixroute")
    if ":" in address["address"]:
        words.append("nodad")
    namespace.ip("address", "add", *words, "dev", "net1")


def _route(namespace: ScratchNetns, route: dict[str, Any]) -> None:
    names = {"via": "via", "table": "table", "metric": "metric", "scope": "scope", "source": "src"}
    words = [word for name, key in names.items() if name in route for word in (key, route[name])]
    to = {"default": "::/0" if ":" in route.get("via", "") else "0.0.0.0/0"}.get(route["to"])
    if route.get("onLink"):
        words.append("onlink")
    namespace.ip("route", "add", to or route["to"], "dev", "net1", *map(str, words))


def _takes(namespace: ScratchNetns, addresses: list[Any], routes: list[Any]) -> bool:
    """Whether the kernel takes it all, gateways last, as the hook does it."""
    try:
        for address in addresses:
            _address(namespace, address)
        for route in sorted(routes, key=lambda route: "via" in route):
            _route(namespace, route)
    except AssertionError:
        return False
    return True


V4, V6 = {"address": "10.0.0.5/24"}, {"address": "fd00::5/64"}
V4_ALONE, V6_ALONE = {**V4, "noPrefixRoute": True}, {**V6, "noPrefixRoute": True}
LINK4, LINK6 = {"to": "172.16.0.0/24"}, {"to": "fd20::/64"}


@pytest.mark.parametrize(
    ("addresses", "routes"),
    [
        ([V4], [{"to": "default", "via": "10.0.0.1"}]),
        ([V4], [{"to": "default", "via": "10.0.0.0"}]),
        ([V4], [{"to": "default", "via": "10.0.0.255"}]),
        ([V4], [{"to": "default", "via": "192.168.7.1"}]),
        ([V4], [{"to": "default", "via": "192.168.7.1", "onLink": True}]),
        ([V4], [{"to": "default", "via": "169.254.1.1"}]),
        ([V4_ALONE], [{"to": "default", "via": "10.0.0.1"}]),
        ([{**V4, "peer": "10.1.0.1"}], [{"to": "default", "via": "10.1.0.9"}]),
        ([{**V4, "peer": "10.1.0.1"}], [{"to": "default", "via": "10.0.0.1"}]),
        ([{"address": "10.0.0.5/32"}], [{"to": "default", "via": "10.0.0.6"}]),
        ([{"address": "10.0.0.4/31"}], [{"to": "default", "via": "10.0.0.5"}]),
        ([V4], [{"to": "10.9.0.0/16", "via": "10.0.0.1", "table": 100}]),
        ([V4], [{"to": "10.0.0.0/24"}]),
        ([V4], [{"to": "10.0.0.0/24", "metric": 1}]),
        ([V4], [{"to": "10.0.0.0/24", "table": 5}]),
        ([V4_ALONE], [{"to": "10.0.0.0/24"}]),
        ([V4], [{"to": "10.1.0.0/16", "source": "10.0.0.5"}]),
        ([V4], [{"to": "10.1.0.0/16", "source": "10.0.0.6"}]),
        ([V4], [{"to": "10.1.0.0/16", "via": "10.0.0.1", "scope": "link"}]),
        ([V4], [{"to": "10.1.0.0/16", "via": "10.0.0.1", "scope": "host"}]),
        ([V4], [{"to": "10.1.0.0/16", "scope": "host"}]),
        ([V4], [{"to": "10.1.0.0/16"}, {"to": "10.1.0.0/16", "via": "10.0.0.1"}]),
        ([V4], [{"to": "10.1.0.0/16"}, {"to": "10.1.0.0/16", "metric": 5}]),
        ([], [LINK4, {"to": "default", "via": "172.16.0.1"}]),
        ([], [LINK4, {"to": "default", "via": "172.16.0.1", "table": 100}]),
        ([], [{**LINK4, "table": 100}, {"to": "default", "via": "172.16.0.1", "table": 100}]),
        ([], [{**LINK4, "table": 100}, {"to": "default", "via": "172.16.0.1", "table": 200}]),
        ([], [{**LINK4, "table": 100}, {"to": "default", "via": "172.16.0.1"}]),
        ([], [{**LINK4, "scope": "host"}, {"to": "default", "via": "172.16.0.1"}]),
        ([], [{**LINK4, "scope": "global"}, {"to": "default", "via": "172.16.0.1"}]),
        ([V4], [{**LINK4, "via": "10.0.0.1"}, {"to": "default", "via": "172.16.0.1"}]),
        ([V6], [{"to": "default", "via": "fd00::1"}]),
        ([V6], [{"to": "default", "via": "fd00::"}]),
        ([V6], [{"to": "default", "via": "fd00::5"}]),
        ([V6], [{"to": "default", "via": "fe80::1"}]),
        ([V6], [{"to": "default", "via": "fd07::1"}]),
        ([V6], [{"to": "default", "via": "fd07::1", "onLink": True}]),
        ([V6_ALONE], [{"to": "default", "via": "fd00::1"}]),
        ([{**V6, "peer": "fd01::9"}], [{"to": "default", "via": "fd01::9"}]),
        ([{**V6, "peer": "fd01::9"}], [{"to": "default", "via": "fd01::8"}]),
        ([V6], [{"to": "fd00::/64"}]),
        ([V6], [{"to": "fd00::/64", "metric": 256}]),
        ([V6], [{"to": "fd01::/64", "via": "fd00::1"}, {"to": "fd01::/64", "metric": 1024}]),
        ([V6], [{"to": "fd01::/64", "source": "fd00::5"}]),
        ([V6], [{"to": "fd01::/64", "source": "fd00::6"}]),
        ([], [LINK6, {"to": "default", "via": "fd20::1"}]),
        ([], [{**LINK6, "scope": "global"}, {"to": "default", "via": "fd20::1", "table": 100}]),
        ([], [{**LINK6, "table": 100}, {"to": "default", "via": "fd20::1"}]),
        ([V6], [{**LINK6, "via": "fd00::1"}, {"to": "default", "via": "fd20::1"}]),
        ([V4, V4], []),
        ([V6, {"address": "fd00::5/48"}], []),
    ],
)
def test_routes_when_told_to_the_kernel(
    pod: ScratchNetns, addresses: list[Any], routes: list[Any]
) -> None:
    """What the checks let through the kernel takes, and what they refuse it refuses."""

    faults = class_faults({"addresses": addresses, "routes": routes})

    assert _takes(pod, addresses, routes) == (not faults), faults


@pytest.mark.parametrize(
    ("addresses", "routes"),
    [
        ([V4], [{"to": "default", "via": "10.0.0.5"}]),
        ([V4, {"address": "10.0.0.5/16"}], []),
        ([{"address": "10.0.0.0/24"}], []),
        ([{"address": "10.0.0.255/24"}], []),
        ([{"address": "255.255.255.255/32"}], []),
        ([{"address": "0.1.2.3/8"}], []),
        ([{"address": "10.0.0.5/0"}], []),
        ([{"address": "fd00::/64"}], []),
        ([{"address": "fd00::5/0"}], []),
        ([{"address": "::ffff:10.0.0.5/96"}], []),
    ],
)
def test_nonsense_when_told_to_the_kernel(
    pod: ScratchNetns, addresses: list[Any], routes: list[Any]
) -> None:
    """What the kernel takes and could not use as meant is refused by the checks alone."""

    assert _takes(pod, addresses, routes)
    assert len(class_faults({"addresses": addresses, "routes": routes})) == 1


def test_address_of_prefix_0_when_told_to_the_kernel(pod: ScratchNetns) -> None:
    """Why it is refused: it would take the pod's default route (row 4)."""

    _address(pod, {"address": "fd00::5/0"})

    assert "default dev net1" in pod.ip("-6", "route")


def test_mtu_when_set_below_what_ipv6_needs(pod: ScratchNetns) -> None:
    """Why it is refused: the kernel takes IPv6 off the interface without a word."""

    _address(pod, V6)
    pod.ip("link", "set", "net1", "mtu", "1279")

    assert "fd00::5" not in pod.ip("-6", "address", "show", "net1")
    assert class_faults({"interface": {"mtu": 1279}, "addresses": [V6]}) != []
