"""Calls by threads that keep nothing open: the real kernel's tables of descriptors."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from berth.host.apart import run_apart


def descriptors() -> list[str]:
    """What the calling thread has open, but for the listing itself."""
    own = Path(f"/proc/self/task/{threading.get_native_id()}/fd")
    return [each.name for each in own.iterdir() if each.exists()]


def test_call_has_no_file_of_the_process_and_the_process_keeps_its_own(tmp_path: Path) -> None:
    """A file of the process is not there; what the call opens is open nowhere else."""

    with (tmp_path / "file").open("wb") as file:
        before = descriptors()

        assert run_apart(descriptors) == []
        run_apart(lambda: os.open(tmp_path / "file", os.O_RDONLY))

        assert str(file.fileno()) in before
        assert descriptors() == before


def test_error_of_the_call_is_raised() -> None:
    """As if it had been made by the caller."""

    with pytest.raises(FileNotFoundError):
        run_apart(lambda: os.open("/nowhere", os.O_RDONLY))
