"""A session of the stand-in, by pynvml itself."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path

import pynvml
import pytest

from berth.rehearsal.nvml.cards import divided, divisible, whole
from berth.rehearsal.nvml.world import World
from tests import nvml

FULL = whole(0, "0000:3b:00.0")
"""The first GPU of the world that a test begins with."""

PARTED = divided(divisible(1, "0000:af:00.0"), ((9, 7, 4), (19, 9, 0)))
"""The second, with two GPU instances that have odd ids."""


@pytest.fixture
def show(tmp_path: Path) -> Iterator[Callable[[World], None]]:
    """Show `FULL` and `PARTED` in an open session; another world can be put in their place."""
    ctypes.CDLL(str(nvml.library()), mode=ctypes.RTLD_GLOBAL)
    with nvml.shown(tmp_path / "world", nvml.cards(FULL, PARTED)) as put:
        pynvml.nvmlInitWithFlags(1)
        yield put
        put(World())
        pynvml.nvmlShutdown()
