"""The machine as a node of a cluster: kubelet, containerd and our daemon are units in it."""

from __future__ import annotations

import contextlib
import json
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from berth.errors import HostError
from tests.cluster import nodeconfig
from tests.cluster.api import Object, condition
from tests.cluster.berthd import CONFIG
from tests.cluster.boxes import LIMIT_S
from tests.cluster.controlplane import ControlPlane
from tests.lab.machine import ADDRESS, NICS, Machine, peer

NAME = "lab"
POD_SUBNET = "10.99.200.0/24"
# Hooks and drivers take ten times as long here; the runtime's own limit is longer too.
SLOW = """
[nri]
timeout_s = 15
[health]
recover_after_s = 2
nic = { interval_s = 5, deadline_s = 20, timeout_s = 90 }
vfio = { interval_s = 5, deadline_s = 20, timeout_s = 90 }
"""
VFS = f"""{SLOW}
[[nic.group]]
name = "vfs"
match = {{ kind = ["vf"] }}
"""
"""Settings that offer every VF, each for one pod."""
KUBELET_CONFIG = "/var/lib/kubelet/config.yaml"
DROP_IN = "/etc/systemd/system/berthd.service.d/test.conf"
CODE = "/usr/lib/berthd:/usr/lib/berthd/vendor"
"""Where the package's Python code lies."""
# What a test of our daemon may leave on the node.
_LEFT = "/etc/berth/* /run/berth-nics/* /etc/cdi/* /run/berth/* /run/cdi/* /var/lib/berth/*"
_READY_LIMIT_S = 300.0


class Unit:
    """Our daemon under its packaged unit.

    Args:
        machine: Where it is installed.
    """

    name = "berthd"

    def __init__(self, machine: Machine) -> None:
        self._run = machine.guest.run
        self._since = "1 min ago"

    def start(self) -> None:
        """Start it anew; returns when it has said that it is ready."""
        cursor = self._run("journalctl", "-n", "0", "--show-cursor", "-q")
        self._since = cursor.partition("cursor: ")[2].strip()
        self._run("systemctl", "restart", self.name)

    def stop(self) -> None:
        """End it and its sockets, as an administrator does."""
        self._run("systemctl", "stop", f"{self.name}.service", f"{self.name}.socket")

    def kill(self) -> None:
        """End it as a fault of its own would; systemd starts it again."""
        self.send(signal.SIGKILL)

    def send(self, number: signal.Signals) -> None:
        """Send its main process a signal."""
        self._run("systemctl", "kill", "--kill-whom=main", f"--signal={number.name}", self.name)

    @property
    def pid(self) -> int:
        """Its main process, as numbered in there; 0 while there is none."""
        return int(self._run("systemctl", "show", "--property=MainPID", "--value", self.name))

    def open_files(self) -> list[str]:
        """What its main process has open."""
        place = f"/proc/{self.pid}/fd"
        return self._run("find", place, "-type", "l", "-printf", "%l\\n").splitlines()

    def wait_ready(self) -> None:
        """Wait until the unit is active.

        Raises:
            HostError: It is not within the limit; the journal's end is told.
        """
        end = time.monotonic() + LIMIT_S
        while self.state != "active":
            if time.monotonic() > end:
                raise HostError("berthd's unit", self.state, rule=self.log_text()[-3000:])
            time.sleep(0.2)

    @property
    def state(self) -> str:
        """As systemd calls it: `active`, `activating`, `failed`."""
        return self._run("systemctl", "is-active", self.name, check=False).strip()

    def log_text(self) -> str:
        """What it and systemd have said of it since its last start here."""
        journal = ("journalctl", "-q", "-o", "cat", "-u", self.name, "--after-cursor")
        return self._run(*journal, self._since, check=False)


