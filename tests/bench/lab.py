"""A real node with our daemon on it, and what the rows of the bench do there."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Final

from berth.control import FOLDER as RUNTIME
from berth.control import ControlClient
from berth.errors import HostError
from tests.cluster.api import Object
from tests.cluster.bed import Cluster
from tests.cluster.berthd import DRIVER, Berthd, socket_paths
from tests.cluster.node import SLICES, Node
from tests.cluster.pods import is_running, pod, pod_path

ROOT: Final = Path(__file__).parents[2]
NIC: Final = "nic0"
BARE: Final = "bare0"
"""A link of the same kind that no group selects."""
LATE: Final = tuple(f"late{number}" for number in range(10))
LIMIT_S: Final = 60.0
WATCHED_S: Final = 0.3
"""Within it a watch that was asked for is there."""


def settings() -> str:
    """What the daemon is told: one NIC, and those that will be plugged in."""
    names = ", ".join(f'"{name}"' for name in (NIC, *LATE))
    return f'[[nic.group]]\nname = "lab"\nmatch = {{ name = [{names}] }}\n'


class Lab:
    """One node, our daemon and one NIC.

    Args:
        cluster: Of the node.
        node: With no NIC and no daemon yet.
    """

    def __init__(self, cluster: Cluster, node: Node) -> None:
        self.cluster = cluster
        self.node = node
        self.api = cluster.api
        for name in (NIC, BARE):
            node.add_nic(name)

    def start(self) -> tuple[Berthd, float]:
        """Start the daemon anew, its sockets held as by systemd.

        Returns:
            The daemon, and how long it took until READY, in seconds.
        """
        began = time.perf_counter()
        if "berthd" in self.node.box.daemons:
            self.node.berthd.terminate()
            began = time.perf_counter()
            self.node.berthd.start()
        else:
            # Sockets are bound and a file is written: a few ms that count against it.
            self.node.start_berthd(settings(), activated=True)
        self.node.berthd.wait_ready()
        return self.node.berthd, time.perf_counter() - began

    def wait_offered(self, *names: str) -> None:
        """Wait until the node's slices hold these NICs and no other."""
        wanted = {f"nic-lab-{name}" for name in names}

        def ready(slices: dict[str, Object]) -> bool:
            return _devices(slices) == wanted

        self.api.wait_all(
            SLICES,
            ready,
            what=f"slices with {sorted(wanted)}",
            limit_s=LIMIT_S,
            fieldSelector=f"spec.nodeName={self.node.name}",
        )

    def rounds_of_prepare(self, rounds: int) -> dict[str, list[float]]:
        """Prepare and undo one claim so often, as kubelet would; times in milliseconds.

        Kubelet itself is stopped, so that the claim of a pod that is bound here is ours to prepare.
        """
        self.node.kubelet.terminate()
        self._create("caller", with_nic=True)
        try:
            claim = self._allocated("caller")
            job = {
                "socket": str(self.node.path(socket_paths()[0])),
                "claim": {key: claim["metadata"][key] for key in ("namespace", "name", "uid")},
                "link": BARE,
                "rounds": rounds,
            }
            return self._call_driver(job)
        finally:
            self.api.delete(pod_path("default", "caller"), grace_s=0)
            self.node.start_kubelet()
            self.node.wait_ready()

    def start_pod(self, name: str, *, with_nic: bool) -> float:
        """Create a pod and wait until it runs; gives the seconds between."""
        began = time.perf_counter()
        self._create(name, with_nic=with_nic)
        self.wait_running(name)
        return time.perf_counter() - began

    def wait_running(self, name: str) -> Object:
        """Wait until a pod runs."""
        try:
            return self.api.wait(pod_path("default", name), is_running, limit_s=LIMIT_S)
        except HostError as error:
            told = "\n".join(self.cluster.pod_events("default", name))
            raise HostError(f"pod {name}", "does not run", rule=f"{error}\n{told}") from error

    def end_pod(self, name: str) -> None:
        """Delete a pod and wait until it is gone."""
        self.api.delete(pod_path("default", name), grace_s=1)
        self.api.wait_gone(pod_path("default", name), limit_s=LIMIT_S)

    def succeed_pod(self, old: str, new: str) -> float:
        """Delete a running pod by force and create its successor; seconds until that runs."""
        began = time.perf_counter()
        self.api.delete(pod_path("default", old), grace_s=0)
        self._create(new, with_nic=True)
        self.wait_running(new)
        return time.perf_counter() - began

    def plug_in(self, name: str) -> float:
        """Plug a NIC in; gives the seconds from the kernel's event to the slice that has it."""
        appeared = LinkWatch(self.node, name)
        told: list[float] = []
        waiter = threading.Thread(target=lambda: told.append(self._slice_with(name)))
        waiter.start()
        self.node.add_nic(name)
        waiter.join(LIMIT_S)
        assert told, f"{name} came into no slice"
        return told[0] - appeared.at()

    def change_health(self, pod: str, verb: str, health: str, *, reason: str = "") -> float:
        """Change a person's word of the NIC; gives the seconds until a pod's status says so.

        They count from the question: the word is on disk before it counts, and that is in them.
        """
        told: list[float] = []

        def says(now: Object) -> bool:
            return _health_of(now) == health

        def wait() -> None:
            self.api.wait(pod_path("default", pod), says, what=health, limit_s=LIMIT_S)
            told.append(time.perf_counter())

        waiter = threading.Thread(target=wait)
        waiter.start()
        time.sleep(WATCHED_S)
        client = ControlClient(self.node.path(str(RUNTIME)))
        began = time.perf_counter()
        client.ask(verb, device=f"nic-lab-{NIC}", reason=reason)
        client.close()
        waiter.join(LIMIT_S)
        assert told, f"pod {pod} is not told that its NIC is {health}"
        return told[0] - began

    def writes(self) -> float:
        """Requests so far that would change a slice or a claim, as the API server counts them."""
        text = self.api.request("GET", "/metrics")
        return sum(
            float(line.rpartition(" ")[2])
            for line in text.splitlines()
            if line.startswith("apiserver_request_total{")
            and any(f'resource="{kind}"' in line for kind in ("resourceslices", "resourceclaims"))
            and any(
                f'verb="{verb}"' in line for verb in ("POST", "PUT", "PATCH", "APPLY", "DELETE")
            )
        )

    def _slice_with(self, name: str) -> float:
        def ready(slices: dict[str, Object]) -> bool:
            return f"nic-lab-{name}" in _devices(slices)

        self.api.wait_all(
            SLICES,
            ready,
            what=name,
            limit_s=LIMIT_S,
            fieldSelector=f"spec.nodeName={self.node.name}",
        )
        return time.perf_counter()

    def _create(self, name: str, *, with_nic: bool) -> None:
        claims = {"nic": {"resourceClaimTemplateName": "nic"}} if with_nic else None
        self.api.create(pod("default", name, node=self.node.name, claims=claims))

    def _allocated(self, name: str) -> Object:
        """The claim of a pod, once it is reserved and the pod is bound."""
        bound = self.api.wait(
            pod_path("default", name), lambda seen: seen["spec"].get("nodeName"), limit_s=LIMIT_S
        )
        claim = bound["status"]["resourceClaimStatuses"][0]["resourceClaimName"]
        found: Object = self.api.get(
            f"/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/{claim}"
        )
        return found

    def _call_driver(self, job: dict[str, Any]) -> dict[str, list[float]]:
        done = subprocess.run(
            [*self.node.box.enter("--net"), sys.executable, "-m", "tests.bench.dracaller"],
            input=json.dumps(job),
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
        )
        if done.returncode:
            raise HostError(
                "prepare", done.stderr[-2000:], rule=self.node.berthd.log_text()[-2000:]
            )
        times: dict[str, list[float]] = json.loads(done.stdout)
        return times


