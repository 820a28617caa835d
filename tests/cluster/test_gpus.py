"""GPUs of the stand-in for NVML in pods, through both doors, on a real kubelet and runtime."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs
import pytest

from berth.host.nvml.values import MIG_CHANGED
from berth.rehearsal.nvml.cards import divided, divisible, whole
from berth.rehearsal.nvml.world import FOR_EVER, Event, Process
from tests.cluster.api import Object
from tests.cluster.claimforms import request
from tests.cluster.gpumachine import GpuMachine
from tests.cluster.node import SLICES
from tests.cluster.pods import container, is_running
from tests.cluster.site import PodView, Site
from tests.cluster.test_peripherals import wait_allocatable
from tests.nvml import need_compiler

RESOURCE = "nvidia.com/gpu"
ADDRESSES = tuple(f"0000:{0x1B + number:02x}:00.0" for number in range(4))
NAMES = tuple(f"gpu-{address.replace(':', '-').replace('.', '-')}" for address in ADDRESSES)
CARDS = tuple(whole(number, address) for number, address in enumerate(ADDRESSES))


@pytest.fixture(name="machine")
def _machine() -> Iterator[GpuMachine]:
    """Four whole GPUs."""
    need_compiler()
    with tempfile.TemporaryDirectory(prefix="berth-gpus-", dir="/var/tmp") as folder:
        yield GpuMachine(Path(folder), CARDS)


BY_FILE = """
[[gpu.group]]
name = "all"
match = { type = ["gpu", "mig"] }
inject = "cdi"
"""
"""Kubelet's own way lets the runtime look at the nodes, which are in our daemon's sight alone."""


def start(
    site: Site, machine: GpuMachine, *, door: str, offers: tuple[str, ...], more: str = ""
) -> None:
    """Start the daemon on that machine, with more keys of its table."""
    config = f'{machine.config}door = "{door}"\n{more}{BY_FILE}'
    site.node.start_berthd(config, command=machine.command, activated=True).wait_ready()
    site.wait_registered()
    site.wait_offered(offers)


def nodes(pod: PodView) -> dict[str, str]:
    """The device nodes of GPUs that a container has, with their numbers."""
    script = "for n in /dev/nvidia* /dev/nvidia-caps/*; do [ -c $n ] && stat -c '%n %t:%T' $n; done"
    told = pod.run("sh", "-c", f"{script}; true")
    return dict(line.removeprefix("/dev/").split() for line in told.splitlines())


CONTROL = {"nvidiactl": "c3:ff", "nvidia-uvm": "1ff:0", "nvidia-uvm-tools": "1ff:1"}


def test_claim_gives_one_gpu_and_nothing_more(site: Site, machine: GpuMachine) -> None:
    """Its node and the control nodes, by number, and word for a legacy hook to do nothing."""

    start(site, machine, door="dra", offers=NAMES)
    site.claim("gpu", request("gpu", of="gpu", cel=f'own.uuid == "{CARDS[2].uuid}"'))
    pod = site.run("user", "gpu")

    assert nodes(pod) == {"nvidia2": "c3:2", **CONTROL}
    assert machine.char_links()["195:2"] == "../nvidia2"
    assert pod.run("sh", "-c", "echo $NVIDIA_VISIBLE_DEVICES").strip() == "void"
    (hold,) = site.listed("holds")
    assert (hold["device"], hold["door"]) == (NAMES[2], "dra")
    (metadata, *_) = pod.metadata("resourceclaims/gpu/gpu")
    (told,) = metadata["requests"][0]["devices"]
    assert told["attributes"]["uuid"]["string"] == CARDS[2].uuid


def test_resource_gives_as_many_as_are_asked_for(site: Site, machine: GpuMachine) -> None:
    """In the old way, under the name that pods use everywhere."""

    start(site, machine, door="plugin", offers=())
    wait_allocatable(site, 4, RESOURCE)
    limits = {"limits": {RESOURCE: "3"}}
    pod = site.run("old", containers=[container("main", resources=limits)])

    found = nodes(pod)
    assert len(found.keys() - CONTROL.keys()) == 3
    assert found.items() >= CONTROL.items()
    assert pod.run("sh", "-c", "echo $NVIDIA_VISIBLE_DEVICES").strip() == "void"


def test_occupied_gpu_is_refused_until_its_process_ends(site: Site, machine: GpuMachine) -> None:
    """The process that nobody knows of is named; kubelet asks again by itself."""

    machine.show((attrs.evolve(CARDS[0], processes=(Process(pid=4711),)), *CARDS[1:]))
    start(site, machine, door="dra", offers=NAMES, more='occupancy = "check"\n')
    site.claim("gpu", request("gpu", of="gpu", cel=f'own.uuid == "{CARDS[0].uuid}"'))
    pod = site.create("user", "gpu")
    assert f"{NAMES[0]}: is in use by process 4711" in pod.wait_refused()
    assert site.listed("holds") == []

    machine.show(CARDS)
    pod.nudge()
    pod.wait(is_running, what="run")


def test_parts_are_offered_in_place_of_the_whole(site: Site, machine: GpuMachine) -> None:
    """A divided GPU's parts, each with its own nodes; the whole is offered to nobody."""

    parted = divided(divisible(3, ADDRESSES[3]), ((14, 1, 0), (9, 2, 4)))
    machine.show((*CARDS[:3], parted))
    parts = (f"{NAMES[3]}-mig-2g10gb-0", f"{NAMES[3]}-mig-3g20gb-4")
    start(site, machine, door="dra", offers=(*NAMES[:3], *parts))
    site.claim("part", request("gpu", of="mig", cel='own.profile == "3g.20gb"'))
    pod = site.run("user", "part")

    found = nodes(pod)
    caps = {name for name in found if name.startswith("nvidia-caps/")}
    assert found.keys() - caps == {"nvidia3", *CONTROL}
    assert caps == {"nvidia-caps/nvidia-cap404", "nvidia-caps/nvidia-cap405"}
    told = {each["name"]: each for each in site.listed("devices")}
    assert told[NAMES[3]]["reason"] == "mig-on"


