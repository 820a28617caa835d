"""nvidia-ctk as a program: found, asked, given up."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from berth.errors import HostError
from berth.host.nvidiactk import ARGUMENTS, LIMIT_S, ask_tool, find_tool, stamps


def tool(folder: Path, script: str) -> str:
    """A program of this name."""
    path = folder / "nvidia-ctk"
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def test_tool_is_found_where_it_is_looked_for(tmp_path: Path) -> None:
    """One that is not installed is no fault; one that is replaced has another stamp."""

    assert find_tool(str(tmp_path)) == ""
    assert stamps(str(tmp_path)) == ()

    path = tool(tmp_path, "true")
    before = stamps(str(tmp_path))
    tool(tmp_path, "false; true")

    assert find_tool(str(tmp_path)) == path
    assert [stamp.path for stamp in before] == [path]
    assert stamps(str(tmp_path)) != before


async def test_tool_is_asked_without_our_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable of its own could send its answer elsewhere."""

    monkeypatch.setenv("NVIDIA_CTK_CDI_OUTPUT_FILE_PATH", str(tmp_path / "other"))
    path = tool(tmp_path, 'echo "$NVIDIA_CTK_CDI_OUTPUT_FILE_PATH|$LC_ALL|$*"')

    assert await ask_tool(path) == f"|C.UTF-8|{' '.join(ARGUMENTS)}\n".encode()


async def test_failure_is_told_in_its_own_words(tmp_path: Path) -> None:
    """As with a version that lacks a flag."""

    path = tool(tmp_path, "echo 'flag provided but not defined' >&2; exit 1")

    with pytest.raises(HostError, match="exit status 1: flag provided but not defined"):
        await ask_tool(path)


async def test_tool_that_hangs_is_given_up(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    """After its time it is killed; the clock is a virtual one."""

    begun = tmp_path / "begun"
    path = tool(tmp_path, f"touch {begun}; exec sleep 600")

    async def pass_time() -> None:
        while not begun.exists():
            await trio.lowlevel.checkpoint()
        mock_clock.jump(LIMIT_S + 1)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(pass_time)
        with pytest.raises(HostError, match=f"gave nothing within {LIMIT_S:.0f} s"):
            await ask_tool(path)
