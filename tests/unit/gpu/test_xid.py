"""XIDs: their class, whom they concern, and what is found by them."""

from __future__ import annotations

import pytest

from berth.config.xid import XidClass, XidTable
from berth.gpu.xid import class_unasked, subjects_of, xid_finding
from berth.health.finding import CODE_LIMIT, MESSAGE_LIMIT, Severity

WHOLE = "pci:0000:1b:00.0"
PARTS = {(7, 0): f"{WHOLE}/a", (7, 1): f"{WHOLE}/b", (9, 0): f"{WHOLE}/c"}


@pytest.mark.parametrize(
    ("codes", "xid_class", "severity"),
    [
        ((13, 31, 43, 45, 94, 137), XidClass.APPLICATION, None),
        ((63, 92, 157), XidClass.DEGRADED, Severity.DEGRADED),
        ((46, 48, 62, 64, 95, 110, 119, 120, 136, 140, 143, 158), XidClass.FAULT, Severity.FAULT),
        ((79,), XidClass.FAULT, Severity.LOST),
        ((32, 74, 109, 142, 154, 166, 999, 65536), XidClass.CONFIRM, None),
    ],
)
def test_code_speaks_by_its_class(
    codes: tuple[int, ...], xid_class: XidClass, severity: Severity | None
) -> None:
    """Those that have to be confirmed say nothing yet."""

    for code in codes:
        assert XidTable().class_of(code) is xid_class
        finding = xid_finding(code, xid_class)
        assert (finding.severity if finding is not None else None) is severity
        if finding is not None:
            assert finding.code == f"xid-{code}"
            assert str(code) in finding.message
            assert len(finding.message.encode()) <= MESSAGE_LIMIT


def test_code_whose_class_is_set_otherwise_is_what_the_operator_says() -> None:
    """Lost is what nothing makes of a code that is no fault."""

    table = XidTable(ignore=(79,), fault=(13,))

    assert xid_finding(79, table.class_of(79)) is None
    found = xid_finding(13, table.class_of(13))
    assert found is not None
    assert (found.code, found.severity) == ("xid-13", Severity.FAULT)


def test_code_that_cannot_be_confirmed_counts_as_a_fault() -> None:
    """But for the one that is harmless in some stacks."""

    assert class_unasked(109) is XidClass.APPLICATION
    assert {class_unasked(code) for code in (32, 74, 999)} == {XidClass.FAULT}


def test_code_of_any_size_is_a_valid_reason() -> None:
    """It is the driver's number, whatever that is."""

    found = xid_finding(2**64 - 1, XidClass.FAULT)

    assert found is not None
    assert len(found.code) <= CODE_LIMIT


@pytest.mark.parametrize(
    ("gi", "ci", "subjects"),
    [
        (None, None, [WHOLE]),
        (None, 0, [WHOLE]),
        (7, 1, [f"{WHOLE}/b"]),
        (7, None, [f"{WHOLE}/a", f"{WHOLE}/b"]),
        (9, 0, [f"{WHOLE}/c"]),
        (9, 1, [WHOLE]),
        (3, None, [WHOLE]),
    ],
)
def test_event_concerns_what_it_names(gi: int | None, ci: int | None, subjects: list[str]) -> None:
    """A part, all of an instance, or the whole when nobody knows the instance."""

    assert list(subjects_of(gi, ci, whole=WHOLE, parts=PARTS)) == subjects
