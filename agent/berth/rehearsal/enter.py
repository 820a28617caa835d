"""The way into a rehearsal: a program is run with namespaces of its own for everything it touches.

Network, mounts, processes and host name are its own, so that nothing of the machine can be changed
by it, and all of it ends with it: its first process is the namespace's init, and with that the
kernel ends every other one, and every link and mount. As root no user namespace is needed; without
root one is made where the kernel lets a user do so.

Source: ``unshare(1)`` of util-linux 2.32 or later, ``user_namespaces(7)``.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import Final

from berth.errors import HostError

_OWN: Final = ("--mount", "--net", "--pid", "--uts", "--ipc", "--fork", "--kill-child")
_AS_ROOT: Final = ("--user", "--map-root-user")
_PROBE_LIMIT_S: Final = 20.0

_MEND: Final = (
    "run it as root, or let users make user namespaces: "
    "sysctl user.max_user_namespaces above 0, kernel.unprivileged_userns_clone=1 on older Debian, "
    "kernel.apparmor_restrict_unprivileged_userns=0 on Ubuntu; a container needs --privileged"
)


def inside(*arguments: str) -> list[str]:
    """The command line that runs ``python -m berth.rehearsal`` with these arguments in a world.

    Raises:
        HostError: This user cannot have namespaces here; says what is missing.
    """
    return [*_unshare(), sys.executable, "-m", "berth.rehearsal", *arguments]


def _unshare() -> list[str]:
    """The beginning of the command line: directly, else by a user namespace."""
    refusals = []
    for own in (_OWN, (*_AS_ROOT, *_OWN)):
        command = ["unshare", *own]
        refusal = _refusal(command)
        if not refusal:
            return command
        refusals.append(refusal)
    raise HostError(
        "namespaces",
        "; in a user namespace: ".join(refusals),
        rule="a rehearsal lives in namespaces of its own",
        mend=_MEND,
    )


def _refusal(command: Sequence[str]) -> str:
    """Why the command line would not work; empty when it would."""
    # A mount is tried too: where AppArmor restricts user namespaces they are made, but powerless.
    probe = [*command, "mount", "-t", "proc", "proc", "/proc"]
    try:
        done = subprocess.run(
            probe, capture_output=True, text=True, check=False, timeout=_PROBE_LIMIT_S
        )
    except OSError as error:
        return f"{command[0]} cannot be run: {error.strerror} (package util-linux)"
    except subprocess.TimeoutExpired:
        return f"{command[0]} did not end within {_PROBE_LIMIT_S:.0f} s"
    return "" if done.returncode == 0 else done.stderr.strip() or f"exit status {done.returncode}"
