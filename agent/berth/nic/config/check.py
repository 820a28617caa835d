"""What must hold within one NIC's configuration, whatever the device.

The kernel would find most of it as well, but in the pod's namespace, when the host has lost the NIC
and the pod is half started; some of it (a gateway that is the interface itself) it just takes.
Source of what it refuses: tried on Linux 6.18. Knowingly left out: a route through a gateway that
hides a narrower network from another route's gateway.
"""

from __future__ import annotations

from collections.abc import Iterator

from berth.nic.config.decode import RESET
from berth.nic.config.field import attribute
from berth.nic.config.fields import BY_PATH
from berth.nic.config.group import NEEDED_MODE
from berth.nic.config.kinds import Objects
from berth.nic.config.merge import Draft
from berth.nic.config.report import Place
from berth.nic.config.values import (
    MAIN_TABLE,
    AttachMode,
    Ip,
    NicConfig,
    RouteConfig,
    RouteScope,
    RuleConfig,
)


def check(config: NicConfig, draft: Draft) -> None:
    """Note what contradicts itself; ``config`` is what was built of ``draft``."""
    if draft.sound("mode"):
        _check_modes(config, draft)
    _check_counts(config, draft)
    _check_vlan(config, draft)
    _check_up(config, draft)
    _check_ipv6(config, draft)
    _check_vf(config, draft)
    _check_vrf(config, draft)
    for number, route in enumerate(config.routes):
        place = draft.item_place("routes", number)
        _check_source(route, config, draft, place.at("source"))
        _check_via(route, config, draft, place.at("via"))
        _check_connected(route, config, place.at("to"))
    for number, rule in enumerate(config.rules):
        if draft.sound("routes"):
            _check_rule(rule, config, draft.item_place("rules", number).at("table"))


def _check_modes(config: NicConfig, draft: Draft) -> None:
    for path, mode in NEEDED_MODE.items():
        setting = draft.settings.get(path)
        if setting is not None and setting.value is not RESET and config.mode is not mode:
            found = f"without effect in mode {config.mode.value}"
            setting.place.say(found, rule=f"it belongs to mode {mode.value}", mend="drop it")


def _check_vlan(config: NicConfig, draft: Draft) -> None:
    if config.mode is AttachMode.VLAN and config.vlan.id is None and draft.sound("vlan.id"):
        draft.place("mode").say('"vlan" without vlan.id', rule="a child is of one VLAN")


def _check_counts(config: NicConfig, draft: Draft) -> None:
    """Lists that are too long by what they inherit; others were told when they were read."""
    for path in config.inherit:
        form, items = BY_PATH[path].form, getattr(config, attribute(path))
        if isinstance(form, Objects) and len(items) > form.limit and draft.sound(path):
            found = f"{len(items)} {path} with those of the node"
            draft.place("inherit").say(found, rule=f"at most {form.limit} are allowed")


def _check_up(config: NicConfig, draft: Draft) -> None:
    if not config.interface.up and config.routes:
        draft.place("interface.up").say(
            "false beside routes", rule="a route needs an interface that is up"
        )


def _check_vf(config: NicConfig, draft: Draft) -> None:
    vf = config.vf
    if not vf.vlan and draft.sound("vf.vlan"):
        for path, value in (("vf.vlanQoS", vf.vlan_qos), ("vf.vlanProtocol", vf.vlan_protocol)):
            if value:
                draft.place(path).say("without a VLAN", rule="it stands in a VLAN's tag")
    if vf.max_tx_mbps and vf.min_tx_mbps and vf.min_tx_mbps > vf.max_tx_mbps:
        found = f"{vf.min_tx_mbps} is above vf.maxTxMbps"
        draft.place("vf.minTxMbps").say(found, rule=f"that is {vf.max_tx_mbps}")
    lacks_mac = config.interface.hardware_addr is None and draft.sound("interface.hardwareAddr")
    if vf.admin_mac and lacks_mac:
        rule = "it says how interface.hardwareAddr is set"
        draft.place("vf.adminMAC").say("true without an address", rule=rule)


