"""The table of fields: it has every field of the contract, and each keeps its bounds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import attrs
import pytest

from berth.errors import ClaimError
from berth.model import jsontext
from berth.nic.config.decode import RESET, Layer, decode
from berth.nic.config.field import Guard, attribute
from berth.nic.config.fields import BY_PATH, FIELDS, MEMBERS, join
from berth.nic.config.kinds import Later
from berth.nic.config.report import Place, Report
from berth.nic.config.values import (
    AddressConfig,
    AttachMode,
    EthtoolConfig,
    InterfaceConfig,
    IpvlanConfig,
    IpvlanFlag,
    IpvlanMode,
    MacvlanConfig,
    MacvlanMode,
    NeighborConfig,
    NicConfig,
    RdmaUse,
    RouteConfig,
    RouteScope,
    RuleConfig,
    SysctlConfig,
    VfConfig,
    VfLinkState,
    VlanConfig,
    VlanProtocol,
    VrfConfig,
)

REST: Mapping[str, Mapping[str, Any]] = {
    "addresses[]": {"address": "fd00::5/64"},
    "routes[]": {"to": "fd01::/64", "via": "fd00::1"},
    "rules[]": {"priority": 100, "table": 100},
    "neighbors[]": {"address": "10.0.0.9", "hardwareAddr": "02:00:00:00:00:01"},
}
"""What items need beside the field in question."""


def _document(path: str, value: object) -> Any:
    """The smallest configuration with one field in it."""
    head, _, name = path.rpartition(".")
    if not head:
        return {name: value}
    members = {**REST.get(head, {}), name: value}
    return _document(head[:-2], [members]) if head.endswith("[]") else _document(head, members)


def _decode(document: Mapping[str, Any]) -> tuple[Layer, list[str]]:
    report = Report()
    raw = jsontext.loads(json.dumps(document))
    layer = decode(raw, Place(report=report, root="config[0]"))
    return layer, [str(fault) for fault in report.faults(ClaimError)]


def _read(path: str, value: object) -> object:
    """What a field is read as; the faults when there are any."""
    layer, faults = _decode(_document(path, value))
    if faults:
        return faults
    head, _, name = path.rpartition(".")
    setting = layer.settings[head[:-2] if head.endswith("[]") else path]
    return getattr(setting.value[0], attribute(name)) if head.endswith("[]") else setting.value


FLAG_SYSCTLS = [
    *(f"ipv4.{name}" for name in ("arp_notify", "arp_filter", "promote_secondaries")),
    *(f"ipv4.{name}" for name in ("ignore_routes_with_linkdown", "src_valid_mark", "forwarding")),
    *(f"ipv4.{name}" for name in ("proxy_arp", "accept_local", "route_localnet")),
    *(f"ipv4.{name}" for name in ("accept_redirects", "send_redirects")),
    *(f"ipv6.{name}" for name in ("autoconf", "accept_ra_defrtr", "accept_ra_pinfo")),
    *(f"ipv6.{name}" for name in ("disable_ipv6", "optimistic_dad", "ndisc_notify", "forwarding")),
    *(f"ipv6.{name}" for name in ("proxy_ndp", "accept_redirects")),
]

BOUNDS: list[tuple[str, int, int]] = [
    ("interface.mtu", 68, 65535),
    ("interface.gsoMaxSize", 512, 524280),
    ("interface.groMaxSize", 0, 524280),
    ("interface.gsoIPv4MaxSize", 512, 524280),
    ("interface.groIPv4MaxSize", 0, 524280),
    ("interface.txQueueLen", 0, 100000),
    ("routes[].table", 1, 4294967295),
    ("routes[].metric", 1, 4294967295),
    ("routes[].mtu", 1280, 65535),
    ("rules[].priority", 1, 32765),
    ("rules[].table", 1, 4294967295),
    ("rules[].fwmark", 1, 4294967295),
    *((f"sysctls.{name}", 0, 1) for name in FLAG_SYSCTLS),
    ("sysctls.ipv4.arp_announce", 0, 2),
    ("sysctls.ipv4.arp_accept", 0, 2),
    ("sysctls.ipv4.rp_filter", 0, 2),
    ("sysctls.ipv6.accept_ra", 0, 2),
    ("sysctls.ipv6.accept_dad", 0, 2),
    ("sysctls.ipv6.dad_transmits", 0, 10),
    ("sysctls.ipv6.use_tempaddr", -1, 2),
    ("sysctls.ipv6.router_solicitations", -1, 100),
    ("sysctls.ipv6.keep_addr_on_down", -1, 1),
    ("sysctls.ipv4.arp_ignore", 0, 3),
    ("sysctls.ipv4.arp_ignore", 8, 8),
    ("sysctls.ipv6.addr_gen_mode", 0, 1),
    ("sysctls.ipv6.addr_gen_mode", 3, 3),
    ("vlan.id", 1, 4094),
    ("vf.vlan", 0, 4094),
    ("vf.vlanQoS", 0, 7),
    ("vf.minTxMbps", 0, 1_600_000),
    ("vf.maxTxMbps", 0, 1_600_000),
]


@pytest.mark.parametrize(("path", "least", "most"), BOUNDS)
def test_number_when_at_its_bounds(path: str, least: int, most: int) -> None:
    """Both bounds are allowed, and the numbers beyond them are not."""

    assert _read(path, least) == least
    assert _read(path, most) == most
    for beyond in (least - 1, most + 1):
        if (path, beyond) != ("routes[].metric", 0):
            faults = _read(path, beyond)
            assert isinstance(faults, list), beyond
            assert len(faults) == 1
            assert f" {beyond}: " in faults[0]


@pytest.mark.parametrize("path", sorted({path for path, _, _ in BOUNDS}))
@pytest.mark.parametrize("value", ["9000", 9000.0, True, [9000], {"of": 1}])
def test_number_when_written_otherwise(path: str, value: object) -> None:
    """Numbers in quotes, fractions, truth values, lists and objects are no numbers."""

    faults = _read(path, value)

    assert isinstance(faults, list)
    assert len(faults) == 1


def test_number_when_in_quotes_says_how_to_mend_it() -> None:
    """The most frequent slip is answered with what to write."""

    rule = "it must be a whole number from 68 to 65535; write 9000, without quotes"

    assert _read("interface.mtu", "9000") == [f'config[0].interface.mtu: "9000": {rule}']


def test_mtu_when_absurd() -> None:
    """An MTU of a thousand million is refused (row 32)."""

    assert _read("interface.mtu", 10**9) == [
        "config[0].interface.mtu: 1000000000: it must be a whole number from 68 to 65535"
    ]


FLAGS = [
    *("interface.up", "interface.promiscuous", "interface.allmulticast", "announce"),
    *("addresses[].noDAD", "addresses[].noPrefixRoute", "routes[].onLink"),
    *("vfio.iommufd", "vfio.apiDevice", "vfio.vhost"),
    *("vf.spoofCheck", "vf.trust", "vf.adminMAC"),
]


@pytest.mark.parametrize("path", FLAGS)
def test_flag_when_true_or_false(path: str) -> None:
    """Flags take JSON's two words, and neither numbers nor texts."""

    assert _read(path, value=True) is True
    assert _read(path, value=False) is False
    others: list[object] = [0, 1, "true", [], {}]
    for other in others:
        assert isinstance(_read(path, other), list)


