"""`make hardware-gpu` itself, on a machine without a GPU: over the stand-in, and with nothing."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from berth.rehearsal.nvml import world as worlds
from berth.rehearsal.nvml.cards import divided, divisible, whole
from tests import nvml
from tests.hardware.conftest import HERE, LIBRARY, REPORT, ROOT

ADDRESSES = ("0000:3b:00.0", "0000:af:00.0")


def run(**variables: str) -> tuple[int, str]:
    """Run the folder's tests and give the exit code and what was printed."""
    own = {name: value for name, value in os.environ.items() if name not in {REPORT, LIBRARY}}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(HERE), "-m", "gpu"],
        env={**own, **variables},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.mark.slow
def test_machine_without_a_driver_skips_all_loudly() -> None:
    """Each test says what is wanting."""

    if Path("/proc/driver/nvidia/version").exists():
        pytest.skip("SKIPPED FOR WANT OF A MACHINE WITHOUT A DRIVER: this one has one")

    code, printed = run()

    assert code == 0
    assert re.search(r"=+ \d+ skipped in", printed)
    assert "SKIPPED FOR WANT OF A GPU: no libnvidia-ml.so.1" in printed


@pytest.mark.root
@pytest.mark.slow
def test_stand_in_is_tried_as_far_as_it_goes(tmp_path: Path) -> None:
    """Calls, latencies, open files and the bare root; what computes is skipped, and said so."""

    if os.geteuid() != 0:
        pytest.skip("SKIPPED FOR WANT OF ROOT: makes a mount namespace")
    library = nvml.library()
    cards = (
        attrs.evolve(whole(0, ADDRESSES[0]), links={0: ADDRESSES[1]}),
        divided(divisible(1, ADDRESSES[1]), ((9, 7, 4), (19, 9, 0))),
    )
    worlds.write(tmp_path / "world", nvml.cards(*cards))
    name = f"test-{os.getpid()}"
    kept = HERE / "reports" / f"{name}.json"
    told = {LIBRARY: str(library), worlds.VARIABLE: str(tmp_path / "world"), REPORT: name}
    try:
        code, printed = run(**told)
        assert code == 0, printed
        document = json.loads(kept.read_text())
    finally:
        kept.unlink(missing_ok=True)
    seen, outcomes = document["seen"], document["outcomes"]

    assert document["driver"] == "stand-in"
    assert seen["version words refused"] == seen["stand-in answers otherwise"] == []
    assert set(seen["us beside nothing"]) == set(ADDRESSES)
    assert seen["open files"]["released"] == {}
    assert "/dev/nvidia0" in seen["nodes"]
    assert outcomes["test_bare_root_has_what_a_container_gets_and_nothing_more"] == "passed"
    skipped = {test for test, outcome in outcomes.items() if outcome == "skipped"}
    assert {
        "test_illegal_store_is_told_by_an_xid",
        "test_kernel_runs_with_what_a_container_gets",
        "test_calls_answer_beside_a_busy_context",
    } <= skipped