def test_parts_draw_on_the_counters_of_their_whole(site: Site, machine: GpuMachine) -> None:
    """A real scheduler gives all parts that exist, and takes their pool for valid."""

    parted = divided(divisible(3, ADDRESSES[3]), ((14, 1, 0), (9, 2, 4)))
    machine.show((*CARDS[:3], parted))
    parts = (f"{NAMES[3]}-mig-2g10gb-0", f"{NAMES[3]}-mig-3g20gb-4")
    start(site, machine, door="dra", offers=(*NAMES[:3], *parts))
    offered = site.wait_offered((*NAMES[:3], *parts))
    site.claim("parts", request("parts", of="mig", count=2))
    site.claim("whole", request("whole", of="gpu"))
    site.run("user", "parts", "whole")

    sets = {one["name"]: one["counters"] for one in site.counter_sets()}
    assert sets.keys() == {f"{NAMES[3]}-counters"}
    (counters,) = sets.values()
    for name, slices in zip(parts, ({0, 1}, {4, 5, 6, 7}), strict=True):
        (drawn,) = offered[name]["consumesCounters"]
        assert drawn["counterSet"] == f"{NAMES[3]}-counters"
        assert drawn["counters"].keys() <= counters.keys()
        places = {int(key[13:]) for key in drawn["counters"] if key.startswith("memory-slice-")}
        assert places == slices
    assert "consumesCounters" not in offered[NAMES[0]]


def test_counters_come_back_as_they_were(site: Site, machine: GpuMachine) -> None:
    """Another hand deletes their slice: the same sets under the same generation, nothing else."""

    parted = divided(divisible(3, ADDRESSES[3]), ((14, 1, 0),))
    machine.show((*CARDS[:3], parted))
    start(site, machine, door="dra", offers=(*NAMES[:3], f"{NAMES[3]}-mig-2g10gb-0"))
    before = wait_slices(site, 2)
    (name,) = (name for name, item in before.items() if "sharedCounters" in item["spec"])
    site.api.delete(f"{SLICES}/{name}")

    after = wait_slices(site, 2, but=name)
    (other,) = after.keys() - before.keys()
    assert after[other]["spec"] == before[name]["spec"]
    assert [after[same] for same in after if same != other] == [
        before[same] for same in before if same != name
    ]


def wait_slices(site: Site, count: int, *, but: str = "") -> dict[str, Object]:
    """Wait until the node has so many slices, and not that one; gives them by name."""
    found: dict[str, Object] = {}

    def ready(slices: Mapping[str, Object]) -> bool:
        found.clear()
        found.update({item["metadata"]["name"]: item for item in slices.values()})
        return len(found) == count and but not in found

    selector = f"spec.nodeName={site.node.name}"
    site.api.wait_all(SLICES, ready, what=f"{count} slices", fieldSelector=selector)
    return found


def test_layout_changes_without_a_restart(site: Site, machine: GpuMachine) -> None:
    """An operator divides a GPU while the daemon runs, and the driver tells of it."""

    start(site, machine, door="dra", offers=NAMES)
    parted = divided(divisible(3, ADDRESSES[3]), ((14, 1, 0),))
    machine.show((*CARDS[:3], attrs.evolve(parted, events=(Event(sequence=1, type=MIG_CHANGED),))))

    site.wait_offered((*NAMES[:3], f"{NAMES[3]}-mig-2g10gb-0"))


def test_gpu_that_does_not_answer_keeps_nobody_else_waiting(
    site: Site, machine: GpuMachine
) -> None:
    """Three of four are offered at once; the fourth is listed with the reason."""

    machine.show((*CARDS[:3], attrs.evolve(CARDS[3], hang_ms=FOR_EVER)))
    start(site, machine, door="dra", offers=NAMES[:3])

    told = {each["name"]: each for each in site.listed("devices")}
    assert not told[NAMES[3]]["offered"]
    assert told[NAMES[3]]["reason"]
    # A stop is not held up either; the world is left without a hang for what comes after.
    site.node.berthd.terminate(limit_s=10)
    machine.show(CARDS)


