"""The programs that compute, against a library that shows how they call it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from berth.rehearsal.nvml import world as worlds
from berth.rehearsal.nvml.build import compiler
from berth.rehearsal.nvml.cards import whole
from tests import nvml
from tests.hardware.cuda import ILLEGAL_ADDRESS, LIBRARY, NUMBER
from tests.nvml import need_compiler

ROOT = Path(__file__).parents[3]
SOURCE = Path(__file__).with_name("libcuda.c")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the library."""
    need_compiler()
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    soname = f"-Wl,-soname,{LIBRARY}"
    command = [compiler(), *flags, soname, "-o", str(tmp_path / LIBRARY), str(SOURCE)]
    subprocess.run(command, check=True)
    return tmp_path


def told_by(folder: Path, *arguments: str) -> tuple[int, Any]:
    """Give a program's exit code and what it told last."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.hardware.cuda", *arguments],
        env={**os.environ, "LD_LIBRARY_PATH": str(folder)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout.splitlines()[-1])


def test_kernel_writes_a_number(folder: Path) -> None:
    """It is read back."""

    assert told_by(folder, "probe") == (0, {"devices": 1, "number": NUMBER})


def test_gpu_is_busy_for_a_time(folder: Path) -> None:
    """Kernels follow each other."""

    code, told = told_by(folder, "busy", "0.05")

    assert code == 0
    assert told["launches"] > 0


def test_illegal_store_is_told(folder: Path) -> None:
    """By the library's error; the program itself lives."""

    code, told = told_by(folder, "illegal")

    assert (code, told["error"]) == (0, ILLEGAL_ADDRESS)


def test_illegal_store_is_heard_as_an_xid(folder: Path, tmp_path: Path) -> None:
    """By berth's own session, with GPU, code and delay; then it is asked how it is."""

    worlds.write(tmp_path / "world", nvml.cards(whole(0, "0000:3b:00.0"), whole(1, "0000:af:00.0")))
    done = subprocess.run(
        [sys.executable, "-m", "tests.hardware.sessions", "xid", str(nvml.library())],
        env={**worlds.environment(tmp_path / "world"), "LD_LIBRARY_PATH": str(folder)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.stdout, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])

    assert told["child"]["error"] == ILLEGAL_ADDRESS
    (event,) = told["events"]
    assert (event["kind"], event["address"], event["data"]) == ("xid", "0000:af:00.0", 31)
    assert event["gi"] is event["ci"] is None
    assert "after_s" in event
    assert told["fields afterwards"]["0000:3b:00.0"]["230"] == 0


def test_missing_library_is_told(tmp_path: Path) -> None:
    """As a failure, and in words."""

    code, told = told_by(tmp_path, "probe")

    assert code == 1
    assert LIBRARY in told["failed"]
