"""Forms of values: what each takes, and how each refuses."""

from __future__ import annotations

from typing import Any

import pytest

from berth.config.forms import Form
from berth.errors import ClaimError
from berth.model import jsontext
from berth.nic.config.kinds import (
    Later,
    Numbers,
    Objects,
    Switches,
    TableNumber,
    Word,
    Words,
    Written,
)
from berth.nic.config.notation import interface_name
from berth.nic.config.report import Place, Report
from berth.nic.config.values import MAIN_TABLE, RdmaUse

RDMA = Word(kind=RdmaUse)
INHERIT = Words(("addresses", "routes"))
SWITCHES = Switches(limit=2)
NAME = Written(what="a name", parse=interface_name)


def _read(form: Form[Any], value: object) -> tuple[object, list[str]]:
    report = Report()
    read = form.read(value, Place(report=report, root="field"))
    return read, [str(fault) for fault in report.faults(ClaimError)]


@pytest.mark.parametrize(
    ("form", "value", "wanted"),
    [
        (RDMA, "none", RdmaUse.NONE),
        (Numbers((0, 8)), 8, 8),
        (NAME, "net1", "net1"),
        (TableNumber(), "main", MAIN_TABLE),
        (TableNumber(), 1, 1),
        (TableNumber(main=False), 1000, 1000),
        (TableNumber(), 254, MAIN_TABLE),
        (TableNumber(), 4294967295, 4294967295),
        (INHERIT, [], ()),
        (INHERIT, ["routes", "addresses"], ("routes", "addresses")),
        (Objects(limit=2), [1, "x"], (1, "x")),
        (SWITCHES, {"rx-gro": True, "a" * 31: None}, {"rx-gro": True, "a" * 31: None}),
    ],
)
def test_form_when_it_takes(form: Form[Any], value: object, wanted: object) -> None:
    """A value of the form is read without a word."""

    assert _read(form, value) == (wanted, [])


WORDS = 'field: {}: it must be "auto", "none" or "required"'
TABLE = 'field: {}: it must be "main" or a whole number from 1 to 4294967295, not 253 or 255'
KERNELS = "field: {} is the kernel's own table {}: routes and rules of a claim stay out of it"
LIST = 'field: {}: it must be a list of "addresses" and "routes", or some of them'


@pytest.mark.parametrize(
    ("form", "value", "fault"),
    [
        (RDMA, "Auto", WORDS.format('"Auto"')),
        (RDMA, 5, WORDS.format("5")),
        (RDMA, ["auto"], WORDS.format("a list")),
        (Numbers((0, 1, 8)), 2, "field: 2: it must be 0, 1 or 8"),
        (Numbers((0, 1)), True, "field: true: it must be 0 or 1"),
        (Numbers((0, 1)), 1.0, "field: 1.0: it must be 0 or 1"),
        (Numbers((0, 1)), "1", 'field: "1": it must be 0 or 1'),
        (NAME, 7, "field: 7: it must be a name"),
        (NAME, "a/b", 'field: "a/b": it must be a name'),
        (NAME, "lo", 'field: "lo" is the pod\'s loopback: it must be a name'),
        (TableNumber(), 0, TABLE.format("0")),
        (TableNumber(), 4294967296, TABLE.format("4294967296")),
        (TableNumber(), "local", TABLE.format('"local"')),
        (TableNumber(), True, TABLE.format("true")),
        (TableNumber(), 253, KERNELS.format("253", "default")),
        (TableNumber(), 255, KERNELS.format("255", "local")),
        (INHERIT, "routes", LIST.format('"routes"')),
        (INHERIT, ["rules"], 'field[0]: "rules": it must be "addresses" or "routes"'),
        (INHERIT, [["routes"]], 'field[0]: a list: it must be "addresses" or "routes"'),
        (INHERIT, ["routes", "routes"], 'field[1]: "routes" is given twice; drop one of the two'),
        (Objects(limit=2), {}, "field: an object: it must be a list of at most 2 objects"),
    ],
)
def test_form_when_it_refuses(form: Form[Any], value: object, fault: str) -> None:
    """A value of another form is refused, with the rule."""

    assert _read(form, value) == (None, [fault])


def test_objects_when_too_many() -> None:
    """A list that is too long is a fault, and its items are still looked at."""

    read, faults = _read(Objects(limit=2), [1, 2, 3])

    assert read == (1, 2, 3)
    assert faults == ["field: 3 items: at most 2 are allowed"]


def test_later_when_given_anything() -> None:
    """A field of a later version is refused by its name, whatever it holds."""

    report = Report()
    Later("true or false").read(False, Place(report=report, root="x").at("vf", "trust"))

    assert [str(fault) for fault in report.faults(ClaimError)] == [
        "x.vf.trust: trust is not available in this version; drop it"
    ]


@pytest.mark.parametrize(
    "form", [RDMA, Numbers((0, 1)), NAME, TableNumber(), INHERIT, Objects(limit=2), Later("a word")]
)
def test_label_when_told_in_a_sentence(form: Form[Any]) -> None:
    """Every form says in words what it takes."""

    assert form.label


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ([], "field: a list: it must be an object of true or false by name"),
        ({"rx-gro": 1}, "field.rx-gro: 1: it must be true or false"),
        (
            {"rx gro": True},
            'field["rx gro"]: is no name: a name has 1 to 31 letters, digits and signs',
        ),
        (
            {"a" * 32: True},
            f"field.{'a' * 32}: is no name: a name has 1 to 31 letters, digits and signs",
        ),
        ({"a": True, "b": True, "c": True}, "field: 3 names: at most 2 are allowed"),
    ],
)
def test_switches_when_refused(value: object, fault: str) -> None:
    """Names that no kernel has, values that are no switch, and too many of them."""

    assert _read(SWITCHES, value) == (None, [fault])


def test_switches_when_a_name_stands_twice() -> None:
    """The last one would win without a word."""

    raw = jsontext.loads('{"rx-gro": true, "rx-gro": false}')

    assert _read(SWITCHES, raw)[1] == ["field.rx-gro: given more than once: each name stands once"]


@pytest.mark.parametrize("value", ["main", 254])
def test_table_when_main_is_not_allowed(value: object) -> None:
    """A VRF has a table of its own."""

    (fault,) = _read(TableNumber(main=False), value)[1]

    assert fault in {
        'field: "main": it must be whole number from 1 to 4294967295, not 253, 254 or 255',
        "field: 254 is the kernel's own table main: routes and rules of a claim stay out of it",
    }
