"""Each XID has one class, and a list that is given goes before those that are not."""

from __future__ import annotations

import pytest

from berth.config.xid import APPLICATION, DEGRADED, FAULT, XidClass, XidTable
from tests.unit.config.reading import read_table


def table(text: str) -> XidTable:
    """A table without a fault."""
    read, said = read_table(XidTable, text)
    assert said == []
    assert read is not None
    return read


def test_defaults_are_disjoint() -> None:
    """As in the specification, whose first and last codes are here to be compared."""
    every = (*APPLICATION, *DEGRADED, *FAULT)

    assert len(every) == len({*every})
    assert (APPLICATION[0], APPLICATION[-1], len(APPLICATION)) == (8, 165, 70)


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        (13, XidClass.APPLICATION),
        (38, XidClass.APPLICATION),
        (63, XidClass.DEGRADED),
        (79, XidClass.FAULT),
        (109, XidClass.CONFIRM),
        (999, XidClass.CONFIRM),
    ],
)
def test_codes_have_the_class_of_the_default_lists(code: int, wanted: XidClass) -> None:
    """What stands in none has the driver asked."""

    assert table("").class_of(code) is wanted


def test_list_that_is_given_takes_codes_out_of_the_others() -> None:
    """And what it leaves out is in no list."""
    given = table("ignore = [63]\nfault = [13, 79]")

    assert given.class_of(63) is XidClass.IGNORE
    assert given.class_of(13) is XidClass.FAULT
    assert given.class_of(48) is XidClass.CONFIRM
    assert given.class_of(92) is XidClass.DEGRADED


def test_code_in_two_given_lists_is_refused() -> None:
    """It has one meaning."""
    _, said = read_table(XidTable, "degraded = [13, 63]\napplication = [13, 31]")

    assert said == [
        (
            "application holds 13, which degraded holds as well: an XID has one meaning; "
            "drop one of the two"
        )
    ]


def test_codes_are_whole_numbers() -> None:
    """Not their usual names."""
    _, said = read_table(XidTable, 'fault = ["xid-79"]')

    assert said == ['fault holds "xid-79": it must be a whole number from 0 to 65535']
