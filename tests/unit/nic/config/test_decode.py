"""Reading: never stops at a fault, never raises, keeps the place of everything."""

from __future__ import annotations

import json
from typing import Any

import pytest

from berth.errors import ClaimError
from berth.model import jsontext
from berth.nic.config.decode import RESET, Layer, decode
from berth.nic.config.report import FAULT_LIMIT, Place, Report
from tests.unit.nic.config.claims import HEAD


def _decode(text: str, **more: Any) -> tuple[Layer, list[str]]:
    report = Report()
    layer = decode(jsontext.loads(text), Place(report=report, root="c"), **more)
    return layer, [str(fault) for fault in report.faults(ClaimError)]


def test_keys_when_repeated_at_any_depth() -> None:
    """A key that stands twice is a fault, at the top, in objects and in list items."""

    _, faults = _decode(
        """{"mode": "move", "mode": "move", "interface": {"mtu": 1500, "mtu": 9000},
            "sysctls": {"ipv4": {"rp_filter": 1, "rp_filter": 2}},
            "routes": [{"to": "10.0.0.0/8", "to": "10.0.0.0/8"}]}"""
    )

    assert faults == [
        "c.mode: given more than once: each field stands once",
        "c.interface.mtu: given more than once: each field stands once",
        "c.sysctls.ipv4.rp_filter: given more than once: each field stands once",
        "c.routes[0].to: given more than once: each field stands once",
    ]


def test_keys_when_beside_the_fields() -> None:
    """Keys that the caller has read are passed over at the top only."""

    beside = tuple(HEAD)
    text = json.dumps({**HEAD, "interface": HEAD})

    assert [fault.split(":")[0] for fault in _decode(text, beside=beside)[1]] == [
        "c.interface.apiVersion",
        "c.interface.kind",
    ]


RULES = "c.rules[0].zzz: unknown field: known here are priority, from, to, table, iif, fwmark"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('{"interface": {"nme": 1}}', "c.interface.nme: unknown field; did you mean name?"),
        ('{"interface": {"MTU": 1}}', "c.interface.MTU: unknown field; did you mean mtu?"),
        (
            '{"interface": {"hardware_addr": 1}}',
            "c.interface.hardware_addr: unknown field; did you mean hardwareAddr?",
        ),
        ('{"interface": {"mac": 1}}', "c.interface.mac: unknown field; did you mean hardwareAddr?"),
        (
            '{"interface": {"addresses": []}}',
            "c.interface.addresses: unknown field; did you mean addresses?",
        ),
        ('{"mtu": 9000}', "c.mtu: unknown field; did you mean interface.mtu?"),
        ('{"rp_filter": 1}', "c.rp_filter: unknown field; did you mean sysctls.ipv4.rp_filter?"),
        ('{"ipv4": {}}', "c.ipv4: unknown field; did you mean sysctls.ipv4?"),
        (
            '{"routes": [{"to": "10.0.0.0/8", "gateway": "10.0.0.1"}]}',
            "c.routes[0].gateway: unknown field; did you mean via?",
        ),
        ('{"vf": {"turst": true}}', "c.vf.turst: unknown field; did you mean trust?"),
        ('{"macvlan": {"zzz": 1}}', "c.macvlan.zzz: unknown field: known here are mode"),
        ('{"macvlan": {"": 1}}', 'c.macvlan[""]: unknown field: known here are mode'),
        ('{"rules": [{"zzz": 1, "priority": 1, "table": 1}]}', RULES),
    ],
)
def test_field_when_unknown(text: str, fault: str) -> None:
    """An unknown field is told with the nearest known one, here or elsewhere."""

    assert _decode(text)[1] == [fault]


def test_fields_when_unknown_in_great_number() -> None:
    """Beyond the limit they are counted, without the work of looking for what was meant."""

    text = json.dumps({f"x{number}": 0 for number in range(FAULT_LIMIT + 50)})
    faults = _decode(text)[1]

    assert len(faults) == FAULT_LIMIT + 1
    assert faults[-1] == "and 50 more, not shown"


