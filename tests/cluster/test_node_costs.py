"""Devices that cost the node of its own resources, counted by a real scheduler and kubelet."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from berth.errors import KubeError
from berth.rehearsal.nvml.cards import whole
from tests.cluster.api import Object
from tests.cluster.claimforms import request
from tests.cluster.costcases import CAPACITIES, COST_CASES
from tests.cluster.gates import Gates
from tests.cluster.gpumachine import GpuMachine
from tests.cluster.node import SLICES
from tests.cluster.pods import container, is_running
from tests.cluster.site import Site
from tests.nvml import need_compiler

CARD = whole(0, "0000:1b:00.0")
GPU = "gpu-0000-1b-00-0"
CONFIG = """
[[gpu.group]]
name = "gpus"
match = { type = ["gpu"] }
inject = "cdi"
share = { slots = 2, memory = "divide" }
node_cost = { memory = { capacity = "memory", times = "1m", pod = "8Mi" } }

[[generic]]
name = "fpga"
match = { path = "/dev/zero" }
node_cost = { cpu = { device = "1500m" } }

[[generic]]
name = "serial"
match = { path = "/dev/full" }
count = 3
node_cost = { cpu = { capacity = "slots", times = "300m" } }

[[generic]]
name = "helper"
match = { path = "/dev/null" }
node_cost = { cpu = { pod = "100m", container = "10m" }, memory = { container = "4Mi" } }

[[nic.group]]
name = "lan"
match = { name = ["nic0"] }
mode = "shared"
shared = { slots = 3, bandwidth = "3G" }
node_cost = { memory = { capacity = "bandwidth", times = "10m" } }
"""
"""One of each way to pay, and of each kind of device."""
OFFERS = (GPU, "fpga-zero", "serial-full", "helper-null", "nic-lan-nic0")


_SLICE = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice"}


@pytest.fixture(name="machine", scope="module")
def _machine() -> Iterator[GpuMachine]:
    """One GPU."""
    need_compiler()
    with tempfile.TemporaryDirectory(prefix="berth-costs-", dir="/var/tmp") as folder:
        yield GpuMachine(Path(folder), (CARD,))


@pytest.fixture(name="counting", scope="module")
def _counting(shared_alpha_site: Site, machine: GpuMachine) -> Site:
    """A cluster that counts what devices cost, with all of them offered."""
    start(shared_alpha_site, machine)
    return shared_alpha_site


def start(site: Site, machine: GpuMachine) -> None:
    """Start the daemon with all that costs something."""
    if "nic0" not in site.node.nics:
        site.node.add_nic("nic0")
    config = f"{machine.config}{CONFIG}"
    site.node.start_berthd(config, command=machine.command, activated=True).wait_ready()
    site.wait_registered()


def costs(site: Site) -> dict[str, object]:
    """What slices tell of the cost of each device, by its name; only of such as cost anything."""
    return {
        name: device["nodeAllocatableResources"]
        for name, device in site.wait_offered(OFFERS).items()
        if "nodeAllocatableResources" in device
    }


def paid(pod: Object) -> object:
    """What the scheduler counted for the pod's only claim, by resource."""
    (claim,) = pod["status"]["nodeAllocatableResourceClaimStatuses"]
    return {
        **{each["name"]: each["quantity"] for each in claim.get("mapping", ())},
        **{
            f"{each['name']} over": (each.get("perPod"), each.get("perContainer"))
            for each in claim.get("overhead", ())
        },
    }


def slice_of(spec: Object) -> Object:
    """A slice with a name from the server."""
    metadata = {"generateName": "x-"}
    return {**_SLICE, "metadata": metadata, "spec": spec}


def not_accounted(site: Site, why: str) -> bool:
    """Whether the operator reads that no cost is accounted, with this reason."""
    told = "node_cost of fpga, gpus, helper, lan, serial is not accounted: "
    warnings = json.loads(site.berth("devices", "--json"))["warnings"]
    return any(each.startswith(told + why) for each in warnings)


def needs(*claims: str, **requests: str) -> list[Object]:
    """A container that asks for that much of the node, and refers to claims."""
    resources = {"requests": requests, "claims": [{"name": each} for each in claims]}
    return [container("main", resources=resources)]


@pytest.mark.parametrize(
    ("of", "group", "counted"),
    [
        ("generic", "fpga", {"cpu": "1500m"}),
        ("generic", "serial", {"cpu": "300m"}),
        ("generic", "helper", {"cpu over": ("100m", "10m"), "memory over": (None, "4Mi")}),
        ("gpu", "gpus", {"memory": "42759880704m", "memory over": ("8Mi", None)}),
        ("nic-shared", "lan", {"memory": "10M"}),
    ],
)
def test_each_kind_of_device_is_paid_for(
    counting: Site, of: str, group: str, counted: object
) -> None:
    """By the device, by what the claim consumes of it, by the pod and by the container."""

    assert costs(counting).keys() == {*OFFERS}
    counting.claim(group, request("d", of=of, cel=f'own.group == "{group}"'))
    pod = counting.run(f"pays-{group}", group)

    assert paid(pod.now) == counted
    pod.delete()
    counting.api.delete(counting.claim_path(group))


