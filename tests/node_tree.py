"""Builds trees of device nodes with their entries in sysfs and udev's files.

Nodes are real ones, made by ``mknod`` with numbers of nobody's device and never opened; without the
right to make them a test skips loudly.
"""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest

from berth.host.devnodes import NodeReader
from tests.sysfs_tree import SysfsTree

XHCI = "pci0000:00/0000:00:14.0"
"""Where USB devices hang unless told otherwise."""


class NodeTree:
    """A machine's ``/dev``, ``/sys`` and ``/run`` under a folder.

    Args:
        root: The folder.
    """

    def __init__(self, root: Path) -> None:
        self.dev, self.run = root / "dev", root / "run"
        self.dev.mkdir()
        self.tree = SysfsTree(root / "sys")
        self.sys = self.tree.root
        self.udev = self.run / "udev"
        (self.udev / "data").mkdir(parents=True)
        (self.udev / "control").touch()
        self.reader = NodeReader(dev=self.dev, sys=self.sys, run=self.run)

    def node(self, name: str, number: str, *, block: bool = False, mode: int = 0o660) -> Path:
        """Make a node below ``/dev``.

        Args:
            number: Major and minor, such as ``188:0``.
        """
        path = self.dev / name
        path.parent.mkdir(parents=True, exist_ok=True)
        major, minor = map(int, number.split(":"))
        try:
            os.mknod(path, stat.S_IFBLK if block else stat.S_IFCHR, os.makedev(major, minor))
        except PermissionError:
            pytest.skip("SKIPPED FOR WANT OF ROOT: makes device nodes")
        path.chmod(mode)
        return path

    def device(
        self,
        way: str | Path,
        number: str,
        *,
        subsystem: str = "tty",
        block: bool = False,
        name: str = "",
    ) -> Path:
        """Make a node and its folder in sysfs.

        Args:
            way: The folder, below ``devices`` or absolute.
            name: Of the node below ``/dev``; that of the folder when empty.
        """
        folder = self.sys / "devices" / way
        folder.mkdir(parents=True)
        devname = name or folder.name
        major, minor = number.split(":")
        (folder / "uevent").write_text(f"MAJOR={major}\nMINOR={minor}\nDEVNAME={devname}\n")
        class_ = self.sys / "class" / subsystem
        class_.mkdir(parents=True, exist_ok=True)
        _link(folder / "subsystem", class_)
        entries = self.sys / "dev" / ("block" if block else "char")
        entries.mkdir(parents=True, exist_ok=True)
        _link(entries / number, folder)
        self.node(devname, number, block=block)
        return folder

    def controller(self, numa_node: int = 1) -> None:
        """Add the USB controller of `XHCI`."""
        root, address = XHCI.split("/")
        self.tree.function(
            address,
            under=root,
            vendor="8086",
            device="a36d",
            class_code=0x0C0330,
            driver="xhci_hcd",
            numa_node=numa_node,
        )

    def usb(
        self,
        ports: str,
        *,
        vendor: str = "0403",
        product: str = "6001",
        serial: str = "A50285BI",
        name: str = "FT232R USB UART",
        interface: str = "00",
    ) -> Path:
        """Plug a USB device in; gives the folder of its interface."""
        folder = self.tree.usb(ports, on=XHCI, product=name)
        facts = {"idVendor": vendor, "idProduct": product, "serial": serial}
        for file, text in facts.items():
            if text:
                (folder.parent / file).write_text(f"{text}\n")
        (folder / "bInterfaceNumber").write_text(f"{interface}\n")
        return folder

    def tty(self, ports: str, number: int, **facts: str) -> Path:
        """Plug a serial adapter in, as ``/dev/ttyUSB<number>``."""
        port = self.usb(ports, **facts) / f"ttyUSB{number}"
        (port / "tty").mkdir(parents=True)
        (port / "port_number").write_text("0\n")
        return self.device(port / "tty" / f"ttyUSB{number}", f"188:{number}")

    def unplug(self, ports: str) -> None:
        """Take a USB device out, with its nodes and whatever hangs from it."""
        (folder,) = (self.sys / "devices" / XHCI / "usb1").rglob(f"1-{ports}")
        for uevent in folder.rglob("uevent"):
            facts = dict(line.split("=") for line in uevent.read_text().split())
            (self.dev / facts["DEVNAME"]).unlink()
            (self.sys / "dev/char" / f"{facts['MAJOR']}:{facts['MINOR']}").unlink()
        for interface in folder.glob("*:1.*"):
            (self.sys / "bus/usb/devices" / interface.name).unlink()
        shutil.rmtree(folder)

    def link(self, name: str, target: str) -> Path:
        """Make a link below ``/dev``, to a name below it or to an absolute path."""
        path = self.dev / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(os.path.relpath(self.dev / target, path.parent))
        return path

    def properties(self, number: str, **values: str) -> None:
        """Write what udev knows of a device, such as ``c188:0``."""
        lines = ["S:serial/by-id/x", "I:1234", *(f"E:{k}={v}" for k, v in values.items()), "V:1"]
        (self.udev / "data" / number).write_text("".join(f"{line}\n" for line in lines))


def _link(path: Path, target: Path) -> None:
    path.symlink_to(os.path.relpath(target, path.parent))
