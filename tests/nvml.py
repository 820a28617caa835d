"""The stand-in for NVML in tests: one library for the whole process, a world for each test.

pynvml loads a library once and for all, so tests that need another one run in a process of their
own. A hang ends with its world: no thread of a test stays behind.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from berth.rehearsal.nvml import world as worlds
from berth.rehearsal.nvml.build import build, compiler
from berth.rehearsal.nvml.world import Card, World

LEFT_S = 10
"""Longest that a thread takes to see that its world is over."""


def need_compiler() -> None:
    """Skip the test, loudly, where nothing can build the stand-in; fail it in CI (`CI=true`)."""
    if compiler():
        return
    if os.environ.get("CI") == "true":
        pytest.fail("no C compiler: the stand-in for NVML cannot be built", pytrace=False)
    pytest.skip("SKIPPED FOR WANT OF A C COMPILER: builds the stand-in for NVML")


def library(*, old_driver: bool = False) -> Path:
    """Give the built stand-in, and skip the test, loudly, where nothing can build it."""
    need_compiler()
    return build(old_driver=old_driver)


@contextmanager
def shown(path: Path, world: World) -> Iterator[Callable[[World], None]]:
    """Let the stand-in show a world for the block, and give what puts another in its place."""
    before = os.environ.get(worlds.VARIABLE)
    worlds.write(path, world)
    os.environ[worlds.VARIABLE] = str(path)
    try:
        yield lambda other: worlds.write(path, other)
    finally:
        worlds.write(path, World())
        _wait_left()
        if before is None:
            del os.environ[worlds.VARIABLE]
        else:
            os.environ[worlds.VARIABLE] = before


def _wait_left() -> None:
    """Wait until no thread is in the library: it would be counted in the next test's world."""
    for thread in threading.enumerate():
        if thread.name.startswith("nvml "):
            thread.join(LEFT_S)


def cards(*all_of_them: Card) -> World:
    """Give a world of these GPUs with nothing amiss."""
    return World(cards=all_of_them)


def run_alone(code: str, path: Path, *arguments: str) -> str:
    """Run Python code in a process of its own, whose stand-in shows the world at ``path``.

    Returns:
        What it printed.
    """
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *arguments],
        env=worlds.environment(path),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
