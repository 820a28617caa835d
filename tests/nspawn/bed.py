"""One run of the tests under a real systemd: its containers, and what it needs of the machine."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.cluster import debian
from tests.cluster.rundir import RunFolder
from tests.nspawn.container import Container
from tests.nspawn.node import Node
from tests.nspawn.rootfs import rootfs

ROOT = Path(__file__).parents[2]
TOOLS = {
    "/usr/bin/mmdebstrap": "mmdebstrap",
    "/usr/bin/systemd-analyze": "systemd",
    "/usr/bin/systemd-nspawn": "systemd-container",
}


class Bed:
    """One run: its folder, and the containers that were started in it."""

    def __init__(self, nodes: list[Node]) -> None:
        self._folder = RunFolder()
        self._nodes = nodes
        self._number = 0

    def boot(self, release: str, also: tuple[str, ...] = ()) -> Node:
        """A container of a release in which nothing is installed yet but further packages."""
        self._number += 1
        name = f"debian{release}-{self._number}"
        made = Container(
            name, rootfs(release, also), folder=self._folder.path, cgroup=self._folder.cgroup
        )
        node = Node(made)
        self._nodes.append(node)
        made.boot()
        return node

    def end(self, node: Node) -> None:
        """End one of them."""
        self._nodes.remove(node)
        node.container.close()

    def close(self) -> None:
        """End all of them."""
        for node in list(self._nodes):
            self.end(node)
        self._folder.close()


def package() -> Path:
    """The package: `$BERTH_DEB`, else the one that `make deb` makes of this tree."""
    if given := os.environ.get("BERTH_DEB"):
        return Path(given)
    subprocess.run(["make", "--silent", "deb"], cwd=ROOT, check=True)
    return max((ROOT / "dist").glob("berthd_*.deb"), key=lambda path: path.stat().st_mtime)


def install_tools() -> None:
    """What boots containers, of the machine's own Debian.

    Raises:
        HostError: Something is missing and we are not root, or apt-get failed.
    """
    debian.install(TOOLS)


def missing() -> list[str]:
    """What this machine lacks for a container, each as a short phrase; empty when all is there."""
    lacks = []
    if os.geteuid() != 0:
        lacks.append("root")
    lacks += [name for name in ("overlay", "cgroup2") if name not in _file_systems()]
    tried = subprocess.run(
        ["unshare", "--net", "--mount", "--pid", "--uts", "--fork", "true"],
        check=False,
        capture_output=True,
    )
    if tried.returncode:
        lacks.append("the right to make namespaces")
    return lacks


def _file_systems() -> list[str]:
    lines = Path("/proc/filesystems").read_text(encoding="ascii").splitlines()
    return [line.split()[-1] for line in lines]
