"""A container with the package installed as an operator would, and what is asked of its daemon."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import grpc

from berth.errors import HostError
from berth.pb.pluginregistration_pb2 import PluginInfo
from tests.nspawn.container import LIMIT_S, Container, poll

HERE = Path(__file__).parent
PROVISION = HERE.parents[1] / "vagrant" / "provision.sh"
CODE = "/usr/lib/berthd:/usr/lib/berthd/vendor"
CONFIG = "/etc/berth/agent.toml"
SERVICE, SOCKET = "berthd.service", "berthd.socket"
SOCKETS = (
    "/var/lib/kubelet/plugins/berth.dev/dra.sock",
    "/var/lib/kubelet/plugins_registry/berth.dev-reg.sock",
)
GROUP = """
[[nic.group]]
name = "lab"
match = { name = "nic0" }
"""
CALL_S = 20.0
"""How long kubelet waits for who serves a socket that is kept (KC §1.8)."""
# What a test may have left: the node is made as it was when the package had just been installed.
_TIDY = f"""
systemctl unmask --quiet --runtime {SERVICE} {SOCKET}
systemctl unmask --quiet {SERVICE} {SOCKET}
systemctl stop {SOCKET} {SERVICE}
systemctl list-units --plain --no-legend 'probe*' | while read -r unit rest; do
  systemctl stop "$unit"
done
umount --quiet --recursive /var/lib/berth /var/lib/kubelet || true
rm -rf /etc/systemd/system/berthd.*.d /run/systemd/system/berthd.*.d /run/systemd/system/probe*
rm -rf /run/players.sock /var/lib/berth/* /var/lib/kubelet /run/cdi /run/berth-nics /data
for link in $(ls /sys/class/net); do
  [ "$link" = lo ] || ip link delete "$link" || true
done
ip -all netns delete
systemctl reset-failed
systemctl daemon-reload
systemd-tmpfiles --create berthd.conf
systemctl enable --quiet {SERVICE} {SOCKET}
systemctl start {SOCKET} {SERVICE}
"""


class Node:
    """One container with berthd in it.

    Args:
        container: Booted; its package is to be installed by `provision`.
    """

    def __init__(self, container: Container) -> None:
        self.container = container
        self.attempt = container.attempt
        self.path = container.path
        self.run = container.run
        self.write = container.write
        self._config = ""
        self._cursor = ""

    def provision(self, package: Path, config: str = "") -> str:
        """Install a package by the script that machines are provisioned by; gives what it said.

        Raises:
            HostError: berthd is not ready.
        """
        self.container.path("/root/berthd.deb").write_bytes(package.read_bytes())
        self.write("/root/provision.sh", PROVISION.read_text(encoding="utf-8"))
        self.write("/root/agent.toml", config)
        told = self.run(
            *("sh", "/root/provision.sh", "/root/berthd.deb"),
            *(("/root/agent.toml",) if config else ()),
        )
        self._config = self.path(CONFIG).read_text(encoding="utf-8")
        self.mark()
        return told

    def tidy(self) -> None:
        """Make it as it was after the installation; journal entries of before are not looked at."""
        self.write(CONFIG, self._config)
        self.run("sh", "-eu", given=_TIDY)
        self.mark()

    def mark(self) -> None:
        """Let `journal` begin here."""
        told = self.run("journalctl", "--quiet", "--lines=0", "--show-cursor")
        self._cursor = told.strip().rpartition(" ")[2]

    def journal(self, unit: str = SERVICE) -> str:
        """What a unit's processes and systemd said of it since the test began."""
        after = f"--after-cursor={self._cursor}"
        return self.run("journalctl", "--quiet", "--output=cat", after, f"--unit={unit}")

    def wait_journal(self, text: str, *, unit: str = SERVICE, limit_s: float = LIMIT_S) -> str:
        """Wait until a text is in the journal; gives all of it.

        Raises:
            HostError: It is not there in time.
        """
        return poll(
            lambda: self.journal(unit), lambda said: text in said, what=repr(text), limit_s=limit_s
        )

    def show(self, name: str, unit: str = SERVICE) -> str:
        """One property of a unit."""
        return self.run("systemctl", "show", f"--property={name}", "--value", unit).strip()

    def is_active(self, unit: str = SERVICE) -> bool:
        """Whether a unit is active: a service that has said that it is ready."""
        return self.attempt("systemctl", "is-active", "--quiet", unit).returncode == 0

    @property
    def pid(self) -> int:
        """The daemon's process, as numbered in there; 0 while there is none."""
        return int(self.show("MainPID"))

    def wait_other(self, pid: int, limit_s: float = LIMIT_S) -> int:
        """Wait until another process than that one is ready; gives its number.

        Raises:
            HostError: There is none in time.
        """

        def look() -> int:
            return self.pid if self.is_active() else 0

        return poll(look, lambda now: now not in {0, pid}, what="another berthd", limit_s=limit_s)

    def kill(self, number: signal.Signals, pid: int = 0) -> None:
        """Send the daemon a signal."""
        self.run("sh", "-c", f"kill -{number.value} {pid or self.pid}")

    def configure(self, text: str) -> None:
        """Write the configuration; it is read at the next start or reload."""
        self.write(CONFIG, text)

    def drop_in(self, text: str, unit: str = SERVICE) -> None:
        """Change a unit as `systemctl edit` does."""
        self.write(f"/etc/systemd/system/{unit}.d/test.conf", text)
        self.run("systemctl", "daemon-reload")

    def replace(self, script: str, *arguments: str, settings: str = "") -> None:
        """Put a script of this folder in the daemon's place, in the same unit.

        Args:
            script: Its name; it finds the package's code.
            arguments: Of the script.
            settings: Further lines of ``[Service]``.
        """
        self.write(f"/opt/{script}", (HERE / script).read_text(encoding="utf-8"))
        command = " ".join(["/usr/bin/python3", "-S", f"/opt/{script}", *arguments])
        self.drop_in(
            f"[Service]\nEnvironment=PYTHONPATH={CODE}\n"
            f"ExecStart=\nExecStart={command}\n{settings}\n"
        )

    def ask(self, *verb: str) -> Any:
        """What the operator's command tells, as JSON."""
        return json.loads(self.run("berth", *verb, "--json"))

    def add_nic(self, name: str) -> None:
        """Plug a link in, and wait until udev has given it what it gives to each."""
        self.run("ip", "link", "add", name, "type", "veth", "peer", f"far-{name}")
        self.run("ip", "link", "set", name, "up")
        self.run("udevadm", "settle")

    def ask_who(self, path: str = SOCKETS[1]) -> str:
        """What kubelet asks of a registration socket first; gives the driver's name."""
        with grpc.insecure_channel(f"unix:{self.path(path)}") as channel:
            call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
                "/pluginregistration.Registration/GetInfo"
            )
            return PluginInfo.FromString(call(b"", timeout=CALL_S)).name

    def figure(self, field: str, *, task: int = 0) -> int:
        """A figure of the daemon's status as the kernel tells it, or of one of its threads.

        Raises:
            HostError: It has none of that name.
        """
        pid = self.pid
        place = f"/proc/{pid}/task/{task}" if task else f"/proc/{pid}"
        text = self.path(f"{place}/status").read_text(encoding="ascii")
        found = re.search(rf"^{field}:\s+(\d+)", text, re.MULTILINE)
        if found is None:
            raise HostError(f"{self.container.name}: berthd", f"has no {field}", rule=text)
        return int(found[1])
