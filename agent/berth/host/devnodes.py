"""Reads device nodes, without ever opening one: from the file system, sysfs and udev's files.

Only what is asked for is looked at: the paths that fit a pattern, and, where nodes are wanted by
what they are, the entries of sysfs' ``dev`` folder whose links already tell that they may be meant.
At most `NODES_LIMIT` nodes are described and `ENTRIES_LIMIT` folder entries read in one look.

Blocks on the file systems; for worker threads. A node that vanishes meanwhile is left out.

Source: Linux ``Documentation/admin-guide/sysfs-rules.rst`` and ``ABI/stable/sysfs-dev``; systemd
``src/libsystemd/sd-device/device-private.c`` (files in ``/run/udev/data``) and
``udev-builtin-path_id`` (form of ``ID_PATH``).
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import attrs

from berth.host.hardware import PciFunction
from berth.host.nodefacts import (
    DEV,
    DevNode,
    NodeScan,
    Oddity,
    UsbDevice,
    Wanted,
    part_of,
)
from berth.host.sysfiles import link_name, names
from berth.host.sysfs import Sysfs
from berth.model.edits import NodeType
from berth.model.names import is_pci_address
from berth.model.pathglob import PathGlob, component_fits, has_wildcards

NODES_LIMIT: Final = 4096
"""Most nodes that one look describes."""

ENTRIES_LIMIT: Final = 131072
"""Most folder entries that one look reads; a machine has some thousands."""

TEXT_LIMIT: Final = 4096
"""Most that is read of one file in sysfs, in bytes: what the kernel gives at once."""

UDEV_LIMIT: Final = 65536
"""Most that is read of udev's file of one device, in bytes."""

_LINK_FOLDERS: Final = ("by-id", "by-path")


