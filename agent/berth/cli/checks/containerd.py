"""containerd's configuration, in each of the versions 2, 3 and 4 of its form.

Source: nri-contracts.md §7.1, measured on 1.7.24, 2.1 and 2.4.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from berth.cli.checks.machine import Machine
from berth.cli.checks.runtime import CDI_FOLDERS, NRI_SOCKET, RuntimeSettings, Setting, Written
from berth.config.document import parsed
from berth.errors import ConfigError

FILES: Final[Mapping[str, str]] = {
    "/etc/containerd/config.toml": "",
    "/var/lib/rancher/k3s/agent/etc/containerd/config.toml": (
        "k3s writes that file anew at each start: change config-v3.toml.tmpl beside it, "
        "or config.toml.tmpl for containerd 1.7"
    ),
    "/var/lib/rancher/rke2/agent/etc/containerd/config.toml": (
        "RKE2 writes that file anew at each start: change config-v3.toml.tmpl beside it, "
        "or config.toml.tmpl for containerd 1.7"
    ),
    "/etc/k0s/containerd.toml": "",
    "/var/snap/microk8s/current/args/containerd.toml": "",
}
"""Where the file lies, and what is to be known of changing it there."""

_NRI: Final = ("plugins", "io.containerd.nri.v1.nri")
_VALIDATES: Final = (2, 2)
# The first release with the validator of plugins' adjustments.
_CRI_OF_1: Final = ("plugins", "io.containerd.grpc.v1.cri")
_CRI_OF_2: Final = ("plugins", "io.containerd.cri.v1.runtime")


def find_containerd(machine: Machine) -> RuntimeSettings | None:
    """What containerd's configuration says; ``None`` when there is none.

    Raises:
        ConfigError: A file is there and cannot be read.
    """
    for path, remark in FILES.items():
        if machine.at(path).is_file():
            return _settings(Written(documents=tuple(_read(machine, path))), machine, remark)
    return None


def _read(machine: Machine, path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The file, and after it those that it imports."""
    text = machine.read(path)
    if text is None:
        raise ConfigError(path, "cannot be read", mend="run this as root")
    document = parsed(path, text)
    yield path, document
    imports = document.get("imports")
    for pattern in imports if isinstance(imports, list) else ():
        whole = Path(path).parent / str(pattern)
        for found in sorted(machine.at(whole.parent).glob(whole.name)):
            name = f"/{found.relative_to(machine.root)}"
            if name != path:
                yield name, parsed(name, machine.read(name) or "")


def _settings(written: Written, machine: Machine, remark: str) -> RuntimeSettings:
    _, main = written.documents[0]
    number = main.get("version", 1)
    is_new = isinstance(number, int) and number >= 3
    release = _release(machine.runtime_version)
    # From 2.0 on both are on by default; 1.7 reads version 2 at most, and has both off.
    default = True if is_new else (None if release is None else release >= (2, 0))
    cri = _CRI_OF_2 if is_new else _CRI_OF_1
    off = written.get(_NRI, "disable", None if default is None else not default)
    connections = written.get(_NRI, "disable_connections", False)
    listed = _disabled(written)
    return RuntimeSettings(
        runtime="containerd",
        files=tuple(path for path, _ in written.documents),
        nri=listed or _inverted(off),
        connections=_inverted(connections),
        socket=written.get(_NRI, "socket_path", NRI_SOCKET),
        cdi=written.get(cri, "enable_cdi", default),
        cdi_folders=written.get(cri, "cdi_spec_dirs", list(CDI_FOLDERS)),
        timeout_s=written.get(_NRI, "plugin_request_timeout", "2s"),
        validator=(
            written.get((*_NRI, "default_validator"), "enable", False)
            if release is not None and release >= _VALIDATES
            else None
        ),
        switch_nri="take it off that list" if listed else "write disable = false",
        switch_cdi="write enable_cdi = true",
        restart=remark or "systemctl restart containerd",
    )


def _inverted(setting: Setting) -> Setting:
    value = None if setting.value is None else not setting.value
    return Setting(value=value, place=setting.place, written=setting.written)


def _disabled(written: Written) -> Setting | None:
    """NRI as an entry of the list of plugins that are not loaded at all."""
    for path, document in written.documents:
        names = document.get("disabled_plugins")
        if isinstance(names, list) and _NRI[1] in names:
            return Setting(value=False, place=f"{path}: disabled_plugins", written=True)
    return None


def _release(version: str) -> tuple[int, int] | None:
    """Major and minor number in ``containerd … v2.1.4 …`` or ``containerd 1.7.24``."""
    found = re.search(r"\bv?(\d+)\.(\d+)\.\d+", version)
    return (int(found[1]), int(found[2])) if found else None
