"""CDI files as values and as JSON.

CDI files may be JSON, so no YAML is written. The lowest version that holds the contents is
declared, because a runtime built with an older library refuses a newer one: a device name that
begins with a digit and a ``hostPath`` of a node need 0.5.0, a class with a dot 0.6.0, groups of
the user 0.7.0. So a node with the same path on the host and in the container is written without
``hostPath``, which means the same.

Owner and mode of a node are always written: without a ``uid`` the runtime gives the node to the
user of the container.

Source: CDI SPEC.md, ``specs-go/version.go`` and ``pkg/cdi/container-edits.go`` 1.1.0.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import attrs

from berth.errors import LocalProtocolError
from berth.model.edits import DeviceNode, Edits, Hook, Mount


@attrs.frozen(kw_only=True)
class CdiDevice:
    """One device of a file: what a container gets that asks for it."""

    name: str
    edits: Edits = Edits()


def qualified(kind: str, device: str) -> str:
    """The name by which kubelet asks the runtime for ``device`` of ``kind``."""
    return f"{kind}={device}"


def render(kind: str, devices: Sequence[CdiDevice], common: Edits = Edits()) -> bytes:
    """The file that offers ``devices`` under ``kind`` (``vendor/class``).

    Args:
        common: What a container gets once that asks for any device of the file.

    Raises:
        LocalProtocolError: No device, a device without edits, or a name twice: a runtime would
            refuse the file as a whole.
    """
    if not devices:
        raise LocalProtocolError(f"CDI file of {kind}", "holds no device")
    names = [device.name for device in devices]
    for device in devices:
        if not device.edits:
            raise LocalProtocolError(f"CDI device {device.name}", "has no edits")
        if names.count(device.name) > 1:
            raise LocalProtocolError(f"CDI device {device.name}", "stands twice in one file")
    document: dict[str, Any] = {
        "cdiVersion": _version(kind, devices, common),
        "kind": kind,
        "devices": [
            {"name": device.name, "containerEdits": edits_json(device.edits)} for device in devices
        ],
    }
    if common:
        document["containerEdits"] = edits_json(common)
    return json.dumps(document, ensure_ascii=False).encode() + b"\n"


def edits_json(edits: Edits) -> dict[str, Any]:
    """The ``containerEdits`` of a file or a device, without what is empty."""
    members = {
        "env": list(edits.env),
        "deviceNodes": [_node(node) for node in edits.nodes],
        "mounts": [_mount(mount) for mount in edits.mounts],
        "hooks": [_hook(hook) for hook in edits.hooks],
        "additionalGids": list(edits.gids),
    }
    return {name: entries for name, entries in members.items() if entries}


def environment_of(content: bytes) -> tuple[str, ...]:
    """The environment entries of a file of ours, each once; none of what is no such file."""
    try:
        document = json.loads(content)
        entries = [e for d in document["devices"] for e in d["containerEdits"].get("env", ())]
    except (ValueError, KeyError, TypeError, AttributeError):
        return ()
    return tuple(dict.fromkeys(entry for entry in entries if isinstance(entry, str)))


def _version(kind: str, devices: Sequence[CdiDevice], common: Edits) -> str:
    every = (common, *(device.edits for device in devices))
    if any(edits.gids for edits in every):
        return "0.7.0"
    if "." in kind.partition("/")[2]:
        return "0.6.0"
    digit_first = any(device.name[0].isdigit() for device in devices)
    elsewhere = any(node.host_path != node.path for edits in every for node in edits.nodes)
    return "0.5.0" if digit_first or elsewhere else "0.3.0"


def _node(node: DeviceNode) -> dict[str, Any]:
    host_path = {"hostPath": node.host_path} if node.host_path != node.path else {}
    return {
        "path": node.path,
        **host_path,
        "type": node.type.value,
        "major": node.major,
        "minor": node.minor,
        "permissions": node.permissions,
        "fileMode": node.file_mode,
        "uid": node.uid,
        "gid": node.gid,
    }


def _mount(mount: Mount) -> dict[str, Any]:
    return {
        "hostPath": mount.host_path,
        "containerPath": mount.container_path,
        "options": list(mount.options),
    }


def _hook(hook: Hook) -> dict[str, Any]:
    lists = {"args": list(hook.args), "env": list(hook.env)}
    given = {name: entries for name, entries in lists.items() if entries}
    return {"hookName": hook.name, "path": hook.path, **given}