class NodeReader:
    """Reads the nodes of one machine; for one thread at a time.

    Args:
        dev: What lies at ``/dev``; tests give a folder.
        sys: Where sysfs is mounted.
        run: What lies at ``/run``.
    """

    def __init__(
        self,
        *,
        dev: Path = Path("/dev"),
        sys: Path = Path("/sys"),
        run: Path = Path("/run"),
    ) -> None:
        self._dev = os.path.realpath(dev)
        self._sys = Path(os.path.realpath(sys))
        self._udev = run / "udev"
        self._pci = Sysfs(self._sys)

    def read(self, wanted: Wanted) -> NodeScan:
        """All nodes that are wanted."""
        look = _Look(dev=self._dev)
        for glob in wanted.globs:
            for path in look.expanded(glob):
                look.add(path)
        if wanted.needs_sysfs:
            for path in self._by_sysfs(wanted, look):
                look.add(path)
        links = look.stable_links() if look.found else {}
        nodes: dict[str, DevNode] = {}
        for path, status in sorted(look.found.items()):
            if len(nodes) >= NODES_LIMIT:
                look.cut = True
                break
            node = self._node(path, status, {*look.aliases[path], *links.get(path, ())}, wanted)
            earlier = nodes.get(node.number)
            nodes[node.number] = _joined(earlier, node) if earlier else node
        return NodeScan(
            nodes=tuple(sorted(nodes.values(), key=lambda node: node.path)),
            oddities=tuple(look.oddities[path] for path in sorted(look.oddities)),
            udev=(self._udev / "control").exists(),
            cut=look.cut,
        )

    def look_at(self, path: str, attributes: Iterable[str] = ()) -> NodeScan:
        """What lies at one path, whether a group means it or not.

        Args:
            path: Absolute, or below ``/dev``.
            attributes: Files in sysfs that are read for it.
        """
        whole = os.path.normpath(Path(DEV, path))
        escaped = re.sub(r"([*?[])", r"[\1]", whole)
        return self.read(Wanted(globs=(PathGlob(escaped),), attributes=tuple(attributes)))

    def _by_sysfs(self, wanted: Wanted, look: _Look) -> Iterator[str]:
        """Paths of nodes by what sysfs says of them; those that are gone from ``/dev`` too."""
        for folder in ("char", "block"):
            for entry in look.names(self._sys / "dev" / folder):
                way = self._way(folder, entry)
                if way is None or not self._is_meant(way, wanted):
                    continue
                name = _pairs(_text(way / "uevent")).get("DEVNAME", "")
                if name and look.exists(DEV + name):
                    yield DEV + name

    def _is_meant(self, way: Path, wanted: Wanted) -> bool:
        parts = way.parts
        return (
            wanted.everything
            or (wanted.usb and any(re.fullmatch(r"usb\d+", part) for part in parts))
            or (wanted.pci and any(is_pci_address(part) for part in parts))
            or (bool(wanted.subsystems) and link_name(way / "subsystem") in wanted.subsystems)
        )

    def _way(self, folder: str, number: str) -> Path | None:
        """The folder of a device in sysfs; ``None`` when sysfs does not know it."""
        way = Path(os.path.realpath(self._sys / "dev" / folder / number))
        devices = self._sys / "devices"
        return way if way.is_relative_to(devices) and way.is_dir() else None

    def _node(
        self, path: str, status: os.stat_result, links: Iterable[str], wanted: Wanted
    ) -> DevNode:
        block = stat.S_ISBLK(status.st_mode)
        number = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
        node = DevNode(
            path=path,
            type=NodeType.BLOCK if block else NodeType.CHAR,
            major=os.major(status.st_rdev),
            minor=os.minor(status.st_rdev),
            mode=stat.S_IMODE(status.st_mode) & 0o777,
            uid=status.st_uid,
            gid=status.st_gid,
            links=tuple(sorted({*links} - {path})),
            properties=self._properties("b" if block else "c", number),
        )
        way = self._way("block" if block else "char", number)
        if way is None:
            return node
        above = [way, *way.parents][: len(way.relative_to(self._sys / "devices").parts)]
        return attrs.evolve(
            node,
            subsystem=link_name(way / "subsystem"),
            way=way.relative_to(self._sys / "devices").as_posix(),
            part=_part(way),
            usb=_usb(above),
            pci=self._function(above),
            attributes={
                name: values for name in wanted.attributes if (values := _values(above, name))
            },
        )

    def _function(self, above: Iterable[Path]) -> PciFunction | None:
        address = next((folder.name for folder in above if is_pci_address(folder.name)), "")
        return self._pci.function(address) if address else None

    def _properties(self, letter: str, number: str) -> Mapping[str, str]:
        """What udev wrote down: lines such as ``E:ID_PATH=pci-0000:00:14.0-usb-0:2:1.0``."""
        text = _text(self._udev / "data" / f"{letter}{number}", limit=UDEV_LIMIT)
        lines = (line.removeprefix("E:") for line in text.split("\n") if line.startswith("E:"))
        return _pairs("\n".join(lines))


class _Look:
    """What one look found so far.

    Attributes:
        found: Status of each node, by its own path.
        aliases: Other paths by which it was found.
    """

    def __init__(self, dev: str) -> None:
        self._dev = dev
        self._left = ENTRIES_LIMIT
        self.found: dict[str, os.stat_result] = {}
        self.aliases: dict[str, set[str]] = {}
        self.oddities: dict[str, Oddity] = {}
        self.cut = False

    def add(self, path: str) -> None:
        """Look at a path, and at what it leads to."""
        real, status = self._resolved(path)
        if status is None:
            if self.exists(path):
                self.oddities[path] = Oddity(path=path, found="is a link that leads to nothing")
        elif stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode):
            self.found[real] = status
            self.aliases.setdefault(real, set()).add(path)
        else:
            self.oddities[path] = Oddity(path=path, found=f"is {_sort(status.st_mode)}")

    def expanded(self, glob: PathGlob) -> Iterator[str]:
        """Paths that fit a pattern; folders are listed only where a wildcard stands."""
        paths = [""]
        for component in glob.components:
            if has_wildcards(component):
                paths = [
                    f"{path}/{name}"
                    for path in paths
                    for name in sorted(self.names(Path(self._here(path or "/"))))
                    if component_fits(component, name) is not None
                ]
            else:
                plain = component
                paths = [f"{path}/{plain}" for path in paths]
        return (path for path in paths if self.exists(path))

    def exists(self, path: str) -> bool:
        """Whether something lies at a path, be it a link that leads nowhere."""
        return os.path.lexists(self._here(path))

    def names(self, folder: Path) -> Iterator[str]:
        """Names in a folder, until the look has read too many."""
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if self._left <= 0:
                        self.cut = True
                        return
                    self._left -= 1
                    yield entry.name
        except OSError:
            return

    def stable_links(self) -> Mapping[str, list[str]]:
        """Links of ``/dev/*/by-id`` and ``by-path`` to the nodes found, by the node's path."""
        links: dict[str, list[str]] = {}
        for folder in self.names(Path(self._dev)):
            for kind in _LINK_FOLDERS:
                for name in self.names(Path(self._dev, folder, kind)):
                    path = f"{DEV}{folder}/{kind}/{name}"
                    links.setdefault(self._resolved(path)[0], []).append(path)
        return links

    def _resolved(self, path: str) -> tuple[str, os.stat_result | None]:
        """Where a path leads, and what lies there."""
        try:
            real = os.path.realpath(self._here(path), strict=True)
            status = os.lstat(real)
        except OSError:
            return path, None
        inside = os.path.commonpath((real, self._dev)) == self._dev and real != self._dev
        return (DEV + os.path.relpath(real, self._dev) if inside else real), status

    def _here(self, path: str) -> str:
        """A path of the machine as it is reached from here."""
        if path == "/dev":
            return self._dev
        return f"{self._dev}/{path[len(DEV) :]}" if path.startswith(DEV) else path