WORDS: list[tuple[str, object, object]] = [
    *(("mode", mode.value, mode) for mode in AttachMode),
    *(("macvlan.mode", mode.value, mode) for mode in MacvlanMode),
    *(("rdma", use.value, use) for use in RdmaUse),
    ("vrf.name", "blue", "blue"),
    ("vrf.table", 1000, 1000),
    *(("ipvlan.mode", mode.value, mode) for mode in IpvlanMode),
    *(("ipvlan.flag", flag.value, flag) for flag in IpvlanFlag),
    *(("vlan.protocol", protocol.value, protocol) for protocol in VlanProtocol),
    *(("vf.vlanProtocol", protocol.value, protocol) for protocol in VlanProtocol),
    *(("vf.linkState", state.value, state) for state in VfLinkState),
    ("ethtool.features", {"rx-gro": False}, {"rx-gro": False}),
    ("ethtool.privateFlags", {"legacy-rx": True}, {"legacy-rx": True}),
    ("routes[].scope", "global", RouteScope.GLOBAL),
    ("inherit", ["addresses", "routes", "neighbors"], ("addresses", "routes", "neighbors")),
    ("routes[].table", "main", 254),
    ("rules[].table", "main", 254),
    ("interface.name", "net7", "net7"),
    ("interface.hardwareAddr", "02:AA:00:00:00:01", "02:aa:00:00:00:01"),
    ("neighbors[].hardwareAddr", "02:AA:00:00:00:01", "02:aa:00:00:00:01"),
    ("rules[].iif", "lo", "lo"),
]


