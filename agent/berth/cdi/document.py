"""CDI files as values and as JSON.

CDI files may be JSON, so no YAML is written. The lowest version that holds the contents is
declared, because a runtime built with an older library refuses a newer one.

Source: CDI SPEC.md and ``specs-go/version.go`` 1.1.0 (which content needs which version).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import attrs

from berth.errors import LocalProtocolError


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
class CdiDevice:
    """One device of a file: what a container gets that asks for it.

    Attributes:
        env: ``NAME=value``; a later device's value of the same name replaces an earlier one's.
    """

    name: str
    env: tuple[str, ...] = ()
    mounts: tuple[Mount, ...] = ()


def qualified(kind: str, device: str) -> str:
    """The name by which kubelet asks the runtime for ``device`` of ``kind``."""
    return f"{kind}={device}"


def render(kind: str, devices: Sequence[CdiDevice]) -> bytes:
    """The file that offers ``devices`` under ``kind`` (``vendor/class``).

    Raises:
        LocalProtocolError: No device, a device without edits, or a name twice: a runtime would
            refuse the file as a whole.
    """
    if not devices:
        raise LocalProtocolError(f"CDI file of {kind}", "holds no device")
    names = [device.name for device in devices]
    for device in devices:
        if not (device.env or device.mounts):
            raise LocalProtocolError(f"CDI device {device.name}", "has no edits")
        if names.count(device.name) > 1:
            raise LocalProtocolError(f"CDI device {device.name}", "stands twice in one file")
    document = {
        "cdiVersion": _version(devices),
        "kind": kind,
        "devices": [_device(device) for device in devices],
    }
    return json.dumps(document, ensure_ascii=False).encode() + b"\n"


def environment_of(content: bytes) -> tuple[str, ...]:
    """The environment entries of a file of ours, each once; none of what is no such file."""
    try:
        document = json.loads(content)
        entries = [e for d in document["devices"] for e in d["containerEdits"].get("env", ())]
    except (ValueError, KeyError, TypeError, AttributeError):
        return ()
    return tuple(dict.fromkeys(entry for entry in entries if isinstance(entry, str)))


def _version(devices: Sequence[CdiDevice]) -> str:
    digit_first = any(device.name[0].isdigit() for device in devices)
    return "0.5.0" if digit_first else "0.3.0"


def _device(device: CdiDevice) -> dict[str, Any]:
    edits: dict[str, Any] = {}
    if device.env:
        edits["env"] = list(device.env)
    if device.mounts:
        edits["mounts"] = [
            {
                "hostPath": mount.host_path,
                "containerPath": mount.container_path,
                "options": list(mount.options),
            }
            for mount in device.mounts
        ]
    return {"name": device.name, "containerEdits": edits}
