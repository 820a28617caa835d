"""A command under the settings that the packaged unit has.

The settings stand here until the tree has the unit itself; then they are to be read from it.

Source: packaging.md, ``berthd.service``; systemd-run(1).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

SETTINGS: Final = (
    "CapabilityBoundingSet=CAP_NET_ADMIN CAP_NET_BROADCAST CAP_NET_RAW CAP_SYS_ADMIN",
    "NoNewPrivileges=yes",
    "ProtectSystem=strict",
    "ReadOnlyPaths=/sys",
    "ReadWritePaths=/sys/devices /sys/bus",
    "DevicePolicy=closed",
    "DeviceAllow=char-* rw",
    "PrivateTmp=yes",
    "PrivateIPC=yes",
    "ProtectClock=yes",
    "ProtectHostname=yes",
    "ProtectKernelLogs=yes",
    "ProtectKernelModules=yes",
    "ProtectKernelTunables=yes",
    "ProtectControlGroups=yes",
    "ProtectProc=invisible",
    "RestrictNamespaces=net",
    "RestrictAddressFamilies=AF_UNIX AF_NETLINK AF_INET AF_INET6",
    "RestrictRealtime=yes",
    "RestrictSUIDSGID=yes",
    "LockPersonality=yes",
    "MemoryDenyWriteExecute=yes",
    "SystemCallArchitectures=native",
    "SystemCallFilter=@system-service",
    "SystemCallFilter=~@privileged @resources",
    "SystemCallErrorNumber=EPERM",
    "KeyringMode=private",
    "UMask=0077",
)
"""Those that could keep a process from the driver; ``ProtectHome`` is left out, since the checkout
that the tests run from may lie in a home."""

RUNNING: Final = Path("/run/systemd/system")
"""There where systemd is the machine's init."""


def sandboxed(
    command: Sequence[str], *, folder: Path, environment: Mapping[str, str]
) -> tuple[str, ...]:
    """Give the command line that runs a command with these settings, and waits for it.

    Args:
        folder: The command's working directory.
        environment: Its variables.
    """
    properties = (part for setting in SETTINGS for part in ("-p", setting))
    variables = (part for name, value in environment.items() for part in ("-E", f"{name}={value}"))
    start = ("systemd-run", "--quiet", "--wait", "--pipe", "--collect")
    return (*start, f"--working-directory={folder}", *properties, *variables, "--", *command)


def last_json(output: str) -> Any:
    """Give what a program told on its last line."""
    return json.loads(output.splitlines()[-1])
