"""Links ``/dev/char/<major>:<minor>`` to device nodes of which sysfs, and so udev, knows nothing.

A container's device rules name nodes by their numbers, and systemd, which builds those rules anew
when it is reloaded, finds a number's node by that link alone: without it the container loses the
device. NVIDIA's control nodes and those of its GPUs have no entry in sysfs, so nobody makes theirs.

Everything here blocks, briefly: some stats of files.

Source: gpu-and-health.md §3.3; systemd ``src/core/bpf-devices.c`` and runc's
``libcontainer/cgroups/systemd`` for how rules name nodes.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from berth.errors import HostError
from berth.model.edits import DeviceNode, NodeType

FOLDER: Final = "/dev/char"


class CharLinks:
    """Makes the links of one machine.

    Args:
        root: Where its file system is; tests give a tree.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def make(self, nodes: Iterable[DeviceNode]) -> tuple[HostError, ...]:
        """See to it that each node has its link.

        A right link is left alone, a wrong one is replaced. A node that the host lacks, or that has
        other numbers there, gets none: the next call may find it.

        Returns:
            Why links are not made; each reason once.
        """
        faults: dict[str, HostError] = {}
        for node in dict.fromkeys(nodes):
            if node.type is not NodeType.CHAR or not self._is_node(self._at(node.host_path), node):
                continue
            try:
                self._link(node)
            except OSError as error:
                faults.setdefault(_reason(error), _fault(error, node))
        return tuple(faults.values())

    def _link(self, node: DeviceNode) -> None:
        """Make one link.

        Raises:
            OSError: The system refused, or something else than a link lies there.
        """
        path = self._at(FOLDER) / f"{node.major}:{node.minor}"
        if self._is_node(path, node):
            return
        if os.path.lexists(path) and not path.is_symlink():
            # Whose it is nobody knows, so it stays.
            raise FileExistsError(0, "something that is no link lies there")
        path.parent.mkdir(mode=0o755, exist_ok=True)
        # Renamed over what is there: at no moment is there no link.
        temporary = path.with_name(f".berth-{secrets.token_hex(8)}")
        temporary.symlink_to(os.path.relpath(node.host_path, FOLDER))
        try:
            temporary.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise

    def _is_node(self, path: Path, node: DeviceNode) -> bool:
        """Whether a path leads to the node of these numbers."""
        try:
            found = path.stat()
        except OSError:
            return False
        numbers = (os.major(found.st_rdev), os.minor(found.st_rdev))
        return stat.S_ISCHR(found.st_mode) and numbers == (node.major, node.minor)

    def _at(self, path: str) -> Path:
        return self._root / path.lstrip("/")


def _fault(error: OSError, node: DeviceNode) -> HostError:
    return HostError(
        f"{FOLDER}/{node.major}:{node.minor}",
        f"no link to {node.host_path} can be made: {_reason(error)}",
        rule="containers lose that device when systemd is reloaded",
        mend=f"make {FOLDER} writable for berthd, or have another program make the links and write "
        "[gpu] dev_char_links = false",
        errno=error.errno or 0,
    )


def _reason(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else error.strerror or str(error)