class LabNode:
    """The machine as a node.

    Args:
        control: The control plane in whose network it is wired.
        machine: On, with our package installed.
    """

    name = NAME
    address = ADDRESS
    nics: Mapping[str, str] = NICS
    object_path = f"/api/v1/nodes/{NAME}"

    def __init__(self, control: ControlPlane, machine: Machine) -> None:
        self.control = control
        self.machine = machine
        self.guest = machine.guest
        self.run = machine.guest.run
        self.write = machine.guest.write
        self.read = machine.guest.read
        self.berthd = Unit(machine)

    def join(self, **kubelet: object) -> None:
        """Become a node of the cluster; returns when its Node object is Ready.

        Args:
            kubelet: Fields of kubelet's configuration, in its own spelling.
        """
        # Other nodes and tests reach its pods.
        self.control.box.run("ip", "route", "replace", POD_SUBNET, "via", ADDRESS)
        kubeconfig, identity = self.control.node_kubeconfig(
            NAME, identity_file=nodeconfig.KUBELET_IDENTITY
        )
        files = {
            "/etc/cni/net.d/10-pods.conflist": nodeconfig.pod_network(POD_SUBNET),
            nodeconfig.KUBELET_KUBECONFIG: kubeconfig,
            nodeconfig.KUBELET_IDENTITY: identity,
            nodeconfig.CA_FILE: self.control.authority.certificate.read_text(),
        }
        for name, text in files.items():
            self.write(name, text)
        self.configure_kubelet(**kubelet)

    def configure_kubelet(self, **fields: object) -> None:
        """Start kubelet with these settings beside the usual ones; returns when it is Ready."""
        usual: Object = json.loads(nodeconfig.kubelet(cgroup_root="", gates=self.control.gates))
        usual |= {"cgroupDriver": "systemd", **fields}
        self.write(KUBELET_CONFIG, json.dumps(usual, indent=1))
        # It refuses to start with what another policy of theirs has written.
        states = [f"/var/lib/kubelet/{each}_manager_state" for each in ("cpu", "memory")]
        self.run("rm", "-f", *states)
        self.run("systemctl", "restart", "kubelet")
        self.wait_ready()

    def wait_ready(self, limit_s: float = _READY_LIMIT_S) -> Object:
        """Wait until the Node object is Ready and tells of this boot; gives it.

        Raises:
            HostError: It was not so within the limit; kubelet's last words are told.
        """
        boot_id = self.read("/proc/sys/kernel/random/boot_id")

        def ready(node: Object) -> bool:
            told = node["status"].get("nodeInfo", {}).get("bootID")
            return told == boot_id and condition(node, "Ready") == "True"

        try:
            return self.control.api.wait(self.object_path, ready, limit_s=limit_s)
        except HostError as error:
            said = self.run("journalctl", "-q", "-o", "cat", "-u", "kubelet", "-n", "40")
            raise HostError(f"node {NAME}", "not Ready", rule=f"{error}\n{said}") from error

    def start_berthd(self, config: str) -> Unit:
        """Start our daemon with these settings; returns when it is ready."""
        self.write(CONFIG, config)
        self.berthd.start()
        return self.berthd

    @contextlib.contextmanager
    def replaced(self, script: Path, settings: str = "") -> Iterator[None]:
        """While the block lasts, have the daemon's unit start a script, in the same sandbox.

        Args:
            script: A file out here; it finds the package's code.
            settings: Further lines of ``[Service]``.
        """
        place = f"/opt/{script.name}"
        self.write(place, script.read_text(encoding="utf-8"))
        self.write(
            DROP_IN,
            f"[Service]\nEnvironment=PYTHONPATH={CODE}\n"
            f"ExecStart=\nExecStart=/usr/bin/python3 -S {place}\n{settings}\n",
        )
        self.run("systemctl", "daemon-reload")
        try:
            yield
        finally:
            self.berthd.stop()
            self.run("rm", DROP_IN, place)
            self.run("systemctl", "daemon-reload")

    def pci(self, address: str) -> str:
        """The folder of a PCI function."""
        return f"/sys/bus/pci/devices/{address}"

    def leads_to(self, link: str) -> str:
        """The folder that a link of sysfs leads to."""
        return self.run("readlink", "-f", link).strip()

    def driver(self, address: str) -> str:
        """The driver that has a PCI function."""
        return self.leads_to(f"{self.pci(address)}/driver").rpartition("/")[2]

    def make_vfs(self, nic: str, count: int) -> list[str]:
        """Have a function make its VFs, none of which it may have yet; gives their names."""
        self.run("sh", "-c", f"echo {count} >/sys/class/net/{nic}/device/sriov_numvfs")
        names = [f"{nic}v{number}" for number in range(count)]
        self.wait_links(*names)
        return names

    def remove_vfs(self, nic: str) -> None:
        """Have a function take its VFs away, wherever their links are."""
        self.run("sh", "-c", f"echo 0 >/sys/class/net/{nic}/device/sriov_numvfs")

    def wait_links(self, *names: str, limit_s: float = LIMIT_S) -> None:
        """Wait until links have these names: udev renames them after they come.

        Raises:
            HostError: They had not within the limit.
        """
        end = time.monotonic() + limit_s
        while missing := set(names) - set(self.links()):
            if time.monotonic() > end:
                raise HostError("lab", f"no link {', '.join(sorted(missing))}")
            self.run("udevadm", "settle")

    def links(self) -> set[str]:
        """The names of the links at home."""
        return set(self.run("ls", "/sys/class/net").split())

    def namespaces(self) -> list[Object]:
        """The network namespaces that the host has a number for: each of a pod, while it lives.

        Not its own, which is given one too when a function is pulled out that was in a pod.
        """
        found: list[Object] = json.loads(self.ip("-j", "netns", "list-id") or "[]")
        own = self.run("lsns", "-n", "-t", "net", "-p", "1", "-o", "NETNSID").strip()
        return [each for each in found if str(each["nsid"]) != own]

    def tidy(self) -> None:
        """Take away what a test brought: our daemon's life and files, VFs, addresses outside."""
        self.berthd.stop()
        self.run("sh", "-c", f"rm -rf {_LEFT}")
        for nic in NICS:
            self.remove_vfs(nic)
            self.ip("link", "set", nic, "down")
            self.control.box.run("ip", "address", "flush", "dev", peer(nic))

    def ctr(self, *arguments: str) -> str:
        """Ask the runtime by its own program, about the containers of pods."""
        return self.run("ctr", "-n", "k8s.io", *arguments)

    def berth(self, *arguments: str) -> str:
        """Run the operator's command, as the node's administrator does."""
        return self.run("berth", *arguments)

    def ip(self, *arguments: str) -> str:
        """Call the program of that name."""
        return self.run("ip", *arguments)

    def add_nic(self, name: str) -> str:
        """Its NICs are there from the start."""
        raise NotImplementedError(name)

    def peer(self, nic: str) -> str:
        """The other end of a function's wire, which its VFs share."""
        return peer(nic)
