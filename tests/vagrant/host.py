"""A user's machine: vagrant and libvirt in namespaces of their own, and what is done with them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from berth.errors import HostError
from tests.cluster.boxes import ENVIRONMENT, Box
from tests.vagrant import roots

LIMIT_S = 1800.0
"""How long a command may take: with ten other things to do an emulated node needs 15 minutes."""
# Everything is root's here and ends with the namespaces; the machine may have no cgroup v2.
_QEMU_CONF = """
user = "root"
group = "root"
security_driver = "none"
namespaces = []
cgroup_controllers = []
remember_owner = 0
"""
_SETTINGS = {
    **ENVIRONMENT,
    "BERTH_DRIVER": "qemu",
    "VAGRANT_CWD": roots.SOURCE,
    "VAGRANT_DOTFILE_PATH": "/root/state",
}
_PROGRESS = re.compile(r"^\S*Progress: .*\n|\x1b\[\S*?[A-Za-z]", re.MULTILINE)


class Host:
    """The machine.

    Args:
        folder: An empty one for all that it keeps.
        binds: Folders out here that it sees beside the tree's `vagrant`, with the path in there.
    """

    def __init__(self, folder: Path, binds: Mapping[Path, str]) -> None:
        self._folder = folder
        self._binds = dict(binds)
        self._box = Box("vagrant", folder, node=False)

    def start(self) -> None:
        """Make the namespaces, lay the root out and start libvirt."""
        self._box.start()
        own = {name: self._folder / name for name in ("layers", "images", "home")}
        for each in own.values():
            each.mkdir()
        binds = {
            **self._binds,
            roots.VAGRANT: roots.SOURCE,
            own["images"]: "/var/lib/libvirt/images",
            own["home"]: "/root",
        }
        self._box.run("sh", given=roots.lay_out(own["layers"], binds))
        self._box.run("tee", "-a", f"{self._root}/etc/libvirt/qemu.conf", given=_QEMU_CONF)
        self.run("virtlogd", "-d")
        self.run("nice", "-n", "5", "libvirtd", "-d")

    @property
    def _root(self) -> Path:
        return self._folder / "layers" / "root"

    def run(self, *command: str, **settings: str) -> str:
        """Run a command; gives what it wrote, stderr too, without bars of progress.

        Args:
            command: Program and arguments.
            settings: Added to its environment.

        Raises:
            HostError: It ended with another code than 0, with what it said; or not in time.
        """
        try:
            done = subprocess.run(
                [*self._box.enter(), "chroot", str(self._root), *command],
                check=False,
                env={**_SETTINGS, **settings},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=LIMIT_S,
            )
        except subprocess.TimeoutExpired as error:
            said = _PROGRESS.sub("", (error.stdout or b"").decode(errors="replace"))
            raise HostError(
                " ".join(command), f"still runs after {LIMIT_S:.0f} s", rule="\n" + said
            ) from error
        said = _PROGRESS.sub("", done.stdout)
        if done.returncode:
            raise HostError(" ".join(command), f"ended with {done.returncode}", rule="\n" + said)
        return said

    def node(self, script: str) -> str:
        """What a script of the shell's wrote, run by root in the node.

        Raises:
            HostError: As `run`.
        """
        # A terminal would end its lines otherwise.
        return self.run("vagrant", "ssh", "--no-tty", "-c", f"sudo sh -eu <<'END'\n{script}\nEND")

    def traces(self) -> dict[str, list[str]]:
        """What a node shows of itself here: all that libvirt, the kernel and vagrant know."""
        virsh = ("virsh", "--quiet")
        return {
            "machines": self.run(*virsh, "list", "--all", "--name").split(),
            "networks": self.run(*virsh, "net-list", "--all", "--name").split(),
            "disks": sorted(path.name for path in (self._folder / "images").iterdir()),
            "links": re.findall(r"^(\S+)", self.run("ip", "-brief", "link"), re.MULTILINE),
            "processes": self._box.run("pgrep", "qemu|dnsmasq", check=False).split(),
            "ids": [str(path) for path in (self._folder / "home/state/machines").rglob("id")],
        }

    def close(self) -> None:
        """End it, with everything that runs in it."""
        self._box.kill()