def _joined(one: DevNode, other: DevNode) -> DevNode:
    """Two nodes of one device as one; the first in order of paths is the node."""
    return attrs.evolve(one, links=tuple(sorted({*one.links, *other.names} - {one.path})))


def _part(way: Path) -> str:
    """Which node of its device it is, as long as the device stays as it is."""
    part = part_of(way.name)
    if "virtual" in way.parts:
        return part
    place = _text(way / "port_number") or _text(way.parent.parent / "port_number")
    if re.fullmatch(r"[0-9]{1,4}", place):
        number = int(place)
    else:
        alike = {name for name in names(way.parent) if part_of(name) == part} | {way.name}
        number = sorted(alike, key=_natural).index(way.name)
    return f"{part}.{number}" if number else part


def _natural(name: str) -> list[tuple[int, str]]:
    """Order in which ``tty2`` comes before ``tty10``."""
    pieces = re.findall(r"\d+|\D+", name)
    return [(int(piece), "") if piece.isdecimal() else (-1, piece) for piece in pieces]


def _usb(above: list[Path]) -> UsbDevice | None:
    interface = ""
    for folder in above:
        interface = interface or _text(folder / "bInterfaceNumber")
        if vendor := _text(folder / "idVendor"):
            return UsbDevice(
                vendor=vendor.lower(),
                product=_text(folder / "idProduct").lower(),
                serial=_text(folder / "serial"),
                name=_text(folder / "product"),
                interface=interface,
                place=_place([each.name for each in above]),
            )
    return None


def _place(names: list[str]) -> str:
    """Where a USB device is plugged in: the host's place, ports and interface.

    The number of the USB bus is left out, since it depends on who was first at boot.
    """
    buses = [number for number, name in enumerate(names) if re.fullmatch(r"usb\d+", name)]
    if not buses or not buses[0]:
        return ""
    ports = next(
        (name.partition("-")[2] for name in names[: buses[0]] if re.fullmatch(r"\d+-.+", name)), ""
    )
    host = names[buses[0] + 1] if buses[0] + 1 < len(names) else ""
    return f"{'pci' if is_pci_address(host) else 'platform'}-{host}-usb-0:{ports}"


def _values(above: Iterable[Path], name: str) -> tuple[str, ...]:
    return tuple(text for folder in above if (text := _text(folder / name)))


def _sort(mode: int) -> str:
    kinds = {
        stat.S_IFIFO: "a FIFO",
        stat.S_IFSOCK: "a socket",
        stat.S_IFDIR: "a folder",
        stat.S_IFREG: "a regular file",
    }
    return kinds.get(stat.S_IFMT(mode), "no device node")


def _pairs(text: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in text.split("\n"))
    return {name: value for name, mark, value in pairs if mark}


def _text(path: Path, limit: int = TEXT_LIMIT) -> str:
    """The text of a small file; empty for what is no regular file or cannot be read."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return ""
        return os.read(handle, limit).decode(errors="replace").strip()
    except OSError:
        return ""
    finally:
        os.close(handle)
