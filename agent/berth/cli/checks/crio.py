"""CRI-O's configuration: one file, and drop-ins over it.

Source: nri-contracts.md §7.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from berth.cli.checks.machine import Machine
from berth.cli.checks.runtime import CDI_FOLDERS, NRI_SOCKET, RuntimeSettings, Setting, Written
from berth.config.document import parsed

FILE: Final = "/etc/crio/crio.conf"
DROPINS: Final = "/etc/crio/crio.conf.d"

_NRI: Final = ("crio", "nri")
_RUNTIME: Final = ("crio", "runtime")


def find_crio(machine: Machine) -> RuntimeSettings | None:
    """What CRI-O's configuration says; ``None`` when there is none.

    Raises:
        ConfigError: A file is no TOML.
    """
    documents = tuple(_read(machine))
    if not documents:
        return None
    written = Written(documents=documents)
    connections = written.get(_NRI, "nri_disable_connections", False)
    return RuntimeSettings(
        runtime="CRI-O",
        files=tuple(path for path, _ in documents),
        nri=written.get(_NRI, "enable_nri", True),
        connections=Setting(
            value=not connections.value, place=connections.place, written=connections.written
        ),
        socket=written.get(_NRI, "nri_listen", NRI_SOCKET),
        cdi=Setting(value=True, place=FILE),
        cdi_folders=written.get(_RUNTIME, "cdi_spec_dirs", list(CDI_FOLDERS)),
        timeout_s=written.get(_NRI, "nri_plugin_request_timeout", "2s"),
        validator=written.get((*_NRI, "default_validator"), "nri_enable_default_validator", False),
        switch_nri="write enable_nri = true",
        switch_cdi="",
        restart="systemctl restart crio",
    )


def _read(machine: Machine) -> Iterator[tuple[str, Mapping[str, Any]]]:
    names = sorted(path.name for path in machine.at(DROPINS).glob("*.conf"))
    for path in (FILE, *(str(Path(DROPINS) / name) for name in names)):
        text = machine.read(path)
        if text is not None:
            yield path, parsed(path, text)
