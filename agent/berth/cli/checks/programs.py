"""What other programs of this machine say of themselves; none is waited for long."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

LIMIT_S: Final = 5.0
"""How long a program may take."""

_PROC: Final = Path("/proc")


def containerd_version() -> str:
    """What containerd's program says of its version; empty without one."""
    program = shutil.which("containerd")
    return _said([program, "--version"]) if program else ""


def kubelet_version() -> str:
    """What the program of the running kubelet says of its version, else the one that is found."""
    program = _running("kubelet") or shutil.which("kubelet")
    return _said([program, "--version"]) if program else ""


def network_manager() -> Mapping[str, str]:
    """The state of each link by NetworkManager's word; empty where it does not run."""
    program = shutil.which("nmcli")
    if program is None:
        return {}
    return parse_states(_said([program, "-t", "-f", "DEVICE,STATE", "device", "status"]))


def parse_states(text: str) -> Mapping[str, str]:
    """Links and states, one pair a line; a colon within a name stands behind a backslash."""
    found = {}
    for line in text.splitlines():
        name, mark, state = line.rpartition(":")
        if mark:
            found[name.replace("\\:", ":")] = state
    return found


def _running(name: str) -> str:
    """The program of a process of a name; empty when none runs."""
    for folder in sorted(_PROC.glob("[0-9]*")):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            if Path(words[0].decode(errors="replace")).name == name:
                return str((folder / "exe").readlink())
        except OSError:
            continue
    return ""


def _said(command: Sequence[str]) -> str:
    """What a program writes; empty when it does not run, or is late."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
