"""The part of CEL that selectors are made of."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.errors import ClaimError
from berth.rehearsal.cel import Unread, selects

DEVICE: Final[dict[str, Any]] = {
    "name": "nic-0",
    "attributes": {
        "type": {"string": "nic"},
        "speedMbps": {"int": 25000},
        "rdma": {"bool": False},
        "resource.kubernetes.io/numaNode": {"int": 1},
    },
}
OWN: Final = 'device.attributes["berth.dev"]'


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (f'device.driver == "berth.dev" && {OWN}.type == "nic"', True),
        (f'device.driver == "other.dev" && {OWN}.type == "nic"', False),
        (f"{OWN}.speedMbps >= 25000", True),
        (f"{OWN}.speedMbps > 25000", False),
        (f"{OWN}.rdma", False),
        (f"!{OWN}.rdma", True),
        (f"!({OWN}.rdma || {OWN}.type == 'vf')", True),
        (f'{OWN}.type in ["vf", "nic"]', True),
        (f'{OWN}["type"] != "nic"', False),
        ('device.attributes["resource.kubernetes.io"].numaNode == 1', True),
        ("true || false && false", True),
        ("-3 < 2", True),
    ],
)
def test_selects_gives_what_cel_gives(expression: str, *, expected: bool) -> None:
    """Each form that selectors are made of is judged as CEL judges it."""

    assert selects(expression, DEVICE, driver="berth.dev") is expected


def test_missing_attribute_stops_the_allocation() -> None:
    """An attribute that the device lacks is an error, as it is for the scheduler."""

    with pytest.raises(ClaimError, match="no such key: rail"):
        selects(f"{OWN}.rail == 3", DEVICE, driver="berth.dev")


def test_missing_attribute_does_not_matter_when_the_other_side_decides() -> None:
    """CEL's connectives forget an error on one side when the other side decides alone."""

    assert not selects(f"{OWN}.rail == 3 && false", DEVICE, driver="berth.dev")
    assert selects(f"{OWN}.rail == 3 || true", DEVICE, driver="berth.dev")


@pytest.mark.parametrize(
    "expression",
    [
        f'{OWN}.type.startsWith("n")',
        f"{OWN}.speedMbps * 2 > 3",
        f'{OWN}.speedMbps == "25000"',
        "device",
        "device.driver",
        "device.capacity",
        '"nic"',
        "1.5 > 1",
        "",
        "true &&",
        "(true",
        "[1",
        "(" * 100 + "true" + ")" * 100,
    ],
)
def test_what_is_not_read_is_told_so(expression: str) -> None:
    """More of CEL than is read here is never guessed."""

    with pytest.raises(Unread):
        selects(expression, DEVICE, driver="berth.dev")


@given(st.text(alphabet='device.attributes["berth.dev"]type&&||!()<>=in 019-', max_size=60))
def test_garbage_is_judged_or_refused(expression: str) -> None:
    """Whatever is written, the answer is true, false, or one of the two errors."""

    try:
        result = selects(expression, DEVICE, driver="berth.dev")
    except (Unread, ClaimError):
        return
    assert result in {True, False}
