"""CDI files as a container runtime reads them: names to edits, or the runtime's own refusal.

Only what our files hold is carried out (``env``, ``mounts``); other edits are counted as unknown,
and a container that needs them is refused rather than made without them.

Source: CDI SPEC.md; ``pkg/cdi/{cache,registry}.go`` 1.1.0; containerd ``pkg/cdi/oci_opt.go``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from berth.errors import RemoteProtocolError

FOLDERS: Final = (Path("/etc/cdi"), Path("/var/run/cdi"))
"""Where runtimes look; a later folder's device wins over an earlier one's of the same name."""

_VERSIONS: Final = ("0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0")
_KIND: Final = re.compile(r"[A-Za-z]([\w.-]*[A-Za-z0-9])?/[A-Za-z]([\w.-]*[A-Za-z0-9])?")
_DEVICE: Final = re.compile(r"[A-Za-z0-9]([\w.:-]*[A-Za-z0-9])?")
_TOP: Final = frozenset({"cdiVersion", "kind", "annotations", "devices", "containerEdits"})
_CARRIED_OUT: Final = frozenset({"env", "mounts"})


@attrs.frozen(kw_only=True)
class BindMount:
    """A file or folder of the host that a container gets."""

    host_path: Path
    container_path: Path
    options: tuple[str, ...]


@attrs.frozen(kw_only=True)
class Edits:
    """What is changed of a container."""

    env: tuple[str, ...] = ()
    mounts: tuple[BindMount, ...] = ()

    def plus(self, other: Edits) -> Edits:
        """Both, one after the other."""
        return Edits(env=self.env + other.env, mounts=self.mounts + other.mounts)


def resolve(ids: Sequence[str], folders: Iterable[Path] = FOLDERS) -> Edits:
    """The edits of all devices named, each name once, read from disk now. Blocks.

    Raises:
        RemoteProtocolError: Some name is found in no file; in the words of containerd.
    """
    known, broken = _read(folders)
    wanted = list(dict.fromkeys(ids))
    missing = [name for name in wanted if name not in known]
    if missing:
        told = f" ({'; '.join(broken)})" if broken else ""
        raise RemoteProtocolError(
            "CDI device injection failed", f"unresolvable CDI devices {', '.join(missing)}{told}"
        )
    edits = Edits()
    files: set[Path] = set()
    for name in wanted:
        path, general, own = known[name]
        edits = edits.plus(own) if path in files else edits.plus(general).plus(own)
        files.add(path)
    return edits


def _read(folders: Iterable[Path]) -> tuple[dict[str, tuple[Path, Edits, Edits]], list[str]]:
    """Devices by qualified name, and what is wrong with files that could not be taken."""
    known: dict[str, tuple[Path, Edits, Edits]] = {}
    broken: list[str] = []
    for folder in folders:
        here: dict[str, tuple[Path, Edits, Edits]] = {}
        twice: set[str] = set()
        for path in sorted(folder.glob("*.json")):
            try:
                devices = _devices(path)
            except (RemoteProtocolError, OSError) as error:
                broken.append(str(error))
                continue
            twice |= devices.keys() & here.keys()
            here |= devices
        known |= here
        for name in twice:
            broken.append(f"{name} stands in two files of {folder}")
            del known[name]
    return known, broken


def _devices(path: Path) -> dict[str, tuple[Path, Edits, Edits]]:
    """The devices of one file.

    Raises:
        RemoteProtocolError: The file is not valid CDI; a runtime takes nothing of it.
    """
    try:
        document = json.loads(path.read_bytes())
    except ValueError as error:
        raise _fault(path, f"is no JSON: {error}") from error
    kind, devices = document.get("kind", ""), document.get("devices") or []
    names = [str(device.get("name", "")) for device in devices]
    faults = {
        "has an unknown cdiVersion": document.get("cdiVersion") not in _VERSIONS,
        f"has members that CDI does not know: {sorted(document.keys() - _TOP)}": bool(
            document.keys() - _TOP
        ),
        f"has the kind {kind!r}": not _KIND.fullmatch(kind),
        "has no device": not devices,
        "names a device twice": len(set(names)) != len(names),
        "names a device wrongly": not all(map(_DEVICE.fullmatch, names)),
        "has a device without edits": not all(device.get("containerEdits") for device in devices),
        "is of a version before digits may begin a name": document.get("cdiVersion") < "0.5.0"
        and any(name[:1].isdigit() for name in names),
    }
    for fault, present in faults.items():
        if present:
            raise _fault(path, fault)
    general = _edits(document.get("containerEdits") or {}, path)
    return {
        f"{kind}={device['name']}": (path, general, _edits(device["containerEdits"], path))
        for device in devices
    }


def _edits(value: Mapping[str, Any], path: Path) -> Edits:
    unknown = sorted(value.keys() - _CARRIED_OUT)
    if unknown:
        raise _fault(path, f"has edits that a rehearsal does not carry out: {', '.join(unknown)}")
    return Edits(
        env=tuple(value.get("env") or ()),
        mounts=tuple(
            BindMount(
                host_path=Path(mount["hostPath"]),
                container_path=Path(mount["containerPath"]),
                options=tuple(mount.get("options") or ()),
            )
            for mount in value.get("mounts") or ()
        ),
    )


def _fault(path: Path, found: str) -> RemoteProtocolError:
    return RemoteProtocolError(str(path), found, rule="it must be valid CDI")