def test_share_goes_to_as_many_claims_as_there_are_slots(site: Site, machine: GpuMachine) -> None:
    """Two claims have one GPU, both its node; the third waits for the scheduler."""

    machine.show(CARDS[:1])
    share = 'share = { slots = 2, memory = "divide" }\n'
    config = f'{machine.config}door = "dra"\n{BY_FILE}{share}'
    site.node.start_berthd(config, command=machine.command, activated=True).wait_ready()
    site.wait_offered(NAMES[:1])
    for name in ("one", "two", "three"):
        site.claim(name, request("gpu", of="gpu"))
    pods = [site.run(name, name) for name in ("one", "two")]

    assert [nodes(pod) for pod in pods] == [{"nvidia0": "c3:0", **CONTROL}] * 2
    assert {hold["claim"] for hold in site.listed("holds")} == {
        f"{site.namespace}/one",
        f"{site.namespace}/two",
    }
    waiting = site.create("three", "three")
    waiting.wait_event("FailedScheduling", "cannot allocate all claims")
    pods[0].delete()
    site.api.delete(site.claim_path("one"))
    waiting.wait(is_running, what="run")


def test_image_that_asks_for_all_gpus_gets_its_own(site: Site, machine: GpuMachine) -> None:
    """What would make a legacy hook give every GPU is overruled, whoever says it."""

    start(site, machine, door="dra", offers=NAMES)
    site.claim("gpu", request("gpu", of="gpu", cel=f'own.uuid == "{CARDS[1].uuid}"'))
    wish = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    pod = site.run("user", "gpu", containers=[container("main", "gpu", env=wish)])

    assert nodes(pod) == {"nvidia1": "c3:1", **CONTROL}
    told = pod.run("sh", "-c", "tr '\\0' '\\n' </proc/1/environ | grep VISIBLE")
    assert told.split() == ["NVIDIA_VISIBLE_DEVICES=void"]


def test_restart_keeps_a_pods_gpu(site: Site, machine: GpuMachine) -> None:
    """Kubelet does not ask again for what it gave; the ledger remembers, and claims keep off."""

    start(site, machine, door="both", offers=NAMES)
    wait_allocatable(site, 4, RESOURCE)
    limits = {"limits": {RESOURCE: "2"}}
    pod = site.run("old", containers=[container("main", resources=limits)])
    had = {name for name in nodes(pod) if name[6:].isdigit()}
    site.node.berthd.terminate()
    site.node.berthd.start()
    site.node.berthd.wait_ready()
    wait_allocatable(site, 4, RESOURCE)
    site.claim("gpu", request("gpu", of="gpu"))
    user = site.run("user", "gpu")

    assert len(had) == 2
    assert had.isdisjoint(nodes(user))
    doors = sorted(hold["door"] for hold in site.listed("holds"))
    assert doors == ["dra", "plugin", "plugin"]


def test_container_gets_what_its_request_asks_for(site: Site, machine: GpuMachine) -> None:
    """Of a claim for a GPU and a serial adapter, who refers to one gets nothing of the other."""

    text = '[[generic]]\nname = "null"\nmatch = { path = "/dev/null" }\nrename = "/dev/modem"\n'
    config = f'{machine.config}door = "dra"\n{BY_FILE}\n{text}'
    site.node.start_berthd(config, command=machine.command, activated=True).wait_ready()
    site.wait_offered((*NAMES, "null-null"))
    site.claim("both", request("gpu", of="gpu"), request("serial", of="generic"))
    containers = [
        container(name, resources={"claims": [{"name": "both", "request": name}]})
        for name in ("gpu", "serial")
    ]
    pod = site.run("user", "both", containers=containers)

    script = "ls /dev | grep -c -e nvidia -e modem; echo $NVIDIA_VISIBLE_DEVICES; ls /dev/modem"
    gpu, serial = (
        pod.run("sh", "-c", f"{script} 2>/dev/null; true", container=name).split()
        for name in ("gpu", "serial")
    )
    assert (gpu[0], gpu[1:]) == (str(1 + len(CONTROL)), ["void"])
    assert serial == ["1", "/dev/modem"]


def test_onlooker_gets_every_gpu_beside_its_holder(site: Site, machine: GpuMachine) -> None:
    """A monitor's claim takes nothing, and its end frees nothing."""

    start(site, machine, door="dra", offers=NAMES)
    label = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    site.api.merge(f"/api/v1/namespaces/{site.namespace}", label)
    site.claim("work", request("gpu", of="gpu"))
    site.run("worker", "work")
    look = request("gpu", of="gpu", allocationMode="All", adminAccess=True)
    site.claim("look", look)
    monitor = site.run("monitor", "look")

    assert {name for name in nodes(monitor) if name[6:].isdigit()} == {
        f"nvidia{number}" for number in range(4)
    }
    assert monitor.run("sh", "-c", "echo $DRA_ADMIN_ACCESS").strip() == "true"
    assert [hold["claim"] for hold in site.listed("holds")] == [f"{site.namespace}/work"]
    monitor.delete()
    assert [hold["claim"] for hold in site.listed("holds")] == [f"{site.namespace}/work"]
