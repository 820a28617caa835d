"""The bed itself: what every test on a real cluster takes for granted."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import pytest

from tests.cluster.api import condition
from tests.cluster.bed import Cluster
from tests.cluster.node import Node
from tests.cluster.pods import is_running, pod, pod_path

# Stands in for our daemon: says READY=1, tells what it inherited, ends on TERM.
STAND_IN = """
import os, signal, socket, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
count = int(os.environ.get("LISTEN_FDS", "0"))
mine = os.environ.get("LISTEN_PID") == str(os.getpid())
names = [socket.socket(fileno=3 + place).getsockname() for place in range(count)]
print("inherited", count, mine, os.environ.get("LISTEN_FDNAMES"), *names, flush=True)
with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
    notify.connect(os.environ["NOTIFY_SOCKET"])
    notify.send(b"STATUS=here\\nREADY=1")
while True:
    signal.pause()
"""


def test_control_plane_serves_resource_v1_with_default_gates(cluster: Cluster) -> None:
    """The API server is 1.37 and serves the API that our slices and claims belong to."""

    version = cluster.api.get("/version")
    served = cluster.api.get("/apis/resource.k8s.io")

    assert version["gitVersion"] == "v1.37.2"
    assert "v1" in {each["version"] for each in served["versions"]}


def test_pod_without_devices_runs_on_each_kind_of_node(
    cluster: Cluster, node: Node, namespace: str
) -> None:
    """Each pair of kubelet and containerd becomes a Ready node that runs a pod and runs in it."""

    cluster.run_pod(pod(namespace, "plain", node=node.name))

    assert condition(cluster.api.get(node.object_path), "Ready") == "True"
    assert cluster.exec(namespace, "plain", "hostname") == "plain\n"
    cluster.delete_pod(namespace, "plain")


def test_node_reports_the_versions_of_its_kind(cluster: Cluster, node: Node) -> None:
    """A kind's name tells the kubelet and the containerd that the node really runs."""

    info = cluster.api.get(node.object_path)["status"]["nodeInfo"]
    kubelet, containerd = node.kind.name.split("+")

    assert info["kubeletVersion"].startswith(f"v{kubelet}.")
    assert info["containerRuntimeVersion"].startswith(f"containerd://{containerd}.")


def test_kubelet_and_runtime_offer_what_our_daemon_talks_to(node: Node) -> None:
    """The plugin registry, the DRA manager's state, PodResources and the NRI socket are there."""

    assert node.path("/var/lib/kubelet/plugins_registry").is_dir()
    assert node.path("/var/lib/kubelet/dra_manager_state").is_file()
    assert node.path("/var/lib/kubelet/device-plugins/kubelet.sock").is_socket()
    assert node.path("/var/lib/kubelet/pod-resources/kubelet.sock").is_socket()
    assert node.path("/run/nri/nri.sock").is_socket()


def test_rebooted_node_runs_its_pod_again(cluster: Cluster, node: Node, namespace: str) -> None:
    """After a power cut the node has a new boot id and an empty `/run`, and its pod comes back."""

    plain = pod(namespace, "plain", node=node.name, restartPolicy="Always")
    before = cluster.run_pod(plain)
    old_boot = cluster.api.get(node.object_path)["status"]["nodeInfo"]["bootID"]
    node.path("/run/of-the-old-boot").touch()
    node.path("/var/lib/berth/kept").touch()
    was = before["status"]["containerStatuses"][0]["containerID"]

    node.reboot()

    cluster.api.wait(
        pod_path(namespace, "plain"),
        lambda now: is_running(now) and now["status"]["containerStatuses"][0]["containerID"] != was,
    )
    now = cluster.api.get(node.object_path)["status"]["nodeInfo"]["bootID"]
    assert now != old_boot
    assert node.run("cat", "/proc/sys/kernel/random/boot_id") == f"{now}\n"
    assert not node.path("/run/of-the-old-boot").exists()
    assert node.path("/var/lib/berth/kept").exists()


def test_plugged_nic_is_a_link_of_the_node_and_survives_a_reboot(
    cluster: Cluster, node137: Node
) -> None:
    """A NIC shows up under its name and MAC, reaches its other end, and is there after a reboot."""

    peer = node137.add_nic("nic0", mac="02:be:00:00:99:01")
    node137.ip("address", "add", "192.0.2.1/24", "dev", "nic0")
    cluster.control.box.run("ip", "address", "add", "192.0.2.2/24", "dev", peer)

    node137.run("busybox", "ping", "-c", "1", "-w", "10", "192.0.2.2")
    node137.reboot()

    assert node137.path("/sys/class/net/nic0/address").read_text() == "02:be:00:00:99:01\n"


