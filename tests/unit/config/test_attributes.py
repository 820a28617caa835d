"""The operator's own attributes: names, values and their limits."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from berth.config.attributes import RESERVED, OwnAttributes
from berth.model.device import Version
from tests.unit.config.reading import read_value

VALUE_RULE = 'it must be text, a whole number of 64 bits, true, false, or { version = "1.2.3" }'
NAME_RULE = (
    "is no name for an attribute: at most 32 letters, digits and underscores, "
    "not beginning with a digit; a DNS name and a slash may stand before it"
)


def test_attributes_of_every_kind_are_read() -> None:
    """Text, numbers, truth values and versions come back as such."""

    assert (
        {"rail": 3, "rack": "b7", "spine": False, "lab.example/fw": Version("1.2.3-rc.1+a")},
        [],
    ) == read_value(
        OwnAttributes(),
        {
            "rail": 3,
            "rack": "b7",
            "spine": False,
            "lab.example/fw": {"version": "1.2.3-rc.1+a"},
        },
    )


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("mtu", 3, "is a name that berth publishes itself; choose another name"),
        (
            "resource.kubernetes.io/pciBusID",
            "x",
            "lies in resource.kubernetes.io, whose names are not free; choose another domain",
        ),
        ("k8s.io/x", 3, "lies in k8s.io, whose names are not free; choose another domain"),
        ("x" * 33, 3, NAME_RULE),
        ("9x", 3, NAME_RULE),
        ("a-b", 3, NAME_RULE),
        ("Upper.io/x", 3, NAME_RULE),
        ("x", "é" * 33, "has 66 bytes: a value may have 64; shorten it"),
        ("x", 1.5, f"is 1.5: {VALUE_RULE}"),
        ("x", 2**63, f"is {2**63}: {VALUE_RULE}"),
        ("x", [1], f"is [1]: {VALUE_RULE}"),
        ("x", {"v": "1"}, f"is a table: {VALUE_RULE}"),
        (
            "x",
            {"version": "v1.2.3"},
            'is "v1.2.3": it must be a semantic version such as "1.2.3", without v',
        ),
        (
            "x",
            {"version": "1.02.3"},
            'is "1.02.3": it must be a semantic version such as "1.2.3", without v',
        ),
        ("x", {"version": 3}, 'is 3: it must be a semantic version such as "1.2.3", without v'),
    ],
)
def test_attribute_is_refused(name: str, value: object, words: str) -> None:
    """A bad name or value is told with the rule that slices have."""

    assert [words] == read_value(OwnAttributes(), {name: value})[1]


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63), "x" * 64])
def test_attribute_may_reach_its_limit(value: int | str) -> None:
    """The bounds themselves are allowed."""

    assert ({"x": value}, []) == read_value(OwnAttributes(), {"x": value})


def test_attributes_must_be_a_table() -> None:
    """A list of names is refused with an example."""

    assert read_value(OwnAttributes(), ["rail"])[1] == [
        'is ["rail"]: it must be a table such as { rail = 3, rack = "b7" }'
    ]


def test_name_that_berth_publishes_is_reserved_in_every_case() -> None:
    """Each reserved name is refused by that rule and no other."""
    reserved: Mapping[str, int] = dict.fromkeys(RESERVED, 1)
    said = read_value(OwnAttributes(), reserved)[1]

    assert {"is a name that berth publishes itself; choose another name"} == set(said)
    assert len(RESERVED) == len(said)
