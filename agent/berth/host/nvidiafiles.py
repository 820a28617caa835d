"""What the machine has of the NVIDIA driver beside NVML: nodes, numbers, libraries, sockets.

All is read anew for each use: major numbers of ``nvidia-uvm`` and ``nvidia-caps`` and the minor
numbers of MIG capabilities change over reboots and loads of the module. Nothing is opened but plain
files; what cannot be read is left out.

Everything here blocks, briefly: a few folders and files.

Source: GH §3.3; NVIDIA driver 580 (``/proc/driver/nvidia``), Linux ``Documentation/ABI`` (vfio).
"""

from __future__ import annotations

import os
import platform
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import attrs

from berth.host.scan import read_boot_id
from berth.host.sysfiles import names
from berth.model.edits import NodeType

SIZE_LIMIT: Final = 1024 * 1024
"""Most that is read of one file, in bytes."""

LINKS_LIMIT: Final = 40
"""Most symbolic links that are followed one after the other; the kernel follows as many."""

_PREFETCHABLE: Final = 0x2000
# IORESOURCE_PREFETCH, linux/ioport.h

_EXTRAS: Final = (
    "/usr/bin/nvidia-smi",
    "/run/nvidia-persistenced/socket",
    "/run/nvidia-fabricmanager/socket",
)
_NODES: Final = (
    "dev/nvidia[0-9]*",
    "dev/nvidiactl",
    "dev/nvidia-*",
    "dev/nvidia-caps/*",
    "dev/dri/*",
    "dev/vfio/*",
    "dev/vfio/devices/*",
    "dev/iommu",
)


@attrs.frozen(kw_only=True)
class HostNode:
    """A device node of the host.

    Attributes:
        mode: Permission bits.
    """

    path: str
    type: NodeType
    major: int
    minor: int
    mode: int = 0o660
    uid: int = 0
    gid: int = 0


@attrs.frozen(kw_only=True)
class Library:
    """A library of the driver.

    Attributes:
        path: The file.
        names: Its own name, and those of the links beside it that lead to it.
    """

    path: str
    names: tuple[str, ...]


@attrs.frozen(kw_only=True)
class FunctionFiles:
    """What belongs to one PCI function.

    Attributes:
        bar_bytes: Its largest prefetchable region.
        vfio: Its name as a VFIO device, such as ``vfio0``; empty when it has none.
        drm: Its nodes for graphics.
    """

    bar_bytes: int = 0
    vfio: str = ""
    drm: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class NodeFacts:
    """The files of one moment.

    Attributes:
        module: Version of the loaded module; empty when none is loaded.
        majors: Of character devices, by their names in ``/proc/devices``.
        nodes: By path.
        capabilities: Minor numbers of MIG capabilities, by names such as ``gpu0/gi3/ci0/access``
            and ``monitor``.
        multiarch: Such as ``x86_64-linux-gnu``.
        extras: Programs and sockets that are there, of those that containers get.
        functions: By PCI address.
    """

    boot_id: str = ""
    module: str = ""
    majors: Mapping[str, int] = attrs.field(factory=dict)
    nodes: Mapping[str, HostNode] = attrs.field(factory=dict)
    capabilities: Mapping[str, int] = attrs.field(factory=dict)
    libraries: tuple[Library, ...] = ()
    multiarch: str = ""
    extras: tuple[str, ...] = ()
    functions: Mapping[str, FunctionFiles] = attrs.field(factory=dict)


