"""Which driver has a PCI function, and how the function is given to another one.

A function's ``driver_override`` says which driver alone may have it; ``drivers_probe`` then has the
kernel look for one. Clearing it is a line without text, after which it reads ``(null)``.

An unbind waits in the kernel, and cannot be interrupted, while somebody has the device open. All
this time the kernel holds the device's lock, which a probe and even a read of ``driver_override``
take as well. So at most one call is out for each function, in a thread that nobody waits for beyond
`LIMIT_S` and that keeps no file of ours open; what the links of sysfs tell needs no lock.

Source: Linux ``Documentation/ABI/testing/sysfs-bus-pci`` (``driver_override``, ``unbind``),
``drivers/pci/pci-sysfs.c``, ``drivers/base/bus.c`` (``drivers_probe``); network.md §4.6.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

import attrs

from berth.errors import HostError
from berth.host.apart import run_apart
from berth.host.nvml.registry import Registry
from berth.host.nvml.values import NoAnswer

T = TypeVar("T")

LIMIT_S: Final = 5.0
"""How long a call is waited for."""

_NONE: Final = "(null)"
_TEXT_LIMIT: Final = 4096

Writer: TypeAlias = Callable[[Path, bytes], None]


@attrs.frozen(kw_only=True)
class Bound:
    """What has a function.

    Attributes:
        driver: Empty when none has it.
        override: The one driver that may have it; empty when any may that knows it.
    """

    driver: str = ""
    override: str = ""


def write_now(path: Path, content: bytes) -> None:
    """Write to a file of sysfs, which must be there.

    Raises:
        OSError: The kernel refuses, or there is no such file.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, content)
    finally:
        os.close(descriptor)


def write_apart(path: Path, content: bytes) -> None:
    """The same, and the kernel may take as long as it likes."""
    run_apart(lambda: write_now(path, content))


class DriverFiles:
    """The files of one sysfs tree; everything here blocks.

    Args:
        root: Where it is mounted.
        write: The seam of tests, in which a driver core of files reacts to what is written.
    """

    def __init__(self, root: Path = Path("/sys"), *, write: Writer = write_apart) -> None:
        self._bus = root / "bus/pci"
        self._write = write

    def bound(self, address: str) -> Bound | None:
        """What has the function; ``None`` when it is not in the machine.

        Raises:
            HostError: It is there and cannot be read.
        """
        folder = self._folder(address)
        if not folder.exists():
            return None
        try:
            content = run_apart(lambda: _read(folder / "driver_override"))
        except FileNotFoundError as error:
            if not folder.exists():
                return None
            raise _refused(folder / "driver_override", "cannot be read", error) from error
        except OSError as error:
            raise _refused(folder / "driver_override", "cannot be read", error) from error
        text = content.decode(errors="replace").strip()
        return Bound(driver=self.driver(address), override="" if text == _NONE else text)

    def driver(self, address: str) -> str:
        """The driver that has the function; empty when none has. Takes no lock of the kernel's."""
        try:
            return (self._folder(address) / "driver").readlink().name
        except OSError:
            return ""

    def set_override(self, address: str, driver: str) -> None:
        """Let one driver alone have the function; empty: any that knows it.

        Raises:
            HostError: The kernel refuses.
        """
        self._do(self._folder(address) / "driver_override", f"{driver}\n")

    def unbind(self, address: str, driver: str) -> None:
        """Take the function from its driver; nothing is done when that has it no more.

        Raises:
            HostError: The kernel refuses.
        """
        try:
            self._do(self._bus / "drivers" / driver / "unbind", address)
        except HostError as error:
            if self.driver(address) == driver:
                raise
            if error.errno not in {errno.ENODEV, errno.ENOENT}:
                raise

    def probe(self, address: str) -> None:
        """Have the kernel look for a driver; that it finds one has to be looked at.

        Raises:
            HostError: The kernel refuses.
        """
        self._do(self._bus / "drivers_probe", address)

    def _folder(self, address: str) -> Path:
        return self._bus / "devices" / address

    def _do(self, path: Path, text: str) -> None:
        try:
            self._write(path, text.encode())
        except OSError as error:
            raise _refused(path, f"does not take {text.strip()!r}", error) from error


class DriverCalls:
    """The same from trio: one call at a time for each function, none of which is waited for long.

    Args:
        files: Where the calls go.
        returned: Called on the trio thread when a call has returned, however late.
        limit_s: How long a call is waited for.
    """

    def __init__(
        self,
        files: DriverFiles | None = None,
        *,
        returned: Callable[[], object] = lambda: None,
        limit_s: float = LIMIT_S,
    ) -> None:
        self.files = files or DriverFiles()
        self._limit_s = limit_s
        self._registry = Registry(returned, threads="driver")

    async def bound(self, address: str) -> Bound | None:
        """What has the function; ``None`` when it is not in the machine.

        Raises:
            HostError: It cannot be read; with ``EBUSY``: an earlier call has not returned yet.
        """
        return await self._ask(address, "look", lambda: self.files.bound(address))

    async def set_override(self, address: str, driver: str) -> None:
        """As `DriverFiles.set_override`; raises ``EBUSY`` past the limit."""
        await self._ask(address, "override", lambda: self.files.set_override(address, driver))

    async def unbind(self, address: str, driver: str) -> None:
        """As `DriverFiles.unbind`; raises ``EBUSY`` past the limit, and the kernel goes on."""
        await self._ask(address, "unbind", lambda: self.files.unbind(address, driver))

    async def probe(self, address: str) -> None:
        """As `DriverFiles.probe`; raises ``EBUSY`` past the limit, and the kernel goes on."""
        await self._ask(address, "probe", lambda: self.files.probe(address))

    def is_out(self, address: str) -> bool:
        """Whether a call is out for the function."""
        return self._registry.busy(address)

    async def _ask(self, address: str, purpose: str, function: Callable[[], T]) -> T:
        answer = await self._registry.ask(address, purpose, function, deadline_s=self._limit_s)
        if isinstance(answer, NoAnswer):
            raise HostError(
                f"PCI function {address}",
                f"is busy: its {answer.purpose} has not returned for {answer.open_s:.0f} s",
                rule="the kernel waits until nobody has the device open",
                mend="end what uses it; `berth gpu holders` names who has a GPU open",
                errno=errno.EBUSY,
            )
        return answer


def _read(path: Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, _TEXT_LIMIT)
    finally:
        os.close(descriptor)


def _refused(path: Path, found: str, error: OSError) -> HostError:
    return HostError(str(path), f"{found}: {error.strerror or error}", errno=error.errno or 0)
