"""The device nodes that programs reach a NIC by besides its link: RDMA verbs, vhost, tun and VFIO.

Which nodes an RDMA device has is sysfs' word, what lies at their paths is the file system's; a node
counts only where both agree. None is ever opened. Blocks; for worker threads.

Source: Linux ``Documentation/ABI/stable/sysfs-class-infiniband`` (``ibdev``, ``port``, ``dev`` of
``uverbsN``, ``umadN`` and ``issmN``); ``include/linux/miscdevice.h`` for vhost-net and tun;
``Documentation/driver-api/vfio.rst``.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import attrs

from berth.host.sysfiles import names, text
from berth.model.edits import DeviceNode, NodeType

RDMA_CM: Final = "/dev/infiniband/rdma_cm"
VHOST_NET: Final = "/dev/vhost-net"
TUN: Final = "/dev/net/tun"
IOMMUFD: Final = "/dev/iommu"

_CLASSES: Final = ("infiniband_verbs", "infiniband_mad")
_NAMES: Final = ("uverbs", "umad", "issm")
# An umad always comes with the issm of the same port.


@attrs.frozen(kw_only=True)
class NicNodes:
    """What there is.

    Attributes:
        rdma: Paths of each RDMA device's nodes, by its name; that of the connection manager, which
            all share, is in none.
        vfio: Names as VFIO devices, such as ``vfio0``, by PCI address; of kernels that make nodes
            for them.
        known: Nodes by their path; a path that is named and not here is no node now.
    """

    rdma: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)
    vfio: Mapping[str, str] = attrs.field(factory=dict)
    known: Mapping[str, DeviceNode] = attrs.field(factory=dict)


class NicNodeReader:
    """Reads the nodes of one machine.

    Args:
        sys: Where sysfs is mounted.
        dev: What lies at ``/dev``; tests give a folder.
    """

    def __init__(self, sys: Path = Path("/sys"), dev: Path = Path("/dev")) -> None:
        self._sys = sys
        self._dev = dev

    def read(self, devices: Iterable[str], *, vfio: Collection[str] = ()) -> NicNodes:
        """The nodes of these RDMA devices, and those that any NIC may be given with.

        Args:
            vfio: Addresses of the functions that vfio-pci has: with any, what is below
                ``/dev/vfio``, and the node of iommufd, too.
        """
        wanted = frozenset(devices)
        found: dict[str, list[str]] = {name: [] for name in sorted(wanted)}
        for device, path in self._rdma_nodes() if wanted else ():
            if device in wanted:
                found[device].append(path)
        rdma = {name: tuple(sorted(paths, key=_order)) for name, paths in found.items()}
        paths = [*(path for each in rdma.values() for path in each), VHOST_NET, TUN]
        paths += [RDMA_CM] if wanted else []
        paths += self._vfio_nodes() if vfio else []
        known = (self._node(path) for path in paths)
        return NicNodes(
            rdma=rdma,
            vfio={address: name for address in vfio if (name := self._vfio_name(address))},
            known={node.path: node for node in known if node is not None},
        )

    def _vfio_nodes(self) -> Iterator[str]:
        yield IOMMUFD
        for folder in ("vfio", "vfio/devices"):
            for name in sorted(names(self._dev / folder)):
                yield f"/dev/{folder}/{name}"

    def _vfio_name(self, address: str) -> str:
        return min(names(self._sys / "bus/pci/devices" / address / "vfio-dev"), default="")

    def _rdma_nodes(self) -> Iterator[tuple[str, str]]:
        """RDMA device and path of each node that sysfs tells of."""
        for name in _CLASSES:
            folder = self._sys / "class" / name
            for entry in sorted(names(folder)):
                device = text(folder / entry / "ibdev")
                if device and entry.rstrip("0123456789") in _NAMES:
                    yield device, f"/dev/infiniband/{entry}"

    def _node(self, path: str) -> DeviceNode | None:
        try:
            found = os.lstat(self._dev / path.removeprefix("/dev/"))
        except OSError:
            return None
        if not stat.S_ISCHR(found.st_mode):
            return None
        return DeviceNode(
            path=path,
            host_path=path,
            type=NodeType.CHAR,
            major=os.major(found.st_rdev),
            minor=os.minor(found.st_rdev),
            file_mode=stat.S_IMODE(found.st_mode),
            uid=found.st_uid,
            gid=found.st_gid,
        )


def _order(path: str) -> tuple[int, str]:
    name = path.rpartition("/")[2].rstrip("0123456789")
    return _NAMES.index(name), path
