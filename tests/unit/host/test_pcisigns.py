"""A function is asked by one thread at most."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import trio

from berth.host.nvml.values import NoAnswer
from berth.host.pcihealth import HEAD_BYTES
from berth.host.pcisigns import PciSigns
from tests.sysfs_tree import SysfsTree

ADDRESS = "0000:1b:00.0"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A function with a driver, as sysfs shows it."""
    tree = SysfsTree(tmp_path / "sys")
    return tree.function(ADDRESS, vendor="10de", driver="vfio-pci")


async def test_look_that_hangs_holds_up_nobody(folder: Path, tmp_path: Path) -> None:
    """No second one is begun until it is over; then all is as before."""

    os.mkfifo(folder / "config")  # to open it waits for a writer
    signs = PciSigns(tmp_path / "sys")
    assert isinstance(await signs.of(ADDRESS, 0.05), NoAnswer)
    with trio.fail_after(1):
        assert isinstance(await signs.of(ADDRESS, 30), NoAnswer)
    writer = os.open(folder / "config", os.O_RDWR)  # lets the reader in
    os.write(writer, bytes(64 * HEAD_BYTES))  # for this look and those after it
    with trio.fail_after(30):
        # The thread is what leaves, in its own time.
        while isinstance(sign := await signs.of(ADDRESS, 30), NoAnswer):  # noqa: ASYNC110
            await trio.sleep(0.01)
        os.close(writer)

    assert not sign.is_gone
