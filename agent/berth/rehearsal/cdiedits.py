"""Container edits of CDI files, by the rules of the library that runtimes read them with.

A file is checked whole when it is read; what a node leaves out is looked up on the host when a
container is made, so that a node that is gone fails its own container alone. Nodes, hooks and
groups are values here: no hook is run, and no node is made.

Source: CDI ``pkg/cdi/{container-edits,container-edits_unix}.go`` and ``specs-go/version.go`` 1.1.0.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from berth.errors import RemoteProtocolError
from berth.model.edits import DeviceNode, Edits, Hook, Mount, NodeType

_MEMBERS: Final = frozenset({"env", "deviceNodes", "mounts", "hooks", "additionalGids"})
"""What is carried out; a container that needs more is refused rather than made without it."""

_SHAPES: Final[Mapping[str, Mapping[str, type]]] = {
    "deviceNodes": {
        "path": str,
        "hostPath": str,
        "type": str,
        "major": int,
        "minor": int,
        "fileMode": int,
        "permissions": str,
        "uid": int,
        "gid": int,
    },
    "mounts": {"hostPath": str, "containerPath": str, "options": list, "type": str},
    "hooks": {"hookName": str, "path": str, "args": list, "env": list, "timeout": int},
}
_TYPES: Final[Mapping[str, NodeType]] = {
    "b": NodeType.BLOCK,
    "c": NodeType.CHAR,
    "u": NodeType.CHAR,
}
_HOOKS: Final = frozenset(
    {"prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"}
)
_ALL: Final = "rwm"
"""Permissions where none are given."""

_FILE_MODE: Final = 0o666
"""Mode of a node where none is given; runc's own default."""


def faults_of(value: Mapping[str, Any]) -> Iterator[str]:
    """What a runtime would refuse the file for."""
    unknown = sorted(value.keys() - _MEMBERS)
    if unknown:
        yield f"has edits that a rehearsal does not carry out: {', '.join(unknown)}"
    yield from _bad_env(value.get("env") or ())
    for name, shape in _SHAPES.items():
        for entry in value.get(name) or ():
            misshapen = list(_misshapen(entry, shape, name))
            yield from misshapen or _CHECKS[name](entry)
    for gid in value.get("additionalGids") or ():
        if not _is_number(gid):
            yield f"has the group {gid!r}"


def least_version(value: Mapping[str, Any]) -> str:
    """The lowest version of CDI that has all of these edits."""
    if value.get("additionalGids"):
        return "0.7.0"
    if any(node.get("hostPath") for node in value.get("deviceNodes") or ()):
        return "0.5.0"
    if any(mount.get("type") for mount in value.get("mounts") or ()):
        return "0.4.0"
    return "0.3.0"


def edits_of(value: Mapping[str, Any]) -> Edits:
    """The edits as a container gets them; nodes are looked up on the host. Blocks.

    Raises:
        RemoteProtocolError: A node is not on the host, or is of another type there.
    """
    return Edits(
        env=tuple(value.get("env") or ()),
        nodes=tuple(map(_node, value.get("deviceNodes") or ())),
        mounts=tuple(
            Mount(
                host_path=mount["hostPath"],
                container_path=mount["containerPath"],
                options=tuple(mount.get("options") or ()),
            )
            for mount in value.get("mounts") or ()
        ),
        hooks=tuple(
            Hook(
                name=hook["hookName"],
                path=hook["path"],
                args=tuple(hook.get("args") or ()),
                env=tuple(hook.get("env") or ()),
            )
            for hook in value.get("hooks") or ()
        ),
        # The group of root is left out silently.
        gids=tuple(gid for gid in value.get("additionalGids") or () if gid),
    )


def applied(every: Iterable[Edits]) -> Edits:
    """Edits one after the other: of two nodes at one path the later stays, as with variables."""
    edits = tuple(every)
    env = {entry.partition("=")[0]: entry for one in edits for entry in one.env}
    nodes = {node.path: node for one in edits for node in one.nodes}
    return Edits(
        env=tuple(env.values()),
        nodes=tuple(nodes.values()),
        mounts=tuple(mount for one in edits for mount in one.mounts),
        hooks=tuple(hook for one in edits for hook in one.hooks),
        gids=tuple(dict.fromkeys(gid for one in edits for gid in one.gids)),
    )


