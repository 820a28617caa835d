"""Parts of GPUs with everything that a scheduler can be told of them, and what its pools come to.

Each scene leaves the GPUs and the daemon as it found them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from berth.host.nvml.values import MIG_CHANGED
from berth.rehearsal.nvml.cards import divided, divisible, whole
from berth.rehearsal.nvml.world import Card, Event
from tests.cluster.api import Object
from tests.cluster.bed import Bed
from tests.cluster.berthd import DRIVER
from tests.cluster.claimforms import request
from tests.cluster.gates import Gates
from tests.cluster.gpumachine import GpuMachine
from tests.cluster.node import SLICES
from tests.cluster.pods import is_running
from tests.cluster.session import apply_classes
from tests.cluster.site import Site
from tests.cluster.test_gpus import ADDRESSES, BY_FILE, NAMES
from tests.nvml import need_compiler

STATUS = "/apis/resource.k8s.io/v1alpha3/resourcepoolstatusrequests"
WHOLE, UNDIVIDED = whole(0, ADDRESSES[0]), divisible(1, ADDRESSES[1])
DIVIDED = divided(UNDIVIDED, ((14, 1, 0), (19, 7, 2), (9, 2, 4)))
PARTS = tuple(f"{NAMES[1]}-mig-{part}" for part in ("1g5gb-2", "2g10gb-0", "3g20gb-4"))
MIG = Event(sequence=1, type=MIG_CHANGED)
GPUS = {"gpu", "mig"}
NIC = "nic-lan-nic0"
COSTLY = """
[[generic]]
name = "cheap"
match = { path = "/dev/null" }
node_cost = { cpu = { pod = "10m" } }
"""
LAN = '\n[[nic.group]]\nname = "lan"\nmatch = { name = ["nic0"] }\n'


@pytest.fixture(name="machine", scope="module")
def _machine() -> Iterator[GpuMachine]:
    """A whole GPU, and one that can be divided."""
    need_compiler()
    with tempfile.TemporaryDirectory(prefix="berth-parts-", dir="/var/tmp") as folder:
        yield GpuMachine(Path(folder), (WHOLE, DIVIDED))


def start(site: Site, machine: GpuMachine, *cards: Card, more: str = "") -> None:
    """Start the daemon with all that it can tell of these."""
    machine.show(cards)
    if "nic0" not in site.node.nics:
        site.node.add_nic("nic0")
    told = "compatibility_groups = true\npartition_type = true\n"
    config = f"{machine.config}{told}{BY_FILE}{LAN}{more}"
    site.node.start_berthd(config, command=machine.command, activated=True).wait_ready()
    site.wait_registered()


def drawn(offered: dict[str, Object]) -> dict[str, list[str] | None]:
    """The groups of each device that draws on counters."""
    return {
        name: draws.get("compatibilityGroups")
        for name, device in offered.items()
        for draws in device.get("consumesCounters", ())
    }


def kinds(site: Site) -> set[str]:
    """Which attribute slices with parts say tells their kind."""
    found = site.api.items(SLICES, fieldSelector=f"spec.nodeName={site.node.name}")
    return {
        str(item["spec"].get("partitionTypeAttribute", ""))
        for item in found
        if any("consumesCounters" in one for one in item["spec"].get("devices", ()))
    }


def test_parts_are_given_beside_each_other_with_and_without_the_gates(
    gated_site: Site, gates: Gates, machine: GpuMachine
) -> None:
    """A server that drops groups and kinds is told none, and each part still has its pod."""

    site = gated_site
    start(site, machine, WHOLE, DIVIDED)
    offered = site.wait_offered((NAMES[0], *PARTS, NIC))
    on = gates is Gates.ALL_ALPHA

    assert drawn(offered) == dict.fromkeys(PARTS, ["mig"] if on else None)
    assert kinds(site) == {f"{DRIVER}/profile" if on else ""}
    for name, profile in (("small", "1g.5gb"), ("middle", "2g.10gb"), ("big", "3g.20gb")):
        site.claim(name, request("part", of="mig", cel=f'own.profile == "{profile}"'))
        site.run(name, name)
    assert {hold["device"] for hold in site.listed("holds")} == {*PARTS}


def test_parts_wait_until_nobody_has_the_whole(alpha_site: Site, machine: GpuMachine) -> None:
    """A GPU is divided that a pod has: its parts are there, and offered when the pod has ended."""

    site = alpha_site
    start(site, machine, WHOLE, UNDIVIDED)
    site.wait_offered((*NAMES[:2], NIC))
    site.claim("whole", request("gpu", of="gpu", cel=f'own.uuid == "{UNDIVIDED.uuid}"'))
    site.claim("part", request("gpu", of="mig", cel='own.profile == "3g.20gb"'))
    holder = site.run("holder", "whole")

    machine.show((WHOLE, attrs.evolve(DIVIDED, events=(MIG,))))
    user = site.create("user", "part")
    site.wait_same("parts", lambda: {*PARTS} <= reasons(site).keys(), True)
    assert {reasons(site)[part] for part in PARTS} == {"held"}
    assert "cannot allocate all claims" in user.wait_event("FailedScheduling")
    holder.delete()
    user.wait(is_running, what="runs")

    site.wait_offered((NAMES[0], *PARTS, NIC))
    assert [hold["device"] for hold in site.listed("holds")] == [PARTS[2]]


def test_status_of_the_pools_is_what_the_node_knows(alpha_site: Site, machine: GpuMachine) -> None:
    """Both are whole, with as many devices as are offered and held, and with each kind of part."""

    site = alpha_site
    start(site, machine, WHOLE, DIVIDED)
    site.wait_offered((NAMES[0], *PARTS, NIC))
    site.claim("part", request("part", of="mig", cel='own.profile == "2g.10gb"'))
    site.claim("nic", request())
    site.run("user", "part", "nic")

    pools = pool_status(site)
    held = {hold["device"] for hold in site.listed("holds")}
    gpus = [one["name"] for one in site.listed("devices") if one["offered"] and one["kind"] in GPUS]
    for name, offered in ((site.node.name, gpus), (f"{site.node.name}/nic", [NIC])):
        pool = pools[name]
        assert "validationError" not in pool
        assert pool["totalDevices"] == len(offered)
        assert pool["allocatedDevices"] == len(held & {*offered}) == 1
        assert pool["availableDevices"] == len(offered) - 1
    assert {
        each["type"]: (each["total"], each["allocatable"])
        for each in pools[site.node.name]["partitionSummary"]
    } == {"1g.5gb": (1, 1), "2g.10gb": (1, 0), "3g.20gb": (1, 1)}


def test_gates_that_close_keep_nobody_from_parts(bed: Bed, machine: GpuMachine) -> None:
    """What a server took with open gates it keeps; a scheduler whose gates closed then skips it.

    So groups and costs are taken out of the slices, for an older version too, and come back.
    """

    with bed.cluster(gates=Gates.ALL_ALPHA.flags) as cluster:
        apply_classes(cluster)
        site = Site(cluster, cluster.node("1.37+2.4"), "default")
        start(site, machine, WHOLE, DIVIDED, more=COSTLY)
        names = (NAMES[0], *PARTS, NIC, "cheap-null")

        def told() -> tuple[set[str], set[str], bool]:
            offered = site.wait_offered(names)
            groups = {str(each) for each in drawn(offered).values()}
            return groups, kinds(site), "nodeAllocatableResources" in offered["cheap-null"]

        opened = {"['mig']"}, {f"{DRIVER}/profile"}, True
        site.wait_same("what is told", told, opened)
        for number, older in enumerate(("", "1.36")):
            cluster.control.change(Gates.DEFAULT.flags, emulated=older)
            site.node.change_gates(Gates.DEFAULT.flags)
            site.wait_same("what is told", told, ({"None"}, {""}, False), limit_s=60)
            cel = f'own.profile == "{("1g.5gb", "2g.10gb")[number]}"'
            site.claim(f"part{number}", request("part", of="mig", cel=cel))
            site.run(f"user{number}", f"part{number}")
        cluster.control.change(Gates.ALL_ALPHA.flags)
        site.node.change_gates(Gates.ALL_ALPHA.flags)
        site.wait_same("what is told", told, opened, limit_s=60)
        assert {hold["device"] for hold in site.listed("holds")} == {*PARTS[:2]}


def reasons(site: Site) -> dict[str, str]:
    """Why each device is not offered, by its name."""
    return {one["name"]: one["reason"] for one in site.listed("devices")}


def pool_status(site: Site) -> dict[str, Object]:
    """What the cluster tells of our pools on the node, by name."""
    made = site.api.create(
        {
            "apiVersion": "resource.k8s.io/v1alpha3",
            "kind": "ResourcePoolStatusRequest",
            "metadata": {"generateName": "of-berth-"},
            "spec": {"driver": DRIVER},
        }
    )
    path = f"{STATUS}/{made['metadata']['name']}"
    told = site.api.wait(path, lambda it: it.get("status"), what="pools told")
    site.api.delete(path)
    return {
        pool["poolName"]: pool
        for pool in told["status"]["pools"]
        if pool["nodeName"] == site.node.name
    }
