"""What a container runtime's configuration says of NRI and CDI, whichever runtime it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import attrs

CDI_FOLDERS: Final = ("/etc/cdi", "/var/run/cdi")
"""Where runtimes look for CDI files unless told otherwise."""

NRI_SOCKET: Final = "/var/run/nri/nri.sock"

_UNITS_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


@attrs.frozen(kw_only=True)
class Setting:
    """One setting as it is in force.

    Attributes:
        value: ``None`` when it is not written, and its default not known.
        place: The file and key, whether it is written there or not.
        written: Whether it is.
    """

    value: Any
    place: str
    written: bool = False


@attrs.frozen(kw_only=True)
class RuntimeSettings:
    """What is read of a runtime's configuration.

    Attributes:
        runtime: ``containerd`` or ``cri-o``.
        files: Those that were read, in the order in which later ones overrule earlier ones.
        nri: Whether NRI is on.
        connections: Whether plugins may connect from outside.
        cdi: Whether CDI devices are given to containers.
        timeout_s: How long an NRI plugin may take for an event.
        validator: Whether a pod may ask for a plugin without which no container of it is made;
            ``None`` where the runtime has no such thing, or is not known to.
        switch_nri: How to switch NRI on, in the words of the file.
        switch_cdi: The same for CDI.
        restart: The command that makes it effective.
    """

    runtime: str
    files: tuple[str, ...]
    nri: Setting
    connections: Setting
    socket: Setting
    cdi: Setting
    cdi_folders: Setting
    timeout_s: Setting
    validator: Setting | None
    switch_nri: str
    switch_cdi: str
    restart: str


@attrs.frozen(kw_only=True)
class Written:
    """A runtime's configuration out of several files, each later one over those before it.

    Attributes:
        documents: Each file with what it holds.
    """

    documents: tuple[tuple[str, Mapping[str, Any]], ...]

    def get(self, table: Iterable[str], key: str, default: Any) -> Setting:
        """One key, with the file that it is written in; the default stands for a missing one."""
        path = tuple(table)
        place = f"{self.documents[0][0]}: [{dotted(path)}] {key}"
        for file, document in reversed(self.documents):
            found = _lookup(document, path)
            if key in found:
                return Setting(
                    value=found[key], place=f"{file}: [{dotted(path)}] {key}", written=True
                )
        return Setting(value=default, place=place)


def dotted(path: Iterable[str]) -> str:
    """A table's name as TOML writes it."""
    return ".".join(p if re.fullmatch(r"[A-Za-z0-9_-]+", p) else f'"{p}"' for p in path)


def seconds(value: object) -> float | None:
    """A duration in Go's notation, ``2s`` or ``1m30s``; ``None`` for what is none."""
    if not isinstance(value, str) or not re.fullmatch(r"(\d+(\.\d+)?(ms|s|m|h))+", value):
        return None
    parts: Iterator[tuple[str, str]] = (
        (number, unit) for number, unit in re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h)", value)
    )
    return sum(float(number) * _UNITS_S[unit] for number, unit in parts)


def _lookup(document: Mapping[str, Any], path: Iterable[str]) -> Mapping[str, Any]:
    here: Any = document
    for step in path:
        here = here.get(step) if isinstance(here, Mapping) else None
    return here if isinstance(here, Mapping) else {}
