"""Container edits: what a container gets of a device that is not moved into it.

A runtime applies them from a CDI file, kubelet from the answer of a device plugin; both are made
from these values, which know neither form.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum

import attrs


class NodeType(Enum):
    """Kinds of device node; FIFOs are never handed out."""

    CHAR = "c"
    BLOCK = "b"


@attrs.frozen(kw_only=True)
class DeviceNode:
    """A device node in the container.

    Its numbers are given too: with them a runtime does not look at the host's node, so that one
    which vanished meanwhile cannot fail the container (GH §3.3).

    Attributes:
        path: Where the container finds it.
        host_path: The node on the host.
        link: A path on the host that leads to this device in other boots too, whichever number it
            has there; empty where there is none.
        permissions: Subset of ``rwm``, in this order: read, write, make the node.
        file_mode: Permission bits of the host's node, such as ``0o660``.
        uid: Owner of the host's node.
        gid: Group of the host's node.
    """

    path: str
    host_path: str
    type: NodeType
    major: int
    minor: int
    permissions: str = "rw"
    file_mode: int = 0o660
    uid: int = 0
    gid: int = 0
    link: str = ""


@attrs.frozen(kw_only=True)
class Mount:
    """A bind mount of a host file into the container.

    Attributes:
        options: Mount options as runc takes them, such as ``ro`` and ``bind``.
    """

    host_path: str
    container_path: str
    options: tuple[str, ...]


@attrs.frozen(kw_only=True)
class Hook:
    """A program of the host that the runtime runs while it makes the container.

    Only a CDI file can carry one; a device plugin's answer cannot.

    Attributes:
        name: When it is run, such as ``createContainer``.
        path: Of the program on the host.
        args: The first is the program's own name.
        env: ``NAME=value``.
    """

    name: str
    path: str
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Edits:
    """All that one device adds to its containers.

    Attributes:
        env: ``NAME=value``; a later device's value of the same name replaces an earlier one's.
        hooks: Run in this order.
        gids: Groups that the container's user is put into.
    """

    env: tuple[str, ...] = ()
    nodes: tuple[DeviceNode, ...] = ()
    mounts: tuple[Mount, ...] = ()
    hooks: tuple[Hook, ...] = ()
    gids: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        """Whether anything is added."""
        return bool(self.env or self.nodes or self.mounts or self.hooks or self.gids)


def joined(edits: Iterable[Edits]) -> Edits:
    """The edits of several devices as one, each entry once, in their order."""
    every = tuple(edits)
    return Edits(
        env=tuple(dict.fromkeys(entry for one in every for entry in one.env)),
        nodes=tuple(dict.fromkeys(node for one in every for node in one.nodes)),
        mounts=tuple(dict.fromkeys(mount for one in every for mount in one.mounts)),
        hooks=tuple(dict.fromkeys(hook for one in every for hook in one.hooks)),
        gids=tuple(dict.fromkeys(gid for one in every for gid in one.gids)),
    )


def clash(edits: Iterable[Edits]) -> str:
    """A path at which a container would get two things, of one device or of several; empty if none.

    Runtimes do not tell: the later one counts, or the container is not made.
    """
    there: dict[str, object] = {}
    for path, thing in (pair for one in edits for pair in _places(one)):
        if there.setdefault(path, thing) != thing:
            return path
    return ""


def _places(one: Edits) -> Iterator[tuple[str, object]]:
    yield from ((node.path, (node.type, node.major, node.minor)) for node in one.nodes)
    yield from ((mount.container_path, mount.host_path) for mount in one.mounts)
