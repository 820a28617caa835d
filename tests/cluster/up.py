"""A cluster to look at by hand: `python -m tests.cluster.up` opens a shell with kubectl.

The shell is in the control plane's network; everything ends with it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from tests.cluster import parts
from tests.cluster.bed import Bed, Cluster
from tests.cluster.boxes import Box
from tests.cluster.gates import Gates
from tests.cluster.gobuild import build


def main() -> int:
    """Start what is asked for, open the shell, end everything after it."""
    wanted = _arguments()
    parts.install_tools()
    bed = Bed()
    try:
        cluster = bed.start_cluster(
            gates={**wanted.gates.flags, **dict.fromkeys(wanted.gate, True)}
        )
        for kind in wanted.kind or ["1.37+2.4"]:
            node = cluster.node(kind)
            for number in range(wanted.nics):
                node.add_nic(f"nic{number}")
        return _shell(cluster, wanted.command)
    finally:
        bed.close()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.up", description=__doc__)
    parser.add_argument("--kind", action="append", choices=sorted(parts.KINDS), help="a node more")
    parser.add_argument("--nics", type=int, default=0, help="NICs on each node: nic0, nic1, …")
    parser.add_argument("--gates", type=Gates, default=Gates.DEFAULT, help="defaults or all-alpha")
    parser.add_argument("--gate", action="append", default=[], help="a feature gate to turn on")
    parser.add_argument("command", nargs="*", help="run this instead of a shell")
    return parser.parse_args()


def _shell(cluster: Cluster, command: list[str]) -> int:
    tools = build(parts.KUBERNETES)
    for box in cluster.boxes:
        _say(box)
    environment = {
        **os.environ,
        "KUBECONFIG": str(cluster.control.kubeconfig),
        "PATH": f"{tools}:{os.environ['PATH']}",
    }
    shell = command or [os.environ.get("SHELL", "/bin/bash")]
    inside = cluster.control.box.enter("--net")
    return subprocess.run([*inside, *shell], check=False, env=environment).returncode


def _say(box: Box) -> None:
    """How one gets into a box, and where its logs are."""
    enter = " ".join(box.enter()[:-1])
    print(f"{box.name}: logs {box.folder}/log; enter: {enter} bash", file=sys.stderr)  # noqa: T201 -- a command for people


if __name__ == "__main__":
    sys.exit(main())
