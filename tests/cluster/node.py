"""A node in its box: network, containerd, kubelet, NICs; started, stopped and rebooted."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from berth.errors import HostError
from tests.cluster import cgroups, images, nodeconfig
from tests.cluster.api import Object, condition
from tests.cluster.berthd import CONFIG, DRIVER, Berthd
from tests.cluster.boxes import ENVIRONMENT, LIMIT_S, Box, Daemon
from tests.cluster.controlplane import ADDRESS, ControlPlane
from tests.cluster.parts import KUBERNETES, Kind

CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
CONTAINERD_CONFIG = "/etc/containerd/config.toml"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
# What a test of our daemon may leave on a node.
BERTH_FOLDERS = ("/etc/berth", "/etc/cdi", "/run/berth", "/run/cdi", "/var/lib/berth")
KUBELET_CONFIG = "/var/lib/kubelet/config.yaml"


_OLDER_GATES = frozenset({"ResourceHealthStatus"})
# Of those that tests open; a kubelet does not start with one that it does not know.


class Node:
    """One node of a cluster.

    Args:
        control: The control plane it belongs to.
        kind: Which kubelet and containerd it runs.
        name: Its host name, and the Node object's; at most 10 characters, since links bear it.
        number: Its address and its pods' network come from it; unique in the cluster.
        cgroup: The control group under which its pods live.
    """

    def __init__(
        self, control: ControlPlane, kind: Kind, *, name: str, number: int, cgroup: str
    ) -> None:
        self.control = control
        self.kind = kind
        self.name = name
        self.address = f"10.98.0.{10 + number}"
        self.pod_subnet = f"10.99.{number}.0/24"
        self.box = Box(name, control.folder / name, node=True)
        self.run = self.box.run
        self.path = self.box.path
        self.gates: Mapping[str, bool] | None = None
        """Gates of its kubelet alone; without them it has the cluster's."""
        self.nics: dict[str, str] = {}
        """The node's NICs that the bed made, from name to MAC address."""
        self._cgroup = cgroup

    @property
    def object_path(self) -> str:
        """Where its Node object lies."""
        return f"/api/v1/nodes/{self.name}"

    @property
    def containerd(self) -> Daemon:
        """The runtime's process."""
        return self.box.daemons["containerd"]

    @property
    def kubelet(self) -> Daemon:
        """The process of kubelet."""
        return self.box.daemons["kubelet"]

    def start(self) -> None:
        """Boot it for the first time; returns when its Node object is Ready."""
        self.boot()

    def boot(self, *, before_kubelet: Callable[[], object] | None = None) -> None:
        """Switch it on; returns when its Node object is Ready and of this boot.

        Args:
            before_kubelet: Called when all but kubelet runs, as a service ordered before it.
        """
        # kubelet's cAdvisor loses 3 s on each group that an earlier boot left.
        cgroups.remove(self._cgroup)
        cgroups.make(self._cgroup)
        self.box.start()
        # The address must be there before kubelet: else it asks DNS for the host name.
        self._connect()
        for name, mac in self.nics.items():
            self._plug_in(name, mac)
        self._configure()
        self.start_containerd()
        if before_kubelet is not None:
            before_kubelet()
        self.start_kubelet()
        self.wait_ready()

    def power_off(self) -> None:
        """End every process at once, as a power cut would; its folders stay."""
        self.box.kill()
        self._close_berthd()
        cgroups.remove(self._cgroup)
        for link in [self.name, *map(self.peer, self.nics)]:
            # The kernel removes them with the other end, but when it likes.
            self.control.box.run("ip", "link", "delete", link, check=False)

    def shut_down(self) -> None:
        """End kubelet and runtime politely, then the rest."""
        for daemon in (self.kubelet, self.containerd):
            daemon.terminate()
        self.power_off()

    def reboot(self, *, before_kubelet: Callable[[], object] | None = None) -> None:
        """Cut the power and boot again: a new boot id, an empty `/run`, the same folders."""
        self.power_off()
        self.boot(before_kubelet=before_kubelet)

    def start_containerd(self) -> None:
        """Start the runtime and wait until it serves and has the images."""
        folder = self.kind.containerd_folder()
        self.box.spawn(
            "containerd",
            [str(folder / "containerd")],
            environment={"PATH": f"{folder}:{ENVIRONMENT['PATH']}"},
        )
        self._wait_for_socket(CONTAINERD_SOCKET, self.containerd)
        if images.BUSYBOX not in self.ctr("image", "list", "-q"):
            self.ctr("image", "import", "--no-unpack", str(images.archive()))

    def start_kubelet(self) -> None:
        """Start kubelet; `wait_ready` tells when it serves."""
        self.box.spawn(
            "kubelet",
            [
                *self.kind.kubelet_command(),
                f"--config={KUBELET_CONFIG}",
                f"--kubeconfig={nodeconfig.KUBELET_KUBECONFIG}",
                f"--node-ip={self.address}",
                f"--v={os.environ.get('BERTH_KUBELET_V', '2')}",
            ],
        )

    def wait_ready(self, limit_s: float = LIMIT_S) -> Object:
        """Wait until the Node object is Ready and tells of this boot; gives it.

        Raises:
            HostError: It was not so within the limit; the message ends with kubelet's last words.
        """

        def ready(node: Object) -> bool:
            boot_id = node["status"].get("nodeInfo", {}).get("bootID")
            return boot_id == self.box.boot_id and condition(node, "Ready") == "True"

        end = time.monotonic() + limit_s
        while True:
            # In short turns: a kubelet that ended makes no event at the API server.
            try:
                return self.control.api.wait(self.object_path, ready, limit_s=2)
            except HostError as error:
                if self.kubelet.alive and time.monotonic() < end:
                    continue
                said = self.kubelet.log_text()[-3000:]
                raise HostError(
                    f"node {self.name}", "not Ready", rule=f"{error}\n{said}"
                ) from error

    def change_gates(self, gates: Mapping[str, bool] | None) -> None:
        """Start kubelet anew with gates of its own, or with the cluster's for ``None``.

        What its Node declares follows within a moment: wait for that, if it matters.
        """
        self.gates = gates
        self.write(KUBELET_CONFIG, self._kubelet_config())
        self.kubelet.kill()
        self.start_kubelet()
        self.wait_ready()

    def add_nic(self, name: str = "nic0", *, mac: str = "") -> str:
        """Plug a NIC into the node, up and without an address; it is there again after a reboot.

        It is one end of a veth pair, so it dies with its namespace as no real NIC would.

        Returns:
            The name of its other end, in the control plane's network.
        """
        number, index = int(self.address.rpartition(".")[2]), len(self.nics)
        self.nics[name] = mac or f"02:be:00:00:{number:02x}:{index:02x}"
        self._plug_in(name, self.nics[name])
        return self.peer(name)

    def remove_nic(self, name: str) -> None:
        """Pull the NIC out, wherever its node's end is."""
        del self.nics[name]
        self.control.box.run("ip", "link", "delete", self.peer(name))

    def peer(self, nic: str) -> str:
        """The other end of a NIC, in the control plane's network."""
        return f"{self.name}-{nic}"

    @property
    def berthd(self) -> Berthd:
        """Our daemon's process, as `start_berthd` left it."""
        daemon = self.box.daemons["berthd"]
        assert isinstance(daemon, Berthd)
        return daemon

    def start_berthd(
        self, config: str, *, activated: bool = False, command: Sequence[str] = ()
    ) -> Berthd:
        """Start our daemon; `node.berthd.wait_ready()` tells when it serves.

        Args:
            config: The contents of `/etc/berth/agent.toml`.
            activated: Whether its sockets are held for it over restarts, as `berthd.socket` does.
            command: Another program in its place.
        """
        self._close_berthd()
        self.write(CONFIG, config)
        daemon = Berthd(self.box, activated=activated, command=command)
        self.box.daemons["berthd"] = daemon
        daemon.start()
        return daemon

    def _close_berthd(self) -> None:
        if "berthd" in self.box.daemons:
            self.berthd.close()
            del self.box.daemons["berthd"]

    def tidy(self) -> None:
        """Take away what a test brought: our daemon and its files, NICs, slices."""
        self._close_berthd()
        for name in tuple(self.nics):
            self.remove_nic(name)
        self.control.api.delete(f"{SLICES}?fieldSelector=spec.nodeName%3D{self.name}")
        doubtful = [f"/var/lib/kubelet/plugins/{DRIVER}", *BERTH_FOLDERS]
        registered = f"/var/lib/kubelet/plugins_registry/{DRIVER}-reg.sock"
        self.run("sh", "-c", f"rm -rf {registered} " + " ".join(f"{each}/*" for each in doubtful))

    def revive(self) -> None:
        """Have runtime and kubelet run again, whatever was done to them."""
        if not self.containerd.alive:
            self.start_containerd()
        if not self.kubelet.alive:
            self.start_kubelet()
            self.wait_ready()

    def ctr(self, *arguments: str) -> str:
        """Ask the runtime by its own program, about the containers of pods."""
        program = str(self.kind.containerd_folder() / "ctr")
        return self.run(program, "-n", "k8s.io", *arguments)

    def berth(self, *arguments: str) -> str:
        """Run the operator's command, as the node's administrator does."""
        return self.run(str(Path(sys.executable).with_name("berth")), *arguments)

    def ip(self, *arguments: str) -> str:
        """Call the program of that name on the node."""
        return self.run("ip", *arguments)

    def _connect(self) -> None:
        self._veth(self.name, "eth0")
        outside = self.control.box.run
        outside("ip", "link", "set", self.name, "master", "br0", "up")
        self.ip("address", "add", f"{self.address}/24", "dev", "eth0")
        self.ip("link", "set", "eth0", "up")
        self.ip("route", "add", "default", "via", ADDRESS)
        # Tests and other nodes reach its pods.
        outside("ip", "route", "replace", self.pod_subnet, "via", self.address)

    def _plug_in(self, name: str, mac: str) -> None:
        self._veth(self.peer(name), name)
        self.control.box.run("ip", "link", "set", self.peer(name), "up")
        self.ip("link", "set", name, "address", mac, "up")

    def _veth(self, outside: str, inside: str) -> None:
        # `netns` takes a process number: as seen out here, so only the network is entered.
        command = [*self.control.box.enter("--net"), "ip", "link", "add", outside, "type", "veth"]
        subprocess.run([*command, "peer", "name", inside, "netns", str(self.box.pid)], check=True)

    def _configure(self) -> None:
        kubeconfig, identity = self.control.node_kubeconfig(
            self.name, identity_file=nodeconfig.KUBELET_IDENTITY
        )
        files = {
            CONTAINERD_CONFIG: nodeconfig.containerd(self.kind.containerd_version()),
            "/etc/cni/net.d/10-pods.conflist": nodeconfig.pod_network(self.pod_subnet),
            KUBELET_CONFIG: self._kubelet_config(),
            nodeconfig.KUBELET_KUBECONFIG: kubeconfig,
            nodeconfig.KUBELET_IDENTITY: identity,
            nodeconfig.CA_FILE: self.control.authority.certificate.read_text(),
        }
        for name, text in files.items():
            self.write(name, text)

    def configure_kubelet(self, **fields: object) -> None:
        """Start kubelet with these settings beside the usual ones; returns when it is Ready."""
        self.kubelet.terminate()
        self.write(KUBELET_CONFIG, self._kubelet_config(**fields))
        # It refuses to start with what another policy of theirs has written.
        states = [f"/var/lib/kubelet/{each}_manager_state" for each in ("cpu", "memory")]
        self.run("rm", "-f", *states)
        self.start_kubelet()
        self.wait_ready()

    def _kubelet_config(self, **fields: object) -> str:
        root = f"/{self._cgroup}"
        return nodeconfig.kubelet(cgroup_root=root, gates=self._gates(), **fields)

    def _gates(self) -> Mapping[str, bool]:
        """The cluster's gates; a kubelet of another version is given those that it knows too."""
        gates = self.control.gates if self.gates is None else self.gates
        if self.kind.kubelet is KUBERNETES:
            return gates
        return {name: gates[name] for name in gates.keys() & _OLDER_GATES}

    def write(self, name: str, text: str) -> None:
        """Write a file of the node."""
        file = self.path(name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def _wait_for_socket(self, name: str, server: Daemon, limit_s: float = LIMIT_S) -> None:
        """Wait until a Unix socket of the node accepts; its file appears before that."""
        end = time.monotonic() + limit_s
        while time.monotonic() < end and server.alive:
            with socket.socket(socket.AF_UNIX) as client, contextlib.suppress(OSError):
                client.connect(str(self.path(name)))
                return
            time.sleep(0.02)
        raise HostError(f"{self.name}: {name}", "nobody serves it", rule=server.log_text()[-3000:])
