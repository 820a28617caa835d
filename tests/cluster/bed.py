"""The test bed: clusters of a control plane and nodes, each started when it is first asked for."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from berth.errors import HostError
from tests.cluster import parts
from tests.cluster.api import Api, Object
from tests.cluster.boxes import LIMIT_S, Box
from tests.cluster.controlplane import ControlPlane
from tests.cluster.gates import Gates
from tests.cluster.gobuild import build
from tests.cluster.node import Node
from tests.cluster.pods import is_running, pod_path
from tests.cluster.rundir import RunFolder

# kubelet asks for a pod's claim before the authorizer has seen that the pod is on its node; it does
# so with every driver, and tries again a minute later.
AUTHORIZER_LAGS = "no relationship found between node"
# kubelet finds that a driver's socket was made anew, as each test's daemon makes it: first it takes
# the old driver for the new one, then it drops it, and has the new one a second later.
KUBELET_LAGS = "DRA driver berth.dev is not registered"
NODE_NAMES = {"1.37+2.4": "node137", "1.37+2.1": "node21", "1.34+1.7": "node134"}


class Cluster:
    """One control plane and its nodes.

    Args:
        folder: Where all its files lie.
        cgroup: The control group of all its nodes.
        gates: Feature gates that differ from their defaults, on every component.
    """

    def __init__(self, folder: Path, *, cgroup: str, gates: Mapping[str, bool]) -> None:
        folder.mkdir(parents=True)
        self.control = ControlPlane(folder, gates)
        self.nodes: dict[str, Node] = {}
        self._cgroup = cgroup
        self._numbers = 0

    @property
    def api(self) -> Api:
        """The API server, asked as an administrator."""
        return self.control.api

    @property
    def boxes(self) -> list[Box]:
        """The control plane's and every node's."""
        return [self.control.box, *(node.box for node in self.nodes.values())]

    def start(self) -> None:
        """Bring the control plane up."""
        self.control.start()
        # No pod is admitted before it.
        self.api.wait("/api/v1/namespaces/default/serviceaccounts/default", bool)

    def stop(self) -> None:
        """End everything at once."""
        for node in self.nodes.values():
            node.power_off()
        self.nodes.clear()
        self.control.stop()

    def node(self, kind: str, *, name: str = "") -> Node:
        """The node of that name, started when it is not there yet; Ready.

        Args:
            kind: A key of `parts.KINDS`, such as `1.37+2.4`.
            name: Its name; without one there is one node of each kind.
        """
        name = name or NODE_NAMES[kind]
        if name not in self.nodes:
            node = self.make_node(kind, name=name)
            node.start()
        return self.nodes[name]

    def make_node(self, kind: str, *, name: str) -> Node:
        """A node that is not started yet: for tests that want things in place before kubelet."""
        self._numbers += 1
        self.nodes[name] = Node(
            self.control,
            parts.KINDS[kind],
            name=name,
            number=self._numbers,
            cgroup=f"{self._cgroup}/{name}",
        )
        return self.nodes[name]

    def discard(self, node: Node) -> None:
        """End a node and forget it and its pods, whatever state they are in."""
        node.power_off()
        self.nodes.pop(node.name, None)
        on_it = f"spec.nodeName={node.name}"
        for pod in self.api.items("/api/v1/pods", fieldSelector=on_it):
            self.api.delete(_path_of(pod), grace_s=0)
        self.api.delete(node.object_path)

    def drain(self, name: str, *, limit_s: float = LIMIT_S) -> None:
        """Delete every pod of a node and wait until they are gone.

        Raises:
            HostError: One is still there after the limit.
        """
        on_it = f"spec.nodeName={name}"
        for pod in self.api.items("/api/v1/pods", fieldSelector=on_it):
            self.api.delete(_path_of(pod), grace_s=1)
        self.api.wait_all(
            "/api/v1/pods",
            lambda left: not left,
            what=f"{name} drained",
            limit_s=limit_s,
            fieldSelector=on_it,
        )

    def run_pod(self, pod: Object, *, limit_s: float = LIMIT_S) -> Object:
        """Create a pod and wait until it runs; gives it as it is then.

        Raises:
            HostError: It did not run within the limit; the message tells the pod's events.
        """
        self.api.create(pod)
        return self.wait_running(pod, limit_s=limit_s)

    def wait_running(self, pod: Object, *, limit_s: float = LIMIT_S) -> Object:
        """Wait until a pod runs; gives it as it is then.

        Raises:
            HostError: It did not run within the limit; the message tells the pod's events.
        """
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        path = pod_path(namespace, name)
        end = time.monotonic() + limit_s
        while True:
            try:
                return self.api.wait(path, is_running, limit_s=min(limit_s, 3))
            except HostError as error:
                told = "\n".join(self.pod_events(namespace, name))
                if time.monotonic() > end:
                    raise HostError(
                        f"pod {name}", "does not run", rule=f"{error}\n{told}"
                    ) from error
            if AUTHORIZER_LAGS in told or KUBELET_LAGS in told:
                self.nudge(namespace, name)

    def nudge(self, namespace: str, name: str) -> None:
        """Have kubelet look at a pod again now, rather than 60 to 90 s after a failed prepare."""
        changed = {"metadata": {"annotations": {"nudged": str(time.monotonic())}}}
        self.api.merge(pod_path(namespace, name), changed)

    def delete_pod(self, namespace: str, name: str, *, limit_s: float = LIMIT_S) -> None:
        """Delete a pod and wait until it is gone.

        Raises:
            HostError: It is still there after the limit.
        """
        self.api.delete(pod_path(namespace, name))
        self.api.wait_gone(pod_path(namespace, name), limit_s=limit_s)

    def pod_events(self, namespace: str, name: str) -> list[str]:
        """What was told about a pod, oldest first: `reason: message`."""
        found = self.api.items(
            f"/api/v1/namespaces/{namespace}/events",
            fieldSelector=f"involvedObject.kind=Pod,involvedObject.name={name}",
        )
        found.sort(key=lambda event: str(event["metadata"]["creationTimestamp"]))
        return [f"{event['reason']}: {event['message']}" for event in found]

    def exec(self, namespace: str, name: str, *command: str) -> str:
        """Run a command in a pod's container; gives what it wrote to stdout.

        Raises:
            HostError: It failed.
        """
        return self.kubectl("exec", "-n", namespace, name, "--", *command)

    def kubectl(self, *arguments: str, given: str | None = None) -> str:
        """Run kubectl as an administrator; gives what it wrote to stdout.

        Raises:
            HostError: It failed, with what it said.
        """
        kubectl = str(build(parts.KUBERNETES) / "kubectl")
        kubeconfig = f"--kubeconfig={self.control.kubeconfig}"
        return self.control.box.run(kubectl, kubeconfig, *arguments, given=given)


class Bed:
    """One run of the test bed; `close` leaves nothing behind."""

    def __init__(self) -> None:
        self.folder = RunFolder()
        self.clusters: list[Cluster] = []
        self._shared: dict[Gates, Cluster] = {}

    def start_cluster(self, *, gates: Mapping[str, bool] | None = None) -> Cluster:
        """A cluster more, its control plane ready; it lives until `stop_cluster` or `close`."""
        name = f"cluster{len(self.clusters)}"
        cluster = Cluster(
            self.folder.path / name, cgroup=f"{self.folder.cgroup}/{name}", gates=gates or {}
        )
        self.clusters.append(cluster)
        cluster.start()
        return cluster

    @contextlib.contextmanager
    def cluster(self, *, gates: Mapping[str, bool] | None = None) -> Iterator[Cluster]:
        """A cluster for the time of the block."""
        cluster = self.start_cluster(gates=gates)
        try:
            yield cluster
        finally:
            cluster.stop()

    def shared(self, gates: Gates) -> Cluster:
        """The cluster of the run that has its gates so, started when it is first asked for."""
        if gates not in self._shared:
            self._shared[gates] = self.start_cluster(gates=gates.flags)
        return self._shared[gates]

    def close(self) -> None:
        """End all clusters; the folder stays when `$BERTH_KEEP` is set, for a look at its logs."""
        for cluster in self.clusters:
            cluster.stop()
        self.folder.close(keep=bool(os.environ.get("BERTH_KEEP")))


def _path_of(pod: Object) -> str:
    return pod_path(pod["metadata"]["namespace"], pod["metadata"]["name"])


def missing() -> list[str]:
    """What this machine lacks for a bed, each as a short phrase; empty when all is there."""
    lacks = []
    if os.geteuid() != 0:
        lacks.append("root")
    if not Path("/sys/fs/cgroup/memory/cgroup.procs").exists():
        lacks.append("cgroup v1 hierarchies (v2 alone was never tried)")
    if "overlay" not in Path("/proc/filesystems").read_text():
        lacks.append("overlayfs")
    tried = subprocess.run(
        ["unshare", "--net", "--mount", "--pid", "--uts", "--fork", "true"],
        check=False,
        capture_output=True,
    )
    if tried.returncode:
        lacks.append("the right to make namespaces")
    return lacks