class NvidiaFiles:
    """Reads the files of one machine.

    Args:
        root: Where its file system is; tests give a tree.
        status: Gives the status of a file, links followed.
        machine: Name of the processor's architecture.
    """

    def __init__(
        self,
        root: Path = Path("/"),
        *,
        status: Callable[[Path], os.stat_result] = os.stat,
        machine: str = "",
    ) -> None:
        self._root = root
        self._status = status
        self._multiarch = f"{machine or platform.machine()}-linux-gnu"

    def read(self, *, version: str, addresses: Iterable[str] = ()) -> NodeFacts:
        """Look at all files.

        Args:
            version: The driver's, as NVML writes it; empty when unknown: no library is told.
            addresses: PCI functions whose files are wanted.
        """
        return NodeFacts(
            boot_id=read_boot_id(self._root / "proc/sys/kernel/random/boot_id"),
            module=self._text("sys/module/nvidia/version").strip(),
            majors=self._majors(),
            nodes={node.path: node for node in self._nodes()},
            capabilities=self._capabilities(),
            libraries=tuple(self._libraries(version)) if version else (),
            multiarch=self._multiarch,
            extras=tuple(path for path in _EXTRAS if self._exists(path)),
            functions={address: self._function(address) for address in addresses},
        )

    def existing(self, paths: Iterable[str]) -> frozenset[str]:
        """Those of the paths where something is."""
        return frozenset(path for path in paths if self._exists(path))

    def node(self, path: str) -> HostNode | None:
        """The device node at a path; ``None`` where there is none."""
        try:
            found = self._status(self._root / path.lstrip("/"))
        except OSError:
            return None
        kinds = {stat.S_IFCHR: NodeType.CHAR, stat.S_IFBLK: NodeType.BLOCK}
        kind = kinds.get(stat.S_IFMT(found.st_mode))
        if kind is None:
            return None
        return HostNode(
            path=path,
            type=kind,
            major=os.major(found.st_rdev),
            minor=os.minor(found.st_rdev),
            mode=stat.S_IMODE(found.st_mode),
            uid=found.st_uid,
            gid=found.st_gid,
        )

    def _nodes(self) -> Iterator[HostNode]:
        for pattern in _NODES:
            for path in sorted(self._root.glob(pattern)):
                node = self.node(f"/{path.relative_to(self._root)}")
                if node is not None:
                    yield node

    def _majors(self) -> dict[str, int]:
        """Of ``/proc/devices``, the part about character devices."""
        part = self._text("proc/devices").partition("Block devices")[0]
        found = re.findall(r"(?m)^\s*(\d{1,6}) (\S+)$", part)
        return {name: int(number) for number, name in found}

    def _capabilities(self) -> dict[str, int]:
        """By the list of all that may be, and then by those that are."""
        listed = self._text("proc/driver/nvidia-caps/mig-minors")
        minors = {
            name: int(number) for name, number in re.findall(r"(?m)^(\S+) (\d{1,9})$", listed)
        }
        top = self._root / "proc/driver/nvidia/capabilities"
        for pattern in ("gpu*/mig/gi*/access", "gpu*/mig/gi*/ci*/access", "mig/monitor"):
            for path in top.glob(pattern):
                below = path.relative_to(top)
                minor = re.search(r"DeviceFileMinor: *(\d{1,9})", self._text(path))
                if minor is not None:
                    minors["/".join(part for part in below.parts if part != "mig")] = int(minor[1])
        return minors

    def _libraries(self, version: str) -> Iterator[Library]:
        """The libraries of this version in the folder where ``libcuda.so.1`` leads to."""
        folder = next(filter(None, map(self._cuda_folder, self._folders())), None)
        if folder is None:
            return
        ending = f".so.{version}"
        links: dict[str, list[str]] = {}
        files = []
        for path in sorted(folder.glob("lib*.so*")):
            if not path.is_symlink():
                files.append(path)
                continue
            target = self._resolved(path)
            if target is not None and target.parent == folder:
                links.setdefault(target.name, []).append(path.name)
        for path in files:
            if path.name.endswith(ending) and path.is_file():
                names = (path.name, *links.get(path.name, ()))
                yield Library(path=self._told(path), names=names)

    def _folders(self) -> tuple[str, ...]:
        return (f"usr/lib/{self._multiarch}", "usr/lib64", "usr/lib", "usr/local/nvidia/lib64")

    def _cuda_folder(self, folder: str) -> Path | None:
        file = self._resolved(self._root / folder / "libcuda.so.1")
        return file.parent if file is not None and file.is_file() else None

    def _resolved(self, path: Path) -> Path | None:
        """Where a path leads, links that begin at ``/`` beginning at our root."""
        for _ in range(LINKS_LIMIT):
            try:
                target = path.readlink()
            except OSError:
                return path if path.exists() else None
            start = self._root if target.is_absolute() else path.parent
            path = Path(os.path.normpath(start / str(target).lstrip("/")))
        return None

    def _function(self, address: str) -> FunctionFiles:
        folder = self._root / "sys/bus/pci/devices" / address
        return FunctionFiles(
            bar_bytes=_largest_region(self._text(folder / "resource")),
            vfio=next(iter(sorted(names(folder / "vfio-dev"))), ""),
            drm=tuple(
                f"/dev/dri/{name}"
                for name in sorted(names(folder / "drm"))
                if re.fullmatch(r"(card|render[D])\d+", name)
            ),
        )

    def _told(self, path: Path) -> str:
        return f"/{path.relative_to(self._root)}"

    def _exists(self, path: str) -> bool:
        return self._resolved(self._root / path.lstrip("/")) is not None

    def _text(self, path: str | Path) -> str:
        try:
            with (self._root / path).open("rb") as file:
                return file.read(SIZE_LIMIT).decode(errors="replace")
        except OSError:
            return ""


def _largest_region(text: str) -> int:
    """Size of the largest prefetchable region; lines are start, end and flags in hex."""
    largest = 0
    for line in text.splitlines():
        try:
            start, end, flags = (int(word, 16) for word in line.split())
        except ValueError:
            continue
        if flags & _PREFETCHABLE and end > start:
            largest = max(largest, end - start + 1)
    return largest