@pytest.mark.parametrize("value", ["5", '"x"', "[]", "true"])
@pytest.mark.parametrize("name", ["interface", "sysctls", "macvlan", "vf"])
def test_object_when_something_else(name: str, value: str) -> None:
    """What should be an object and is not is one fault."""

    layer, faults = _decode(f'{{"{name}": {value}}}')

    shown = {"[]": "a list"}.get(value, value)
    assert faults == [f"c.{name}: {shown}: it must be an object"]
    assert layer.settings == {}


@pytest.mark.parametrize("value", ["5", '"x"', "[]", "null"])
def test_item_when_no_object(value: str) -> None:
    """List items must be objects; null is none either."""

    layer, faults = _decode(f'{{"addresses": [{{"address": "10.0.0.5/24"}}, {value}]}}')

    shown = {"[]": "a list"}.get(value, value)
    assert faults == [f"c.addresses[1]: {shown}: it must be an object"]
    assert len(layer.settings["addresses"].value) == 1
    assert not layer.settings["addresses"].sound


def test_list_when_no_list() -> None:
    """A single object does not stand for a list of one."""

    layer, faults = _decode('{"routes": {"to": "10.0.0.0/8"}}')

    assert faults == ["c.routes: an object: it must be a list of at most 64 objects"]
    assert not layer.settings["routes"].sound


def test_item_when_a_required_field_lacks() -> None:
    """Absent and null required fields are told; one at fault is not told twice."""

    _, faults = _decode('{"rules": [{}, {"priority": null, "table": 5}, {"priority": 0}]}')

    number = "it must be given: whole number from 1 to 32765"
    table = 'it must be given: "main" or a whole number from 1 to 4294967295, not 253 or 255'
    assert faults == [
        f"c.rules[0]: lacks priority: {number}",
        f"c.rules[0]: lacks table: {table}",
        f"c.rules[1]: lacks priority: {number}",
        "c.rules[2].priority: 0: it must be a whole number from 1 to 32765",
        f"c.rules[2]: lacks table: {table}",
    ]


def test_item_when_an_optional_field_is_null() -> None:
    """Null in an item is the default."""

    layer, faults = _decode(
        '{"addresses": [{"address": "fd00::5/64", "noDAD": null, "peer": null}]}'
    )

    assert faults == []
    assert layer.settings["addresses"].value[0].no_dad is True


def test_item_places_when_one_could_not_be_read() -> None:
    """Each item keeps the number that it has in the text."""

    layer, _ = _decode('{"addresses": [{"address": "x"}, {"address": "10.0.0.5/24"}]}')
    setting = layer.settings["addresses"]

    assert [str(place) for place in setting.item_places] == ["c.addresses[1]"]


def test_item_when_an_unknown_field_stands_in_it() -> None:
    """The item is kept, and its list is known not to be sound."""

    layer, _ = _decode('{"addresses": [{"address": "10.0.0.5/24", "scope": "link"}]}')

    assert len(layer.settings["addresses"].value) == 1
    assert not layer.settings["addresses"].sound


def test_scalar_when_at_fault() -> None:
    """It is remembered as given but unsound, so that an earlier text does not shine through."""

    layer, _ = _decode('{"interface": {"mtu": "x"}}')
    setting = layer.settings["interface.mtu"]

    assert (setting.value, setting.sound) == (RESET, False)


def test_layer_when_read_from_a_claim() -> None:
    """The layer knows whether its author is a tenant."""

    assert _decode("{}", of_claim=True)[0].of_claim
    assert not _decode("{}")[0].of_claim


def test_list_when_two_items_are_alike() -> None:
    """A repeated item is a fault, but nothing of the list is missing by it."""

    layer, faults = _decode(
        '{"addresses": [{"address": "10.0.0.5/24"}, {"address": "10.0.0.5/8"}]}'
    )

    assert len(faults) == 1
    assert layer.settings["addresses"].sound
