"""Hooks as the runtime sees them, pods without and with our NICs in turns, on a stage."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from berth.errors import HostError
from berth.rehearsal.enter import inside
from tests.bench.conftest import ROOT, Report
from tests.bench.figures import Aim, Row

JOB = {"none": 300, "one": 50, "four": 25}
EVENTS = {
    "RUN_POD_SANDBOX": "RunPodSandbox",
    "CREATE_CONTAINER": "CreateContainer",
    "START_CONTAINER": "StartContainer",
}
KINDS = {"none": "without our devices", "one": "with one NIC", "four": "with four NICs"}
AIMS = {("none", event): (Aim(of="p99", most=1.0),) for event in EVENTS} | {
    ("one", "RUN_POD_SANDBOX"): (Aim(of="p99", most=100.0),)
}


@pytest.fixture(scope="module")
def rounds() -> dict[str, list[dict[str, float]]]:
    """What each step of each pod took, in milliseconds, by kind of pod."""
    try:
        command = inside("run", sys.executable, "-m", "tests.bench.onstage")
    except HostError as error:
        pytest.skip(f"no world on this machine: {error}")
    done = subprocess.run(
        command, input=json.dumps(JOB), capture_output=True, text=True, check=False, cwd=ROOT
    )
    if done.returncode:
        pytest.fail(done.stderr[-4000:], pytrace=False)
    found: dict[str, list[dict[str, float]]] = json.loads(done.stdout)
    return found


def test_hook_times(report: Report, rounds: dict[str, list[dict[str, float]]]) -> None:
    """Each event of each kind of pod, beside the same event of a pod that is none of ours."""

    echo = tuple(each["ECHO"] for each in rounds["none"])
    for kind, words in KINDS.items():
        for event, name in EVENTS.items():
            foreign = tuple(each[event] for each in rounds["none"])
            report(
                Row(
                    name=f"{name} {words}",
                    unit="ms",
                    samples=tuple(each[event] for each in rounds[kind]),
                    aims=AIMS.get((kind, event), ()),
                    beside=echo if kind == "none" else foreign,
                    beside_name="bare echo" if kind == "none" else "foreign pod",
                )
            )
    report(
        Row(
            name="echo between two processes, in turns with the events",
            unit="ms",
            samples=echo,
            note="what the machine alone makes of a message there and back",
        )
    )


def test_what_is_added_to_the_start_of_a_pod(
    report: Report, rounds: dict[str, list[dict[str, float]]]
) -> None:
    """Prepare and all hooks of one pod with one NIC, as kubelet and the runtime wait for them."""

    report(
        Row(
            name="prepare and hooks of a pod with one NIC",
            unit="ms",
            samples=tuple(
                sum(ms for step, ms in each.items() if step != "ECHO") for each in rounds["one"]
            ),
            aims=(Aim(of="p99", most=150.0),),
            note="against stand-ins; the kernel's two moves of the link are in it",
        )
    )
