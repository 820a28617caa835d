"""CDI files as a container runtime reads them: names to edits, or the runtime's own refusal.

What the edits themselves must be, see `berth.rehearsal.cdiedits`.

Source: CDI SPEC.md; ``pkg/cdi/{cache,registry}.go`` 1.1.0; containerd ``pkg/cdi/oci_opt.go``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final, TypeAlias

from berth.errors import RemoteProtocolError
from berth.model.edits import Edits
from berth.rehearsal.cdiedits import applied, edits_of, faults_of, least_version

FOLDERS: Final = (Path("/etc/cdi"), Path("/var/run/cdi"))
"""Where runtimes look; a later folder's device wins over an earlier one's of the same name."""

_VERSIONS: Final = ("0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0")
_KIND: Final = re.compile(r"[A-Za-z]([\w.-]*[A-Za-z0-9])?/[A-Za-z]([\w.-]*[A-Za-z0-9])?")
_DEVICE: Final = re.compile(r"[A-Za-z0-9]([\w.:-]*[A-Za-z0-9])?")
_TOP: Final = frozenset({"cdiVersion", "kind", "annotations", "devices", "containerEdits"})

Entry: TypeAlias = "tuple[Path, Mapping[str, Any], Mapping[str, Any]]"
"""Where a device stands, the edits of the whole file, and its own."""


def resolve(ids: Sequence[str], folders: Iterable[Path] = FOLDERS) -> Edits:
    """The edits of all devices named, each name once, read from disk now. Blocks.

    Raises:
        RemoteProtocolError: Some name is found in no file, or a node is not on the host; in the
            words of containerd.
    """
    known, broken = _read(folders)
    wanted = list(dict.fromkeys(ids))
    missing = [name for name in wanted if name not in known]
    if missing:
        told = f" ({'; '.join(broken)})" if broken else ""
        raise RemoteProtocolError(
            "CDI device injection failed", f"unresolvable CDI devices {', '.join(missing)}{told}"
        )
    values: list[Mapping[str, Any]] = []
    files: set[Path] = set()
    for name in wanted:
        path, general, own = known[name]
        values += [own] if path in files else [general, own]
        files.add(path)
    try:
        return applied(map(edits_of, values))
    except RemoteProtocolError as error:
        raise RemoteProtocolError("CDI device injection failed", str(error)) from error


def _read(folders: Iterable[Path]) -> tuple[dict[str, Entry], list[str]]:
    """Devices by qualified name, and what is wrong with files that could not be taken."""
    known: dict[str, Entry] = {}
    broken: list[str] = []
    for folder in folders:
        here: dict[str, Entry] = {}
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


def _devices(path: Path) -> dict[str, Entry]:
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
    }
    for fault, present in faults.items():
        if present:
            raise _fault(path, fault)
    every = [document.get("containerEdits") or {}, *(each["containerEdits"] for each in devices)]
    for fault in chain.from_iterable(map(faults_of, every)):
        raise _fault(path, fault)
    least = max(_least_version(kind, names), *map(least_version, every))
    if document["cdiVersion"] < least:
        raise _fault(path, f"holds what only version {least} has")
    return {
        f"{kind}={device['name']}": (path, every[0], device["containerEdits"]) for device in devices
    }


def _least_version(kind: str, names: Iterable[str]) -> str:
    """The lowest version that has such names."""
    if "." in kind.partition("/")[2]:
        return "0.6.0"
    return "0.5.0" if any(name[:1].isdigit() for name in names) else "0.3.0"


def _fault(path: Path, found: str) -> RemoteProtocolError:
    return RemoteProtocolError(str(path), found, rule="it must be valid CDI")
