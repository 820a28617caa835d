"""Stands in for the kernel's driver core on a tree of files: what is written to it has its effect.

It shows OUR behaviour, not the kernel's: it was written after the kernel's documentation and
sources, on a machine that has neither an IOMMU nor vfio-pci. Links, files and nodes change as they
are said to; that a real driver lets go, and in what time, only a real one can show.

- ``driver_override`` takes a driver's name; an empty line clears it, and it reads ``(null)``.
- ``drivers/<driver>/unbind`` takes the link away first, then waits until nobody has the device
  open; a function that the driver has not is ENODEV.
- ``drivers_probe`` binds to the override alone if there is one, else to the driver that knows the
  function; that none takes it is no error.
- vfio-pci takes what is in an IOMMU group, or anything where ``noiommu`` is set; while it has a
  function, the node of its group is there and, with ``iommufd``, the function's own.

Source: Linux ``Documentation/ABI/testing/sysfs-bus-pci``, ``drivers/base/bus.c``,
``drivers/base/dd.c``, ``drivers/vfio/group.c``, ``Documentation/driver-api/vfio.rst``.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Final

VFIO: Final = "vfio-pci"

_FIRST_NOIOMMU: Final = 900
_NODE_MODE: Final = 0o600 | stat.S_IFCHR
_NULL: Final = os.makedev(1, 3)
# What is opened by mistake is /dev/null.


class DriverCore:
    """The driver core of one tree; a second one on the same tree goes on where the first was.

    Args:
        root: The tree's file system, with ``sys`` and ``dev`` below it.
        drivers: Which driver knows a function, by address.
        noiommu: vfio-pci takes functions without an IOMMU as well.
        iommufd: Functions of vfio-pci have nodes of their own.
        changed: Called with the address of a function and the driver that has taken it; with none
            when one has let go. So a test lets links come and go with their driver.

    Attributes:
        refused: Drivers whose probe fails, by address.
        written: Every write, as file name and text.
    """

    def __init__(
        self,
        root: Path,
        drivers: Mapping[str, str],
        *,
        noiommu: bool = False,
        iommufd: bool = False,
        changed: Callable[[str, str], None] = lambda _address, _driver: None,
    ) -> None:
        self._changed = changed
        self._root = root
        self._bus = root / "sys/bus/pci"
        self._drivers = drivers
        self._noiommu = noiommu
        self._iommufd = iommufd
        self._users: dict[str, threading.Event] = {}
        self.refused: set[tuple[str, str]] = set()
        self.written: list[tuple[str, str]] = []
        for address in drivers:
            if not (self._folder(address) / "driver_override").exists():
                self._set_override(address, "")

    def load(self, drivers: Iterable[str] = (VFIO,)) -> None:
        """Load drivers; with vfio-pci comes the node of the interface."""
        for driver in drivers:
            (self._bus / "drivers" / driver).mkdir(parents=True, exist_ok=True)
            if driver == VFIO:
                self._make_node("vfio/vfio")
                if self._iommufd:
                    self._make_node("iommu")

    def open(self, address: str) -> None:
        """Have somebody open the device: its driver does not let go of it."""
        self._users[address] = threading.Event()

    def close(self, address: str) -> None:
        """Have that end; an unbind that waits for it comes back."""
        self._users.pop(address).set()

    def write(self, path: Path, content: bytes) -> None:
        """Write to a file of the tree, as `berth.host.driverbind.write_now` does in sysfs.

        Raises:
            OSError: As the kernel refuses.
        """
        text = content.decode().strip()
        self.written.append((path.name, text))
        if not path.exists() and path.name not in {"unbind", "drivers_probe"}:
            raise _error(errno.ENOENT, path)
        if path.name == "driver_override":
            self._set_override(path.parent.name, text)
        elif path.name == "unbind":
            self._unbind(path.parent.name, text)
        elif path.name == "drivers_probe":
            self._probe(text)
        else:
            raise _error(errno.EACCES, path)

    def driver(self, address: str) -> str:
        """What has the function."""
        link = self._folder(address) / "driver"
        return link.readlink().name if link.is_symlink() else ""

    def override(self, address: str) -> str:
        """What its ``driver_override`` reads."""
        return (self._folder(address) / "driver_override").read_text(encoding="ascii").strip()

    def nodes(self) -> Collection[str]:
        """Paths of the nodes below ``/dev/vfio``, but for that of the interface."""
        folder = self._root / "dev"
        found = {f"/dev/{path.relative_to(folder)}" for path in (folder / "vfio").rglob("*")}
        return {path for path in found if path != "/dev/vfio/vfio" and not path.endswith("devices")}

    def _folder(self, address: str) -> Path:
        return self._bus / "devices" / address

    def _set_override(self, address: str, text: str) -> None:
        file = self._folder(address) / "driver_override"
        file.write_text(f"{text or '(null)'}\n", encoding="ascii")

    def _unbind(self, driver: str, address: str) -> None:
        if not self._folder(address).exists() or self.driver(address) != driver:
            raise _error(errno.ENODEV, self._bus / "drivers" / driver / "unbind")
        (self._folder(address) / "driver").unlink()
        user = self._users.get(address)
        if user is not None:
            user.wait()
        if driver == VFIO:
            self._leave_vfio(address)
        self._changed(address, "")

    def _probe(self, address: str) -> None:
        if not self._folder(address).exists():
            raise _error(errno.ENODEV, self._bus / "drivers_probe")
        if self.driver(address):
            return
        override = self.override(address)
        driver = self._drivers.get(address, "") if override == "(null)" else override
        entry = self._bus / "drivers" / driver
        if not driver or not entry.exists() or (driver, address) in self.refused:
            return
        if driver == VFIO and not self._enter_vfio(address):
            return
        link = self._folder(address) / "driver"
        link.symlink_to(os.path.relpath(entry, link.parent.resolve()))
        self._changed(address, driver)

    def _enter_vfio(self, address: str) -> bool:
        folder = self._folder(address)
        group = folder / "iommu_group"
        if not group.is_symlink():
            if not self._noiommu:
                return False
            self._make_noiommu(address)
        number = group.readlink().name
        self._make_node(f"vfio/noiommu-{number}" if self._noiommu else f"vfio/{number}")
        if self._iommufd:
            name = f"vfio{number}"
            (folder / "vfio-dev" / name).mkdir(parents=True)
            self._make_node(f"vfio/devices/{name}")
        return True

    def _make_noiommu(self, address: str) -> None:
        """A group of the function's own, which lasts while vfio-pci has it."""
        groups = self._root / "sys/kernel/iommu_groups"
        groups.mkdir(parents=True, exist_ok=True)
        number = _FIRST_NOIOMMU + len([*groups.iterdir()])
        (groups / str(number)).mkdir()
        (groups / str(number) / "name").write_text("vfio-noiommu\n", encoding="ascii")
        link = self._folder(address) / "iommu_group"
        link.symlink_to(os.path.relpath(groups / str(number), link.parent.resolve()))

    def _leave_vfio(self, address: str) -> None:
        folder = self._folder(address)
        number = (folder / "iommu_group").readlink().name
        dev = self._root / "dev/vfio"
        for name in (number, f"noiommu-{number}", f"devices/vfio{number}"):
            (dev / name).unlink(missing_ok=True)
        if (folder / "vfio-dev").exists():
            shutil.rmtree(folder / "vfio-dev")
        if self._noiommu:
            (folder / "iommu_group").unlink()

    def _make_node(self, name: str) -> None:
        path = self._root / "dev" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            os.mknod(path, _NODE_MODE, _NULL)


def _error(number: int, path: Path) -> OSError:
    return OSError(number, os.strerror(number), str(path))
