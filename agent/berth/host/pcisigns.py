"""Whether a PCI function is there and answers, without its driver.

Reading the first bytes of its config space asks the function itself; one that has fallen off the
bus reads as nothing but ones. The kernel wakes a sleeping function for that, and may hang in it, so
reads are in threads, of which one for each function is out at most.

Source: Linux 6.12 ``drivers/pci/pci-sysfs.c`` (``config``), ``fs/kernfs`` (a link that is made anew
has another inode); PCI Express base specification 6.0 §2.3.2 (reads that nobody completes).
"""

from __future__ import annotations

import contextlib
import os
from functools import partial
from pathlib import Path
from typing import Final

import attrs

from berth.host.nvml.registry import Registry
from berth.host.nvml.values import NoAnswer

_LENGTH: Final = 4
# Vendor and device: a function that is there has a vendor other than ffff.

_NOBODY: Final = b"\xff" * _LENGTH


@attrs.frozen(kw_only=True)
class PciSign:
    """One look at a function.

    Attributes:
        present: The kernel has it.
        silent: Its config space reads as nothing but ones; one that cannot be read says nothing.
        driver: What it is bound to; empty for nothing.
        binding: Another one each time that a driver is bound, or that the function appears anew;
            0 without a driver.
    """

    present: bool = False
    silent: bool = False
    driver: str = ""
    binding: int = 0

    @property
    def is_gone(self) -> bool:
        """Nobody is there who could answer."""
        return not self.present or self.silent


class PciSigns:
    """Looks at functions; made and used in one trio run.

    Args:
        root: Where sysfs is mounted.
    """

    def __init__(self, root: Path = Path("/sys")) -> None:
        self._folder = root / "bus/pci/devices"
        self._registry: Registry | None = None

    async def of(self, address: str, deadline_s: float) -> PciSign | NoAnswer:
        """Look at one function, and give up waiting after a time; the look then stays out."""
        if self._registry is None:
            self._registry = Registry(threads="pci")
        return await self._registry.ask(
            address, "config", partial(look, self._folder / address), deadline_s=deadline_s
        )


def look(folder: Path) -> PciSign:
    """Look at the function of this folder of sysfs. Blocks."""
    if not folder.exists():
        return PciSign()
    driver, binding = "", 0
    with contextlib.suppress(OSError):
        driver = (folder / "driver").readlink().name
        binding = (folder / "driver").lstat().st_ino
    return PciSign(present=True, silent=_is_silent(folder), driver=driver, binding=binding)


def _is_silent(folder: Path) -> bool:
    try:
        file = os.open(folder / "config", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.pread(file, _LENGTH, 0) == _NOBODY
    except OSError:
        return False
    finally:
        os.close(file)
