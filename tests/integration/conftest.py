"""What tests of several doors share: the loop of grpcio, and a folder for sockets."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from berth.runtime.asyncthread import AsyncioThread, open_asyncio_thread

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


@pytest.fixture
async def thread() -> AsyncIterator[AsyncioThread]:
    """Give grpcio's loop."""
    async with open_asyncio_thread() as running:
        yield running


@pytest.fixture
def folder() -> Iterator[Path]:
    """Give a folder whose path is short enough for sockets in it; pytest's own is not."""
    with tempfile.TemporaryDirectory(prefix="berth-") as path:
        yield Path(path)
