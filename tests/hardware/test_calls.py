"""Points 1 and 6: every call with its answer and its time, alone and under the unit's sandbox."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pynvml
import pytest

from berth.host.nvml.values import WANTED
from berth.rehearsal.nvml import world as worlds
from berth.rehearsal.nvml.build import build
from tests.hardware.conftest import ROOT, Gear, Report
from tests.hardware.nvmltrace import Call, differences, from_json, to_json
from tests.hardware.replay import world_of
from tests.hardware.sandbox import RUNNING, last_json, sandboxed
from tests.nvml import need_compiler

VERSION_REFUSED = 25


def test_calls_answer(calls: tuple[Call, ...], addresses: tuple[str, ...], report: Report) -> None:
    """Each GPU has the three signs of its identity; what else was said is kept."""

    report("calls", to_json(calls))
    report("slowest", [[call.us, *map(str, call.key)] for call in _slowest(calls)])
    needed = ("nvmlDeviceGetUUID", "nvmlDeviceGetMinorNumber", "nvmlDeviceGetName")
    good = {(call.symbol, call.of) for call in calls if not call.error}

    assert {(symbol, of) for symbol in needed for of in addresses} <= good


def test_structs_are_of_the_sizes_that_the_driver_knows(
    calls: tuple[Call, ...], addresses: tuple[str, ...], report: Report
) -> None:
    """No version word of ours is refused."""

    refused = sorted({call.symbol for call in calls if call.error == VERSION_REFUSED})
    report("version words refused", refused)

    assert refused == []


def test_events_that_berth_wants_are_there(
    calls: tuple[Call, ...], addresses: tuple[str, ...], report: Report
) -> None:
    """XIDs at least; which others is kept."""

    found = {
        call.of: call.value
        for call in calls
        if call.symbol == "nvmlDeviceGetSupportedEventTypes" and not call.error
    }
    report("event bits", {of: [hex(bits), hex(bits & WANTED)] for of, bits in found.items()})

    assert all(found[of] & pynvml.nvmlEventTypeXidCriticalError for of in addresses)


def test_stand_in_can_say_the_same(
    calls: tuple[Call, ...], addresses: tuple[str, ...], report: Report, tmp_path: Path
) -> None:
    """It is asked everything in the GPUs' place; where it answers otherwise is kept."""

    need_compiler()
    worlds.write(tmp_path / "world", world_of(calls))
    done = subprocess.run(
        [sys.executable, "-m", "tests.hardware.nvmltrace", str(build(below=tmp_path))],
        env=worlds.environment(tmp_path / "world"),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr

    again = from_json(last_json(done.stdout))
    report("stand-in answers otherwise", list(differences(calls, again)))

    assert {call.of for call in again} == {call.of for call in calls}


def test_calls_answer_the_same_under_the_sandbox(
    gear: Gear, calls: tuple[Call, ...], report: Report
) -> None:
    """The packaged unit keeps none of them from the driver."""

    if not RUNNING.exists():
        pytest.skip("SKIPPED FOR WANT OF SYSTEMD: it is not this machine's init")
    command = (sys.executable, "-m", "tests.hardware.nvmltrace", *filter(None, [gear.library]))
    kept = {name: os.environ[name] for name in (worlds.VARIABLE,) if name in os.environ}
    done = subprocess.run(
        sandboxed(command, folder=ROOT, environment=kept),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    inside = {call.key: call.error for call in from_json(last_json(done.stdout))}
    outside = {call.key: call.error for call in calls}
    other = {
        str(key): [error, inside.get(key)]
        for key, error in outside.items()
        if inside.get(key) != error
    }
    report("other errors under the sandbox", other)

    assert inside == outside


def _slowest(calls: tuple[Call, ...]) -> list[Call]:
    return sorted(calls, key=lambda call: call.us, reverse=True)[:10]