@pytest.mark.parametrize("activated", [False, True])
def test_daemon_on_a_node_tells_that_it_is_ready_and_can_be_ended_both_ways(
    node137: Node, activated: bool
) -> None:
    """READY=1 arrives; TERM gives its exit code, a kill the signal; a restart is ready again."""

    command = [sys.executable, "-c", textwrap.dedent(STAND_IN)]
    berthd = node137.start_berthd("[node]\n", command=command, activated=activated)

    assert berthd.wait_ready() == ["STATUS=here", "READY=1"]
    assert node137.path("/etc/berth/agent.toml").read_text() == "[node]\n"
    assert berthd.kill() == -9
    berthd.start()
    berthd.wait_ready()
    assert berthd.terminate() == 0


def test_what_runs_before_kubelet_at_a_boot_is_there_before_it(node137: Node) -> None:
    """A daemon can be ready before kubelet's first pod sync, as a unit ordered before it is."""

    command = [sys.executable, "-c", textwrap.dedent(STAND_IN)]
    kubelet_was_up = []

    def before_kubelet() -> None:
        node137.start_berthd("", command=command).wait_ready()
        kubelet_was_up.append(node137.kubelet.alive)

    node137.reboot(before_kubelet=before_kubelet)

    assert kubelet_was_up == [False]
    assert node137.berthd.alive


def test_node_is_put_in_order_after_whatever_a_test_did_to_it(node137: Node) -> None:
    """Dead kubelet and runtime run again; the daemon, its files and the NICs are gone."""

    node137.start_berthd("[node]\n", command=["sleep", "infinity"], activated=True)
    node137.add_nic("nic0")
    node137.kubelet.kill()
    node137.containerd.kill()

    node137.revive()
    node137.tidy()

    assert node137.kubelet.alive
    assert node137.containerd.alive
    assert "berthd" not in node137.box.daemons
    assert not node137.path("/etc/berth/agent.toml").exists()
    assert not node137.path("/var/lib/kubelet/plugins_registry/berth.dev-reg.sock").exists()
    assert not node137.path("/sys/class/net/nic0").exists()


def test_scheduler_gives_a_pod_the_device_that_the_node_itself_published(
    cluster: Cluster, node: Node, namespace: str
) -> None:
    """With the node's certificate alone a slice is published, and a claim is allocated from it."""

    identity = cluster.control.api_as("itself", f"/O=system:nodes/CN=system:node:{node.name}")
    identity.create(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"generateName": f"{node.name}-"},
            "spec": {
                "driver": "bed.berth.dev",
                "nodeName": node.name,
                "pool": {"name": node.name, "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": "one"}],
            },
        }
    )
    cluster.api.apply(
        f"""
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {{name: bed}}
spec:
  selectors:
  - cel: {{expression: 'device.driver == "bed.berth.dev"'}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {{name: one, namespace: {namespace}}}
spec:
  devices:
    requests:
    - {{name: any, exactly: {{deviceClassName: bed}}}}
"""
    )

    cluster.api.create(
        pod(namespace, "user", node=node.name, claims={"it": {"resourceClaimName": "one"}})
    )

    claim = cluster.api.wait(
        f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/one",
        lambda now: "allocation" in now.get("status", {}),
    )
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    assert (result["pool"], result["device"]) == (node.name, "one")


def test_held_sockets_keep_their_names_and_outlive_the_daemon(node137: Node) -> None:
    """A daemon gets both sockets from fd 3 on, under the node's paths, at its start and restart."""

    command = [sys.executable, "-c", textwrap.dedent(STAND_IN)]
    berthd = node137.start_berthd("", command=command, activated=True)
    berthd.wait_ready()
    inode = node137.path("/var/lib/kubelet/plugins/berth.dev/dra.sock").stat().st_ino
    berthd.kill()
    berthd.start()
    berthd.wait_ready()

    told = (
        "inherited 2 True berthd.socket:berthd.socket /var/lib/kubelet/plugins/berth.dev/dra.sock"
        " /var/lib/kubelet/plugins_registry/berth.dev-reg.sock"
    )
    assert berthd.log_text().splitlines().count(told) == 2
    assert node137.path("/var/lib/kubelet/plugins/berth.dev/dra.sock").stat().st_ino == inode


def test_daemon_that_ends_before_it_is_ready_is_reported_with_its_words(node137: Node) -> None:
    """Nobody waits a minute for a daemon that is dead."""

    command = ["sh", "-c", "echo my last words; exit 4"]
    berthd = node137.start_berthd("", command=command)

    with pytest.raises(Exception, match="my last words"):
        berthd.wait_ready()
    assert berthd.wait() == 4


def test_a_second_cluster_with_gates_runs_beside_the_first(
    request: pytest.FixtureRequest, cluster: Cluster
) -> None:
    """Gates are set on every component: the node declares what an alpha gate brings."""

    bed = request.getfixturevalue("bed")
    with bed.cluster(gates={"DRAOptionalNodeOperations": True}) as gated:
        node = gated.node("1.37+2.4")

        declared = gated.api.get(node.object_path)["status"]["declaredFeatures"]

    assert "DRAOptionalNodeOperations" in declared
    assert Path("/proc").joinpath(str(cluster.control.box.pid)).exists()