class LinkWatch:
    """The moment at which a link appears, by the kernel's own event.

    Args:
        node: In whose network.
        name: Of the link.
    """

    def __init__(self, node: Node, name: str) -> None:
        self._name = name.encode() + b"\0"
        self._socket = node.box.socket(socket.AF_NETLINK, socket.SOCK_RAW)
        self._socket.bind((0, 1))
        self._socket.settimeout(LIMIT_S)
        self._seen: list[float] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def at(self) -> float:
        """When it was, on the clock of `time.perf_counter`."""
        self._reader.join(LIMIT_S)
        return self._seen[0]

    def _read(self) -> None:
        with self._socket:
            while self._name not in self._socket.recv(65536):
                pass
        self._seen.append(time.perf_counter())


def template() -> Object:
    """The template of every pod's claim: one NIC with an address."""
    parameters = {
        "apiVersion": f"{DRIVER}/v1alpha1",
        "kind": "NicConfig",
        "interface": {"name": "net1"},
        "addresses": [{"address": "192.0.2.10/24"}],
    }
    devices = {
        "requests": [{"name": "nic", "exactly": {"deviceClassName": f"nic.{DRIVER}"}}],
        "config": [{"opaque": {"driver": DRIVER, "parameters": parameters}}],
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "nic", "namespace": "default"},
        "spec": {"spec": {"devices": devices}},
    }


def _health_of(pod: Object) -> str:
    """What a pod's status says of its NIC; empty where it says nothing."""
    (status,) = pod["status"]["containerStatuses"]
    found = (
        each["health"]
        for resource in status.get("allocatedResourcesStatus", ())
        if resource["name"] == "claim:nic"
        for each in resource["resources"]
    )
    return next(found, "")


def _devices(slices: dict[str, Object]) -> set[str]:
    return {each["name"] for item in slices.values() for each in item["spec"].get("devices") or ()}