@pytest.mark.parametrize(("path", "value", "wanted"), WORDS)
def test_word_when_known(path: str, value: object, wanted: object) -> None:
    """Words become values."""

    assert _read(path, value) == wanted


TEXTS = [
    *("addresses[].address", "addresses[].peer", "routes[].to", "routes[].via", "routes[].source"),
    *("rules[].from", "rules[].to", "neighbors[].address"),
]


@pytest.mark.parametrize("path", TEXTS)
def test_address_when_written_in_its_way(path: str) -> None:
    """Each field for addresses takes its own notation and refuses the other one."""

    bare, whole = "fd00::99", "fd77::/64"
    if path == "addresses[].address":
        whole = "fd77::1/64"
    takes_prefix = path in {"addresses[].address", "routes[].to", "rules[].from", "rules[].to"}
    good, bad = (whole, bare) if takes_prefix else (bare, whole)

    assert str(_read(path, good)) == good
    assert isinstance(_read(path, bad), list)
    assert isinstance(_read(path, 5), list)


@pytest.mark.parametrize("path", [*TEXTS, *dict.fromkeys(path for path, _, _ in WORDS)])
def test_word_when_unknown(path: str) -> None:
    """Any other word is one fault, at the field."""

    faults = _read(path, "nonsense word")

    assert isinstance(faults, list)
    assert len(faults) == 1
    assert faults[0].startswith(f"config[0].{path.replace('[]', '[0]')}: ")


@pytest.mark.parametrize(("path", "limit"), [("addresses", 16), ("routes", 64), ("rules", 32)])
def test_list_when_at_its_limit(path: str, limit: int) -> None:
    """Lists take as many items as the contract says, and not one more."""

    items: Mapping[str, list[Any]] = {
        "addresses": [{"address": f"10.0.{n}.1/24"} for n in range(65)],
        "routes": [{"to": f"10.0.{n}.0/24"} for n in range(65)],
        "rules": [{"priority": n + 1, "table": 5} for n in range(65)],
    }

    assert _decode({path: items[path][:limit]})[1] == []
    assert _decode({path: items[path][: limit + 1]})[1] == [
        f"config[0].{path}: {limit + 1} items: at most {limit} are allowed"
    ]


def test_neighbors_when_at_their_limit() -> None:
    """Neighbors take 64 items."""

    one = {"hardwareAddr": "02:00:00:00:00:01"}
    items = [{"address": f"10.0.0.{n}", **one} for n in range(1, 67)]

    assert _decode({"neighbors": items[:64]})[1] == []
    assert _decode({"neighbors": items[:65]})[1] == [
        "config[0].neighbors: 65 items: at most 64 are allowed"
    ]


CONTRACT_LATER = [
    "dhcp.ipv4",
]


@pytest.mark.parametrize("path", CONTRACT_LATER)
def test_field_when_of_a_later_version(path: str) -> None:
    """It is refused by its name, not as unknown, and whatever it holds."""

    name = path.rpartition(".")[2]
    fault = f"config[0].{path}: {name} is not available in this version; drop it"

    assert _decode(_document(path, 1))[1] == [fault]
    assert _decode(_document(path, {"a": [1]}))[1] == [fault]


def test_table_when_compared_with_the_contract() -> None:
    """Every field that is read is tested above, and none is tested that is not read."""

    tested = {path for path, _, _ in BOUNDS} | set(FLAGS) | {path for path, _, _ in WORDS}
    tested |= set(TEXTS) | {"addresses", "routes", "rules", "neighbors"}
    later = {field.path for field in FIELDS if isinstance(field.form, Later)}

    assert tested | set(CONTRACT_LATER) == set(BY_PATH)
    assert later == set(CONTRACT_LATER)
    assert len(BY_PATH) == len(FIELDS)


