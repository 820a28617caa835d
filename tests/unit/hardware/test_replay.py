"""What was recorded of GPUs is shown again by the stand-in, call by call."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from berth.rehearsal.nvml import world as worlds
from berth.rehearsal.nvml.cards import divided, divisible, whole
from berth.rehearsal.nvml.world import CallFault, Card, Field
from tests import nvml
from tests.hardware.nvmltrace import Call, differences, from_json, to_json
from tests.hardware.replay import world_of

ROOT = Path(__file__).parents[3]
FIRST = attrs.evolve(
    whole(0, "0000:3b:00.0"),
    links={0: "0000:af:00.0", 3: "", 5: "0000:05:00.0"},
    fields={230: Field(value=1), 145: Field(result=999)},
    addressing=1,
    numa=0,
)
PARTED = attrs.evolve(
    divided(divisible(1, "0000:af:00.0"), ((9, 7, 4), (19, 9, 0))), numa=1, supported_events=8
)
ODD = attrs.evolve(
    divisible(2, "0000:d8:00.0"),
    numa=1,
    faults=(
        CallFault(call="nvmlDeviceGetName", result=999),
        CallFault(call="nvmlDeviceGetComputeRunningProcesses_v3", result=4),
    ),
)


def traced(path: Path, *, old_driver: bool = False) -> tuple[Call, ...]:
    """Give what the stand-in says of the world at a path, in a process of its own."""
    library = nvml.library(old_driver=old_driver)
    done = subprocess.run(
        [sys.executable, "-m", "tests.hardware.nvmltrace", str(library)],
        env=worlds.environment(path),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return from_json(json.loads(done.stdout))


def traced_cards(path: Path, *cards: Card, old_driver: bool = False) -> tuple[Call, ...]:
    """Give what it says of these."""
    worlds.write(path, nvml.cards(*cards))
    return traced(path, old_driver=old_driver)


@pytest.mark.parametrize("old_driver", [False, True])
def test_trace_is_replayed(tmp_path: Path, *, old_driver: bool) -> None:
    """Whole, divided and odd GPUs: each call is answered as it was, refusals included."""

    first = traced_cards(tmp_path / "world", FIRST, PARTED, ODD, old_driver=old_driver)
    kept = from_json(json.loads(json.dumps(to_json(first))))
    worlds.write(tmp_path / "world", world_of(kept))
    again = traced(tmp_path / "world", old_driver=old_driver)

    assert kept == first
    assert len(first) > 200
    assert list(differences(first, again)) == []


def test_trace_without_rights_is_replayed(tmp_path: Path) -> None:
    """Where parts lie nobody was told, and nobody is told again."""

    assert PARTED.mig is not None
    without = attrs.evolve(PARTED, mig=attrs.evolve(PARTED.mig, rights=False))
    first = traced_cards(tmp_path / "world", without)
    worlds.write(tmp_path / "world", world_of(first))

    other = list(differences(first, traced(tmp_path / "world")))

    # How many slices an instance has follows from its placement.
    assert [line for line in other if "nvmlDeviceGetAttributes" not in line] == []


def test_differences_are_told(tmp_path: Path) -> None:
    """By what was asked."""

    first = traced_cards(tmp_path / "world", FIRST)
    second = traced_cards(tmp_path / "world", attrs.evolve(FIRST, minor=4))

    (line,) = differences(first, second)

    assert "nvmlDeviceGetMinorNumber" in line
