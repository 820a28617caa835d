"""Points 2, 3 and 4: what a fault is told by, how long calls take beside work, what stays open."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

from tests.hardware.conftest import Gear, Report
from tests.hardware.cuda import ILLEGAL_ADDRESS

Working = Callable[..., subprocess.Popen[str]]


def test_illegal_store_is_told_by_an_xid(
    gear: Gear, addresses: tuple[str, ...], compute: None, report: Report
) -> None:
    """Of a page (31) or an engine (13), soon, and nobody is asked to reset the GPU."""

    told = gear.ask("sessions", "xid", gear.library, timeout_s=120)
    report("illegal store", told)

    assert told["child"]["error"] == ILLEGAL_ADDRESS
    assert {event["data"] for event in told["events"] if event["kind"] == "xid"} & {13, 31}


def test_calls_answer_beside_nothing(
    gear: Gear, addresses: tuple[str, ...], report: Report
) -> None:
    """What the other figures are compared with."""

    told = gear.ask("latency", "3", gear.library)
    report("us beside nothing", told)

    assert set(told) == set(addresses)
    assert all(figures["refused"] == 0 for figures in told.values())


def test_calls_answer_beside_a_busy_context(
    gear: Gear, addresses: tuple[str, ...], working: Working, report: Report
) -> None:
    """A kernel runs on the first GPU; each call is answered."""

    busy = working("busy", "8")
    assert busy.stdout is not None
    assert "busy" in busy.stdout.readline()
    told = gear.ask("latency", "4", gear.library)
    report("us beside a busy context", told)

    assert all(figures["refused"] == 0 for figures in told.values())


def test_calls_answer_beside_crashing_contexts(
    gear: Gear, addresses: tuple[str, ...], working: Working, report: Report
) -> None:
    """One process after the other dies of an illegal store on the first GPU."""

    for _ in range(4):
        working("illegal")
    told = gear.ask("latency", "6", gear.library)
    report("us beside crashing contexts", told)

    assert all(figures["refused"] == 0 for figures in told.values())


def test_session_that_was_given_up_has_nothing_open(
    gear: Gear, addresses: tuple[str, ...], report: Report
) -> None:
    """Neither after a release nor between two questions: a reset or an unload could work."""

    told = gear.ask("sessions", "files", gear.library)
    report("open files", told)

    assert told["released"] == told["probe"] == told["hold ended"] == {}
    assert bool(told["hold"]) == gear.real