GUARDED = {
    *("interface.promiscuous", "interface.allmulticast", "rules", "inherit", "vlan.id"),
    *("vlan.protocol", "ethtool.privateFlags"),
    *("vf.vlan", "vf.vlanQoS", "vf.vlanProtocol", "vf.spoofCheck", "vf.trust", "vf.linkState"),
    *("vf.minTxMbps", "vf.maxTxMbps", "vf.adminMAC"),
    *(f"sysctls.ipv4.{name}" for name in ("forwarding", "proxy_arp", "accept_local")),
    *(f"sysctls.ipv4.{name}" for name in ("route_localnet", "accept_redirects", "send_redirects")),
    *(f"sysctls.ipv6.{name}" for name in ("forwarding", "proxy_ndp", "accept_redirects")),
}


def test_guards_when_compared_with_the_contract() -> None:
    """The fields that reach other tenants are guarded, and no others."""

    guards = {field.path: field.guard for field in FIELDS if field.guard is not Guard.NONE}
    values = {field.path: field.guarded_values for field in FIELDS if field.guarded_values}

    assert {path for path, guard in guards.items() if guard is Guard.ALWAYS} == GUARDED
    assert guards["interface.hardwareAddr"] is Guard.FOREIGN_LINK
    assert len(guards) == len(GUARDED) + 1
    assert values == {
        "interface.name": (("eth0", "eth0"),),
        "vrf.name": (("eth0", "eth0"),),
        "macvlan.mode": ((MacvlanMode.PASSTHRU, "macvlan.mode"),),
    }


VALUE_CLASSES: Mapping[str, type[Any]] = {
    "": NicConfig,
    "interface": InterfaceConfig,
    "macvlan": MacvlanConfig,
    "ipvlan": IpvlanConfig,
    "vlan": VlanConfig,
    "vf": VfConfig,
    "vrf": VrfConfig,
    "ethtool": EthtoolConfig,
    "addresses[]": AddressConfig,
    "routes[]": RouteConfig,
    "rules[]": RuleConfig,
    "neighbors[]": NeighborConfig,
    "sysctls": SysctlConfig,
}


@pytest.mark.parametrize("path", VALUE_CLASSES)
def test_value_class_when_compared_with_the_table(path: str) -> None:
    """Each object's value has an attribute for each field that this version reads, and no other."""

    later = {p for p, members in MEMBERS.items() if p and _all_later(members)}
    wanted = {
        attribute(name)
        for name, field in MEMBERS[path].items()
        if join(path, name) not in later
        and not (field is not None and isinstance(field.form, Later))
    }

    assert {each.name for each in attrs.fields(VALUE_CLASSES[path])} == wanted


def _all_later(members: Mapping[str, Any]) -> bool:
    return all(field is not None and isinstance(field.form, Later) for field in members.values())


def test_meaning_when_told_of_any_field() -> None:
    """Every field says what it means, in sentences."""

    for field in FIELDS:
        assert field.meaning.endswith((".", ".)")), field.path
        assert field.meaning[0].isupper() or field.meaning[0] == "`", field.path


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("noDAD", "no_dad"),
        ("gsoIPv4MaxSize", "gso_ipv4_max_size"),
        ("hardwareAddr", "hardware_addr"),
        ("from", "from_"),
        ("vlanQoS", "vlan_qos"),
        ("adminMAC", "admin_mac"),
        ("up", "up"),
    ],
)
def test_attribute_when_told_of_a_field(name: str, wanted: str) -> None:
    """Fields have attributes named in Python's manner."""

    assert attribute(name) == wanted


def test_null_when_given_to_any_field() -> None:
    """A null asks for the built-in default, whatever the field."""

    document = dict.fromkeys(MEMBERS[""])
    layer, faults = _decode(document)

    assert faults == []
    assert {setting.value for setting in layer.settings.values()} == {RESET}
    assert set(layer.settings) == set(document)
