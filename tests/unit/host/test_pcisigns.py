"""Whether a PCI function is there and answers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import trio

from berth.host.nvml.values import NoAnswer
from berth.host.pcisigns import PciSign, PciSigns, look
from tests.sysfs_tree import SysfsTree

ADDRESS = "0000:1b:00.0"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A function with a driver, as sysfs shows it."""
    tree = SysfsTree(tmp_path / "sys")
    return tree.function(ADDRESS, vendor="10de", driver="vfio-pci")


def test_function_that_answers_is_there(folder: Path) -> None:
    """With its driver, and what tells that binding from the next."""

    (folder / "config").write_bytes(bytes.fromhex("de10 3023 0601"))
    first = look(folder)
    assert (first.is_gone, first.present, first.driver) == (False, True, "vfio-pci")
    target = (folder / "driver").readlink()
    (folder / "keep").symlink_to(target)  # so that the inode is not dealt out again at once
    (folder / "driver").rename(folder / "former")
    (folder / "driver").symlink_to(target)

    assert look(folder).binding not in {0, first.binding}


def test_function_of_nothing_but_ones_is_gone(folder: Path) -> None:
    """Nobody completes the read."""

    (folder / "config").write_bytes(b"\xff" * 64)

    assert look(folder) == PciSign(
        present=True, silent=True, driver="vfio-pci", binding=look(folder).binding
    )
    assert look(folder).is_gone


def test_function_that_the_kernel_has_no_more_is_gone(folder: Path) -> None:
    """And has neither driver nor binding."""

    assert look(folder.with_name("0000:ff:00.0")) == PciSign()
    assert PciSign().is_gone


@pytest.mark.parametrize("content", [None, b"", b"\xff\xff", b"\xff\xff\x00\x23"])
def test_config_that_says_little_says_nothing(folder: Path, content: bytes | None) -> None:
    """A file that cannot be read, or is cut, is no evidence."""

    if content is not None:
        (folder / "config").write_bytes(content)

    assert not look(folder).is_gone


def test_function_without_a_driver_has_no_binding(folder: Path) -> None:
    """It is there all the same."""

    (folder / "driver").unlink()

    assert look(folder) == PciSign(present=True)


async def test_look_that_hangs_holds_up_nobody(folder: Path, tmp_path: Path) -> None:
    """No second one is begun until it is over; then all is as before."""

    os.mkfifo(folder / "config")  # to open it waits for a writer
    signs = PciSigns(tmp_path / "sys")
    assert isinstance(await signs.of(ADDRESS, 0.05), NoAnswer)
    with trio.fail_after(1):
        assert isinstance(await signs.of(ADDRESS, 30), NoAnswer)
    writer = os.open(folder / "config", os.O_RDWR)  # lets the reader in
    os.write(writer, b"\xde\x10\x30\x23")
    with trio.fail_after(30):
        # The thread is what leaves, in its own time.
        while isinstance(sign := await signs.of(ADDRESS, 30), NoAnswer):  # noqa: ASYNC110
            await trio.sleep(0.01)
        os.close(writer)

    assert not sign.is_gone
