"""Boots a container: lays its root file system out, then keeps `systemd-nspawn` until told to go.

Started by `container.py` in a mount namespace of its own, as `python3 launch.py PLAN`; the plan is
JSON. The container ends when our stdin does, so it never outlives the test run, however that ends.

It imports nothing of ours, since it is run by path.
Source: systemd-nspawn(1) of systemd 252; packaging.md §4.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

CGROUPS = Path("/sys/fs/cgroup")


def mount(*arguments: str) -> None:
    """Call the program of that name."""
    subprocess.run(["mount", *arguments], check=True)


def lay_out(plan: dict[str, Any]) -> Path:
    """Give the container's root: what it writes lies in memory, above what it shares."""
    layers = Path(plan["folder"]) / "layers"
    layers.mkdir()
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", str(layers))
    for part in ("upper", "work", "root"):
        (layers / part).mkdir()
    options = f"lowerdir={plan['rootfs']},upperdir={layers}/upper,workdir={layers}/work"
    mount("-t", "overlay", "overlay", "-o", options, str(layers / "root"))
    # Where the machine has version 1 or both, systemd in the container gets version 2 alone.
    mount("-t", "cgroup2", "cgroup2", str(CGROUPS))
    return layers / "root"


def boot(plan: dict[str, Any], root: Path) -> subprocess.Popen[bytes]:
    """Start systemd in there, in a control group of its own."""
    group = CGROUPS / plan["cgroup"]
    group.mkdir(exist_ok=True)
    join = f'echo $$ >"{group}/cgroup.procs" && exec "$@"'
    binds = [f"--bind={outside}:{inside}" for outside, inside in plan["binds"].items()]
    return subprocess.Popen(
        [
            *("sh", "-c", join, "join"),
            *("systemd-nspawn", "--quiet", "--boot", f"--directory={root}"),
            *("--keep-unit", "--register=no", f"--machine={plan['name']}"),
            *("--private-network", "--capability=all", "--console=pipe", "--notify-ready=yes"),
            # The machine's own name server is of no use in a network without links.
            "--resolv-conf=off",
            # Else nspawn wants the machine's id, which a new one may not have yet.
            "--link-journal=no",
            *binds,
        ],
        env={
            **os.environ,
            "SYSTEMD_NSPAWN_API_VFS_WRITABLE": "1",
            "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1",
        },
        stdin=subprocess.DEVNULL,
    )


def main() -> None:
    """Lay out, boot, wait for the end of stdin or of the container."""
    plan = json.loads(sys.argv[1])
    nspawn = boot(plan, lay_out(plan))
    ended = os.pidfd_open(nspawn.pid)
    select.select([0, ended], [], [])
    end(nspawn)


def end(nspawn: subprocess.Popen[bytes]) -> None:
    """Cut the power: nspawn's own end alone would leave the container running."""
    children = Path(f"/proc/{nspawn.pid}/task/{nspawn.pid}/children")
    while nspawn.poll() is None:
        for child in children.read_text(encoding="ascii").split():
            os.kill(int(child), signal.SIGKILL)
        # It ends by itself when the container has; one that has none yet is ended here.
        try:
            nspawn.wait(timeout=1)
        except subprocess.TimeoutExpired:
            nspawn.kill()


if __name__ == "__main__":
    main()
