"""Health of devices, on a rehearsal's stage: how soon who is told, and what watching costs."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, Final

import pytest

from berth.dra.pacing import BURST
from berth.errors import HostError
from berth.health.terms import Terms
from berth.rehearsal.enter import inside
from tests.bench.conftest import ROOT, Report
from tests.bench.figures import SOLE, Aim, Row
from tests.nvml import need_compiler

STRUCK = 24
HUNG = 6
MANY = 512
GPU: Final = Terms(interval_s=5, deadline_s=4, timeout_s=30)
"""How GPUs are watched unless the configuration says otherwise."""
WATCH_S = 60
IDLE = {
    "without a device": {"gpus": 0, "nodes": 0},
    "with 8 healthy GPUs": {"gpus": 8, "nodes": 0},
    f"with {MANY} healthy device nodes": {"gpus": 0, "nodes": MANY},
}
_POLLS: Final = 100.0
# Wake-ups a second that only the stand-in's wait for events makes, which polls; a driver's sleeps.


def play(scene: str, **job: Any) -> dict[str, Any]:
    """Play a scene in a world of its own, and give what it tells."""
    need_compiler()
    try:
        command = inside("run", sys.executable, "-m", "tests.bench.sickness")
    except HostError as error:
        pytest.skip(f"no world on this machine: {error}")
    done = subprocess.run(
        command,
        input=json.dumps({"scene": scene, **job}),
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    if done.returncode:
        pytest.fail(done.stderr[-4000:], pytrace=False)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_event_to_readers(report: Report) -> None:
    """From an XID to each of those who are told; never more slices than may be written at once."""

    found = play("strike", samples=STRUCK)
    note = "the stand-in for NVML looks for events each 5 ms: that is in it"

    for reader, name, most_ms in (
        ("stream", "XID to health stream read", 100.0),
        ("list", "XID to device plugin's list read", 100.0),
        ("slice", "XID to slice accepted", 1000.0),
    ):
        aims = (Aim(of="p99", most=most_ms),)
        report(Row(name=name, unit="ms", samples=tuple(found[reader]), aims=aims, note=note))


def test_hung_probe(report: Report) -> None:
    """From the moment from which no call comes back to kubelet's word of it."""

    report(
        Row(
            name="GPU hangs to health stream read",
            unit="s",
            samples=tuple(play("hang", samples=HUNG)["seconds"]),
            aims=(Aim(of="p99", most=GPU.interval_s + GPU.deadline_s + 1),),
            note=f"probed each {GPU.interval_s} s, with {GPU.deadline_s} s for the answer",
        )
    )


def test_many_sick_at_once(report: Report) -> None:
    """All nodes are gone in one moment; times count from the first list that says so."""

    found = play("fall", devices=MANY, watch_s=20)
    slices, writes = found["slices"], found["writes_s"]

    what = f"{MANY} devices sick at once"
    for reader, name in (("stream", "health stream"), ("list", "list"), ("slices", "slices")):
        report(Row(name=f"{what}: {name} has all", unit="s", samples=(found["ends_s"][reader],)))
    report(
        Row(
            name=f"{what}: slices written",
            unit="",
            samples=(len(writes),),
            aims=(Aim(of=SOLE, most=BURST * slices),),
            note=f"{len(writes) / slices:.1f} rounds of {slices} slices, {found['lists']} lists",
        )
    )
    report(
        Row(
            name=f"{what}: processor time of the daemon in 20 s",
            unit="s",
            samples=(found["cpu_s"],),
            beside=(found["quiet_cpu_s"],),
            beside_name="all well",
        )
    )


@pytest.mark.parametrize("what", IDLE)
def test_watching(report: Report, what: str) -> None:
    """A minute in which devices are looked at and nothing is found."""

    found = play("idle", watch_s=WATCH_S, **IDLE[what])
    rates = sorted((count / WATCH_S for count in found["woken"].values()), reverse=True)
    polling = rates[0] if IDLE[what]["gpus"] and rates[0] > _POLLS else 0.0

    main = found["woken"]["main"] / WATCH_S
    left_out = f"; left out: the stand-in's wait for events, {polling:.0f}/s" if polling else ""
    report(
        Row(
            name=f"voluntary wake-ups while idle {what}",
            unit="1/s",
            samples=(sum(rates) - polling,),
            aims=(Aim(of=SOLE, most=20.0),),
            note=f"main thread {main:.1f}/s, {len(rates)} threads, shorter lives than 0.25 s not "
            f"seen; {found['cpu_s']:.2f} s of processor time{left_out}",
        )
    )
    report(
        Row(
            name=f"memory {what}, all of it told",
            unit="MB",
            samples=(found["last_mb"],),
            beside=(found["ready_mb"],),
            beside_name="when first told",
        )
    )
    report(
        Row(
            name=f"slices written while idle {what}",
            unit="",
            samples=(found["writes"],),
            aims=(Aim(of=SOLE, most=0.0),),
        )
    )