def _check_vrf(config: NicConfig, draft: Draft) -> None:
    vrf = config.vrf
    if not vrf.name:
        if vrf.table is not None and draft.sound("vrf.name"):
            draft.place("vrf.table").say("without vrf.name", rule="it is the table of a VRF")
        return
    if config.interface.name == vrf.name:
        found = f'"{vrf.name}" is the interface\'s name too'
        draft.place("vrf.name").say(found, rule="the VRF is a link of its own")
    if config.rules:
        rule = "the VRF says which packets use its table"
        draft.place("rules").say("beside vrf", rule=rule, mend="drop one of the two")
    for number, route in enumerate(config.routes):
        if route.table != MAIN_TABLE:
            place = draft.item_place("routes", number).at("table")
            place.say(f"{route.table} beside vrf", rule="its routes are in the VRF's table")


def _check_ipv6(config: NicConfig, draft: Draft) -> None:
    if config.sysctls.ipv6.get("disable_ipv6") != 1:
        return
    versions = {
        "addresses": {address.address.version for address in config.addresses},
        "routes": {route.to.version for route in config.routes},
        "neighbors": {neighbor.address.version for neighbor in config.neighbors},
    }
    for path, present in versions.items():
        if 6 in present:
            place = draft.place("sysctls.ipv6.disable_ipv6")
            place.say(f"1 beside IPv6 {path}", rule="the kernel takes none of them then")


def _check_source(route: RouteConfig, config: NicConfig, draft: Draft, place: Place) -> None:
    if route.source is None or not draft.sound("addresses"):
        return
    own = next((a for a in config.addresses if a.address.ip == route.source), None)
    if own is None:
        place.say(
            f"{route.source} is no address of this interface", rule="it must be one of addresses"
        )
    elif not own.no_dad:
        place.say(
            f"{route.source} cannot be used before the search for duplicates is over",
            rule="the kernel takes no such route",
            mend="drop source, or noDAD of that address",
        )


def _check_via(route: RouteConfig, config: NicConfig, draft: Draft, place: Place) -> None:
    via = route.via
    if via is None:
        return
    if any(via == address.address.ip for address in config.addresses):
        place.say(f"{via} is this interface's own address", rule="a gateway is another host")
    elif any(via == broadcast for broadcast in _broadcasts(config)):
        place.say(f"{via} is a broadcast address", rule="a gateway is one host")
    elif (
        not route.on_link
        and draft.sound("addresses", "routes")
        and not _reaches(via, route, config)
    ):
        place.say(
            f"{via} is not reachable by any address of this interface",
            rule="give onLink or a link-scope route",
        )


def _reaches(via: Ip, route: RouteConfig, config: NicConfig) -> bool:
    if via.version == 6 and via.is_link_local:
        return True
    networks = [key.to for address in config.addresses for key in address.connected]
    networks += [
        other.to
        for other in config.routes
        if other.via is None and other.table in {route.table, MAIN_TABLE}
        if other.scope is not RouteScope.GLOBAL or other.to.version == 6
    ]
    return any(via in network for network in networks)


def _broadcasts(config: NicConfig) -> Iterator[Ip]:
    for address in config.addresses:
        for key in address.connected:
            if key.to.version == 4 and key.to.prefixlen < 31:
                yield key.to.broadcast_address


def _check_connected(route: RouteConfig, config: NicConfig, place: Place) -> None:
    for address in config.addresses:
        if route.key in address.connected:
            place.say(
                f"{route.to} is the network of {address.address}, which has that route already",
                rule="the kernel refuses a second one",
                mend="drop the route, or give it a metric, or the address noPrefixRoute",
            )


def _check_rule(rule: RuleConfig, config: NicConfig, place: Place) -> None:
    versions = {route.to.version for route in config.routes if route.table == rule.table}
    if not versions:
        place.say(f"{rule.table} is the table of no route", rule="it must be that of one of routes")
    elif rule.version is not None and rule.version not in versions:
        place.say(
            f"{rule.table} has no IPv{rule.version} route", rule="the rule would lead nowhere"
        )