def test_node_has_less_room_while_a_pod_has_the_device(counting: Site) -> None:
    """Pods wait for the CPU that another's device costs, and run when it is free.

    A pod with a claim is looked at again since the other's claim is. For the end of a pod without
    one a scheduler of 1.37 lets it wait for some minutes: it asks the claims, not the pods.
    """

    counting.claim("room", request("d", of="generic", cel='own.group == "fpga"'))
    counting.claim("little", request("d", of="generic", cel='own.group == "serial"'))
    holder = counting.run("holder", "room")
    plain = counting.create("plain", containers=needs(cpu="1"))
    claiming = counting.create("claiming", "little", containers=needs("little", cpu="500m"))
    for pod in (plain, claiming):
        assert "Insufficient cpu" in pod.wait_event("FailedScheduling")
    holder.delete()

    for pod in (plain, claiming):
        pod.wait(is_running, what="runs")
        pod.delete()
    counting.api.delete(counting.claim_path("room"))


def test_container_may_use_what_its_device_costs(counting: Site) -> None:
    """Kubelet widens the limit of who refers to the claim, and of nobody else."""

    counting.claim("wide", request("d", of="generic", cel='own.group == "helper"'))
    limits = {"limits": {"memory": "16Mi"}}
    user = container("main", resources={**limits, "claims": [{"name": "wide"}]})
    pod = counting.run("widened", "wide", containers=[user, container("beside", resources=limits)])

    limit = "/sys/fs/cgroup/memory/memory.limit_in_bytes"
    found = [int(pod.run("cat", limit, container=name)) >> 20 for name in ("main", "beside")]
    assert found == [20, 16]
    pod.delete()


def test_claim_that_pays_by_the_device_is_one_pods_alone(counting: Site) -> None:
    """What is counted once cannot be two pods'; what each pod pays can."""

    counting.claim("alone", request("d", of="generic", cel='own.group == "fpga"'))
    counting.claim("shared", request("d", of="generic", cel='own.group == "helper"'))
    first = counting.run("first", "alone", "shared")

    second = counting.run("second", "shared")
    third = counting.create("third", "alone")
    assert "cannot be shared across pods" in third.wait_event("FailedScheduling")
    for pod in (first, second, third):
        pod.delete()


@pytest.mark.parametrize("name", COST_CASES)
def test_cost_is_taken_by_the_server_as_by_its_stand_in(counting: Site, name: str) -> None:
    """The same places at fault, on the device whose cost it is."""

    cost, places = COST_CASES[name]
    device = {"name": "a", "capacity": CAPACITIES, "nodeAllocatableResources": cost}
    pool = {"name": f"{counting.node.name}/x", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "x.dev", "pool": pool, "nodeName": counting.node.name, "devices": [device]}
    found = set[str]()
    try:
        counting.api.create(slice_of(spec))
    except KubeError as error:
        found.update(re.findall(r"nodeAllocatableResources([^:]*): ", str(error)))

    assert found == {*places}


def test_kubelet_that_does_not_count_is_told_nothing(counting: Site, machine: GpuMachine) -> None:
    """The server refuses its slices as long as these tell a cost: they do without it."""

    node = counting.node
    node.berthd.terminate()
    for item in counting.api.items(SLICES, fieldSelector=f"spec.nodeName={node.name}"):
        counting.api.delete(f"{SLICES}/{item['metadata']['name']}")
    node.change_gates(Gates.DEFAULT.flags)
    try:
        before = len(counting.log_lines("registered with kubelet"))
        node.berthd.start()
        node.berthd.wait_ready()
        counting.wait_same(
            "registration",
            lambda: len(counting.log_lines("registered with kubelet")) > before,
            True,
            limit_s=20,
        )
        assert costs(counting) == {}
        counting.claim("undeclared", request("d", of="generic", cel='own.group == "fpga"'))
        pod = counting.run("undeclared", "undeclared")

        assert "nodeAllocatableResourceClaimStatuses" not in pod.now["status"]
        assert not_accounted(counting, "the node does not declare it")
        pod.delete()
    finally:
        node.change_gates(Gates.ALL_ALPHA.flags)


def test_server_that_does_not_count_is_told_nothing(
    default_site: Site, machine: GpuMachine
) -> None:
    """Devices are offered as ever, and the operator reads why their cost is not accounted."""

    site = default_site
    start(site, machine)
    assert costs(site) == {}
    site.claim("free", request("d", of="generic", cel='own.group == "fpga"'))
    pod = site.run("free", "free")

    assert "nodeAllocatableResourceClaimStatuses" not in pod.now["status"]
    assert not_accounted(site, "dropped by the server")
    assert len(site.log_lines("what devices cost the node is not published")) == 1
