"""Items of lists: what must hold inside each, and that no two are alike."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from ipaddress import IPv4Network, IPv6Network
from typing import Any, Final

from berth.nic.config.notation import DEFAULT_ROUTE
from berth.nic.config.report import Place
from berth.nic.config.values import (
    AddressConfig,
    Ip,
    NeighborConfig,
    Network,
    RouteConfig,
    RouteScope,
    RuleConfig,
)

IPV6_LEAST_MTU: Final = 1280
"""Source: RFC 8200 §5. Linux takes IPv6 off an interface whose MTU is set below."""

_EVERYWHERE: Final[Mapping[int, Network]] = {
    4: IPv4Network("0.0.0.0/0"),
    6: IPv6Network("::/0"),
}
_IPV6_METRIC: Final = 1024
"""What Linux takes for an IPv6 metric of 0, and without one (tried on 6.18)."""


def _address(given: Mapping[str, Any], place: Place) -> AddressConfig | None:
    item = AddressConfig(**given)
    before = place.report.count
    if item.peer is not None:
        _same_family(item.address.ip, item.peer, place.at("peer"))
        if item.peer == item.address.ip:
            place.at("peer").say(f"{item.peer} is the address itself")
    if item.address.version == 4 and not item.no_dad:
        place.at("noDAD").say("false on an IPv4 address", rule="only IPv6 searches for duplicates")
    return item if place.report.count == before else None


def _route(given: Mapping[str, Any], place: Place) -> RouteConfig | None:
    before = place.report.count
    to = _destination(given, place)
    if to is None:
        return None
    for name in ("via", "source"):
        if name in given:
            _same_family(to, given[name], place.at(name))
    _check_scope(given, to, place)
    if given.get("on_link") and "via" not in given:
        place.at("onLink").say("true without via", rule="it speaks of the gateway")
    if to.version == 6 and given.get("mtu", IPV6_LEAST_MTU) < IPV6_LEAST_MTU:
        place.at("mtu").say(f"{given['mtu']}", rule=f"IPv6 needs at least {IPV6_LEAST_MTU}")
    if place.report.count != before:
        return None
    scope = RouteScope.GLOBAL if "via" in given else RouteScope.LINK
    metric = given.get("metric", 0) or (_IPV6_METRIC if to.version == 6 else 0)
    return RouteConfig(**{"scope": scope, **given, "to": to, "metric": metric})


def _destination(given: Mapping[str, Any], place: Place) -> Network | None:
    to: Network | str = given["to"]
    if not isinstance(to, str):
        return to
    telling: Ip | None = given.get("via", given.get("source"))
    if telling is not None:
        return _EVERYWHERE[telling.version]
    found = f"{DEFAULT_ROUTE} without via and source does not tell its family"
    place.at("to").say(found, mend="write 0.0.0.0/0 or ::/0")
    return None


def _check_scope(given: Mapping[str, Any], to: Network, place: Place) -> None:
    scope: RouteScope = given.get("scope", RouteScope.GLOBAL)
    if scope is not RouteScope.GLOBAL and "via" in given:
        found = f"{scope.value} beside via"
        place.at("scope").say(found, rule="what lies behind a gateway has the scope global")
    elif scope is RouteScope.HOST and to.version == 6:
        place.at("scope").say("host on an IPv6 route", rule="it is a scope of IPv4")


def _rule(given: Mapping[str, Any], place: Place) -> RuleConfig | None:
    item = RuleConfig(**given)
    if item.from_ is not None and item.to is not None:
        before = place.report.count
        _same_family(item.from_, item.to, place.at("to"))
        return item if place.report.count == before else None
    return item


def _neighbor(given: Mapping[str, Any], _place: Place) -> NeighborConfig:
    return NeighborConfig(**given)


def _same_family(one: Network | Ip, other: Network | Ip, place: Place) -> None:
    if one.version != other.version:
        place.say(
            f"{other} is IPv{other.version}, {one} is IPv{one.version}",
            rule="both must be of one family",
        )


BUILDERS: Final[Mapping[str, Callable[[Mapping[str, Any], Place], object | None]]] = {
    "addresses": _address,
    "routes": _route,
    "rules": _rule,
    "neighbors": _neighbor,
}
"""How an item of each list is made of its fields; ``None`` when they contradict each other."""


def identity(item: object) -> Hashable:
    """What the kernel tells an item of a list from its like by."""
    if isinstance(item, AddressConfig):
        return item.address.ip
    if isinstance(item, RouteConfig):
        return item.key
    if isinstance(item, NeighborConfig):
        return item.address
    return item


def check_unique(path: str, items: Sequence[object], places: Sequence[Place]) -> None:
    """Note every item whose like stands before it in the list."""
    seen: dict[Hashable, Place] = {}
    for item, place in zip(items, places, strict=True):
        first = seen.setdefault(identity(item), place)
        if first is not place:
            what = "the same rule" if isinstance(item, RuleConfig) else identity(item)
            place.say(f"{what} stands at {path}[{first.steps[-1]}] too", mend="drop one of the two")