def node_of_host(path: str, host_path: str, permissions: str = _ALL) -> DeviceNode:
    """A node as the host has it, links followed. Blocks.

    Raises:
        RemoteProtocolError: There is none.
    """
    try:
        seen = Path(host_path).stat()
    except OSError as error:
        raise RemoteProtocolError(host_path, f"lstat {host_path}: {error.strerror}") from error
    kinds = {stat.S_IFCHR: NodeType.CHAR, stat.S_IFBLK: NodeType.BLOCK}
    kind = kinds.get(stat.S_IFMT(seen.st_mode))
    if kind is None:
        raise RemoteProtocolError(host_path, "not a device node")
    return DeviceNode(
        path=path,
        host_path=host_path,
        type=kind,
        major=os.major(seen.st_rdev),
        minor=os.minor(seen.st_rdev),
        permissions=permissions,
        file_mode=stat.S_IMODE(seen.st_mode),
        uid=seen.st_uid,
        gid=seen.st_gid,
    )


def _node(value: Mapping[str, Any]) -> DeviceNode:
    """One node; the host is asked only for what is left out, as the library does."""
    path = value["path"]
    host_path = value.get("hostPath") or path
    kind, major = value.get("type", ""), value.get("major", 0)
    permissions = value.get("permissions") or _ALL
    if kind and major:
        return DeviceNode(
            path=path,
            host_path=host_path,
            type=_TYPES[kind],
            major=major,
            minor=value.get("minor", 0),
            permissions=permissions,
            file_mode=value.get("fileMode", _FILE_MODE),
            uid=value.get("uid", 0),
            gid=value.get("gid", 0),
        )
    found = node_of_host(path, host_path, permissions)
    if kind and _TYPES[kind] is not found.type:
        raise RemoteProtocolError(
            f"CDI device ({path!r}, {host_path!r})",
            f"host type mismatch ({kind}, {found.type.value})",
        )
    return found


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _misshapen(entry: Any, shape: Mapping[str, type], name: str) -> Iterator[str]:
    """What keeps an entry from being read at all."""
    if not isinstance(entry, Mapping):
        yield f"has an entry of {name} that is no object"
        return
    unknown = sorted(entry.keys() - shape.keys())
    if unknown:
        yield f"has members in {name} that CDI does not know: {', '.join(unknown)}"
    for member, kind in shape.items():
        given = entry.get(member)
        good = _is_number(given) if kind is int else isinstance(given, kind)
        if given is not None and not good:
            yield f"has {member} {given!r} in {name}"


def _bad_env(entries: Iterable[Any]) -> Iterator[str]:
    for entry in entries:
        if not isinstance(entry, str) or entry.find("=") < 1:
            yield f"has an invalid environment variable {entry!r}"


def _bad_node(node: Mapping[str, Any]) -> Iterator[str]:
    path = node.get("path", "")
    if not path:
        yield "has an invalid (empty) device path"
    kind = node.get("type", "")
    if kind == "p":
        yield f"has the FIFO {path}, which a rehearsal does not carry out"
    elif kind and kind not in _TYPES:
        yield f"has a device {path} of the invalid type {kind!r}"
    permissions = node.get("permissions", "")
    if not set(permissions) <= set(_ALL):
        yield f"has a device {path} with the invalid permissions {permissions!r}"


def _bad_mount(mount: Mapping[str, Any]) -> Iterator[str]:
    for member in ("hostPath", "containerPath"):
        if not mount.get(member):
            yield f"has an invalid mount, its {member} is empty"


def _bad_hook(hook: Mapping[str, Any]) -> Iterator[str]:
    name = hook.get("hookName", "")
    if name not in _HOOKS:
        yield f"has a hook of the invalid name {name!r}"
    if not hook.get("path"):
        yield f"has a hook {name!r} of an empty path"
    yield from _bad_env(hook.get("env") or ())


_CHECKS: Final[Mapping[str, Callable[[Mapping[str, Any]], Iterator[str]]]] = {
    "deviceNodes": _bad_node,
    "mounts": _bad_mount,
    "hooks": _bad_hook,
}
