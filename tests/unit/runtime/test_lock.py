"""One instance per state folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from berth.errors import HostError
from berth.runtime.lock import hold_lock

HOLDER = """
import sys, pathlib
from berth.runtime.lock import hold_lock
with hold_lock(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_lock_when_free_and_again(tmp_path: Path) -> None:
    """The holder's pid stands in the file, and the lock is free again after the block."""

    for _ in range(2):
        with hold_lock(tmp_path):
            assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"


def test_lock_when_held_here(tmp_path: Path) -> None:
    """A second holder is refused by an error that names path, pid, rule and mend."""

    with hold_lock(tmp_path), pytest.raises(HostError) as caught, hold_lock(tmp_path):
        pass

    assert str(caught.value) == (
        f"{tmp_path}/lock: held by process {os.getpid()}: one daemon per state folder; "
        "stop that one, or give this one another [node] state_dir"
    )


def test_lock_when_its_holder_is_killed(tmp_path: Path) -> None:
    """Another process keeps the lock until it dies, in whatever way."""

    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(HostError, match=f"held by process {holder.pid}:"), hold_lock(tmp_path):
            pass
        holder.send_signal(signal.SIGKILL)
        holder.wait()

    with hold_lock(tmp_path):
        assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"


def test_lock_when_the_folder_is_missing(tmp_path: Path) -> None:
    """A state folder that is not there is told by path."""

    with (
        pytest.raises(HostError, match="none/lock: cannot open the lock"),
        hold_lock(tmp_path / "none"),
    ):
        pass


def test_lock_when_the_disk_takes_no_number(tmp_path: Path) -> None:
    """A full disk keeps nobody from starting: the lock itself needs no space."""

    # No file may grow in that process, so each write fails as on a full disk.
    program = f"import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n{HOLDER}"
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(HostError, match="held by process unknown"), hold_lock(tmp_path):
            pass
