"""Who wins among several texts, and who may say what."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from berth.model.claim import ConfigSource
from berth.model.device import NicKind
from berth.nic.config import AttachMode, GroupPolicy, NicConfig
from tests.unit.nic.config.claims import FAST, NIC, PARENT, ROOT, SHARED, entry, faults, resolved

CLASS = ConfigSource.CLASS


def _config(*configs: Any, policy: GroupPolicy = FAST, **more: Any) -> NicConfig:
    return resolved(*configs, policy=policy, **more)[0].config


def _with(policy: GroupPolicy = FAST, **changes: Any) -> GroupPolicy:
    return attrs.evolve(policy, **changes)


def test_scalar_when_all_texts_set_it() -> None:
    """Defaults of the group < class < claim, and a later entry over an earlier one."""

    policy = _with(defaults={"interface": {"mtu": 1400, "txQueueLen": 5, "groMaxSize": 9}})
    texts = [
        entry({"interface": {"mtu": 1410, "txQueueLen": 6}}, source=CLASS),
        entry({"interface": {"mtu": 1420}}, index=1),
        entry({"interface": {"mtu": 1430}}, index=2),
    ]

    assert _config(policy=policy).interface.mtu == 1400
    assert _config(*texts[:1], policy=policy).interface.mtu == 1410
    assert _config(*texts[:2], policy=policy).interface.mtu == 1420
    interface = _config(*texts, policy=policy).interface
    assert (interface.mtu, interface.tx_queue_len, interface.gro_max_size) == (1430, 6, 9)


def test_object_when_two_texts_set_parts_of_it() -> None:
    """Objects are merged key by key, at every depth."""

    config = _config(
        entry({"sysctls": {"ipv4": {"rp_filter": 1, "arp_ignore": 1}}}),
        entry({"sysctls": {"ipv4": {"rp_filter": 2}, "ipv6": {"autoconf": 0}}}, index=1),
    )

    assert config.sysctls.ipv4 == {"arp_notify": 1, "rp_filter": 2, "arp_ignore": 1}
    assert config.sysctls.ipv6 == {"accept_ra": 0, "ndisc_notify": 1, "autoconf": 0}


def test_switches_when_two_texts_name_some() -> None:
    """Names that are free are merged too; null takes back what a weaker text said of one."""

    policy = _with(defaults={"ethtool": {"features": {"rx-gro": False, "rx-lro": False}}})
    texts = [
        entry({"ethtool": {"features": {"rx-lro": True, "tx-nocache-copy": True}}}, source=CLASS),
        entry({"ethtool": {"features": {"rx-gro": None}}}, index=1),
    ]

    assert _config(*texts, policy=policy).ethtool.features == {
        "rx-lro": True,
        "tx-nocache-copy": True,
    }
    assert _config(*texts[1:]).ethtool.features == {}
    reset = entry({"ethtool": {"features": None}}, index=2)
    assert _config(*texts, reset, policy=policy).ethtool.features == {}


def test_list_when_two_texts_set_it() -> None:
    """A later list replaces the whole list, an empty one too."""

    first = entry({"addresses": [{"address": "10.0.0.5/24"}, {"address": "10.0.0.6/24"}]})
    second = entry({"addresses": [{"address": "10.0.0.7/24"}]}, index=1)

    assert [str(a.address) for a in _config(first, second).addresses] == ["10.0.0.7/24"]
    assert _config(first, entry({"addresses": []}, index=1)).addresses == ()


def test_null_when_an_earlier_text_set_the_field() -> None:
    """Null brings the built-in default back, not the value of a text before."""

    policy = _with(defaults={"interface": {"mtu": 1400, "txQueueLen": 7}})

    interface = _config(entry({"interface": {"mtu": None}}), policy=policy).interface

    assert (interface.mtu, interface.tx_queue_len) == (None, 7)


def test_null_when_given_to_an_object() -> None:
    """Null resets all that is in an object, and a later text may fill it anew."""

    policy = _with(defaults={"interface": {"mtu": 1400, "txQueueLen": 7}})
    texts = [entry({"interface": None}), entry({"interface": {"mtu": 1300}}, index=1)]

    assert _config(*texts[:1], policy=policy).interface == _config().interface
    interface = _config(*texts, policy=policy).interface
    assert (interface.mtu, interface.tx_queue_len) == (1300, None)


def test_null_when_a_setting_of_berths_own_is_reset() -> None:
    """The settings that berth makes of its own accord can be changed, and come back by null."""

    off = entry({"sysctls": {"ipv6": {"accept_ra": 2}, "ipv4": {"arp_notify": 0}}})
    back = entry({"sysctls": None}, index=1)

    assert _config(off).sysctls.ipv6["accept_ra"] == 2
    assert _config(off).sysctls.ipv4["arp_notify"] == 0
    assert _config(off, back).sysctls == _config().sysctls


def test_announce_when_off() -> None:
    """Without announcements the kernel makes none either, unless told to."""

    quiet = _config(entry({"announce": False, "sysctls": {"ipv6": {"ndisc_notify": 1}}}))

    assert quiet.sysctls.ipv4["arp_notify"] == 0
    assert quiet.sysctls.ipv6["ndisc_notify"] == 1


def test_value_when_a_later_text_is_at_fault() -> None:
    """The value of an earlier text does not hide the fault of a later one."""

    texts = [entry({"interface": {"mtu": 1400}}), entry({"interface": {"mtu": "x"}}, index=1)]

    assert len(faults(*texts)) == 1


GUARDED: list[tuple[str, dict[str, Any]]] = [
    ("interface.promiscuous", {"interface": {"promiscuous": True}}),
    ("interface.allmulticast", {"interface": {"allmulticast": False}}),
    ("rules", {"rules": []}),
    ("inherit", {"inherit": []}),
    ("sysctls.ipv4.forwarding", {"sysctls": {"ipv4": {"forwarding": 1}}}),
    ("sysctls.ipv6.proxy_ndp", {"sysctls": {"ipv6": {"proxy_ndp": 0}}}),
]


@pytest.mark.parametrize(("path", "parameters"), GUARDED)
def test_guarded_field_when_set_by_a_claim(path: str, parameters: dict[str, Any]) -> None:
    """It is refused, with who may set it and how an administrator lets claims do it."""

    assert faults(entry(parameters)) == [
        (
            f"{ROOT}.{path}: a claim may not set {path} here: "
            'a DeviceClass or the defaults of group "fast" may; '
            f'claims_may = ["{path}"] in that group allows it'
        )
    ]


@pytest.mark.parametrize(("path", "parameters"), GUARDED)
def test_guarded_field_when_set_by_those_who_may(path: str, parameters: dict[str, Any]) -> None:
    """A class, the group itself, and claims that the group lets, alone or with the whole object."""

    head = path.partition(".")[0]

    assert faults(entry(parameters, source=CLASS)) == []
    assert faults(policy=_with(defaults=parameters)) == []
    assert faults(entry(parameters), policy=_with(claims_may=(path,))) == []
    assert faults(entry(parameters), policy=_with(claims_may=(head,))) == []
    assert len(faults(entry(parameters), policy=_with(claims_may=("interface.promisc",)))) == 1


@pytest.mark.parametrize("parameters", [{"rules": None}, {"sysctls": None}, {"interface": None}])
def test_guarded_field_when_reset_by_a_claim(parameters: dict[str, Any]) -> None:
    """A claim may not undo what it may not set; where nothing was set, it undoes nothing."""

    defaults = {
        "interface": {"promiscuous": False},
        "rules": [{"priority": 5, "table": 5}],
        "routes": [{"to": "10.0.0.0/8", "table": 5}],
        "sysctls": {"ipv4": {"forwarding": 0}},
    }
    found = faults(entry(parameters), policy=_with(defaults=defaults))

    assert len(found) == 1
    assert found[0].startswith(f"{ROOT}.{next(iter(parameters))}: a claim may not set ")
    assert faults(entry(parameters)) == []
    assert faults(entry(parameters, source=CLASS), policy=_with(defaults=defaults)) == []


def test_safe_field_when_denied() -> None:
    """A group may take safe fields from claims, not from classes."""

    policy = _with(claims_deny=("routes", "interface"))
    parameters = {"routes": [], "interface": {"mtu": 1400}}

    why = 'a DeviceClass or the defaults of group "fast" may; drop it'

    assert faults(entry(parameters), policy=policy) == [
        f"{ROOT}.routes: a claim may not set routes here: {why}",
        f"{ROOT}.interface.mtu: a claim may not set interface.mtu here: {why}",
    ]
    assert faults(entry(parameters, source=CLASS), policy=policy) == []


def test_own_name_when_asked_for_by_a_claim() -> None:
    """The name eth0 needs a right of its own (case 12)."""

    parameters = {"interface": {"name": "eth0"}}

    assert faults(entry(parameters)) == [
        (
            f'{ROOT}.interface.name: a claim may not set interface.name to "eth0" here: '
            'a DeviceClass or the defaults of group "fast" may; '
            'claims_may = ["eth0"] in that group allows it'
        )
    ]
    assert faults(entry(parameters), policy=_with(claims_may=("eth0",))) == []
    assert faults(entry(parameters, source=CLASS)) == []
    assert faults(entry({"interface": {"name": "eth1"}})) == []


def test_passthru_when_asked_for_by_a_claim() -> None:
    """One word of a safe field needs a right, since it takes the whole parent."""

    single = _with(PARENT, slots=1)
    parameters = {"macvlan": {"mode": "passthru"}}

    found = faults(entry(parameters), facts=SHARED, policy=single)

    assert len(found) == 1
    assert 'claims_may = ["macvlan.mode"]' in found[0]
    allowed = _with(single, claims_may=("macvlan.mode",))
    assert faults(entry(parameters), facts=SHARED, policy=allowed) == []
    assert faults(entry({"macvlan": {"mode": "vepa"}}), facts=SHARED) == []


@pytest.mark.parametrize(
    ("facts", "guarded"),
    [
        (NIC, False),
        (attrs.evolve(NIC, kind=NicKind.PF), False),
        (attrs.evolve(NIC, kind=NicKind.VIRTUAL), False),
        (attrs.evolve(NIC, kind=NicKind.VF), True),
        (SHARED, True),
    ],
)
def test_hardware_address_when_asked_for_by_a_claim(facts: Any, *, guarded: bool) -> None:
    """It is guarded where it reaches others: on VFs and over shared parents."""

    parameters = {"interface": {"hardwareAddr": "02:00:00:00:00:01"}}
    policy = PARENT if facts.type == "nic-shared" else FAST

    assert len(faults(entry(parameters), facts=facts)) == guarded
    assert faults(entry(parameters, source=CLASS), facts=facts) == []
    allowed = _with(policy, claims_may=("interface.hardwareAddr",))
    assert faults(entry(parameters), facts=facts, policy=allowed) == []


def test_mode_when_nobody_sets_it() -> None:
    """The device decides: the NIC itself, or the first kind of child of its group."""

    assert _config().mode is AttachMode.MOVE
    assert _config(facts=SHARED, policy=PARENT).mode is AttachMode.MACVLAN
