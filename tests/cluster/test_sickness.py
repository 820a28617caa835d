"""Devices that really fall ill on a real cluster: GPUs, NICs and device nodes, and what follows.

One node has them all, and a pod for each that falls ill. Its devices are well again when a test
ends, so that the next one, or that one alone, begins with the same.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
import pytest

from berth.rehearsal.nvml.cards import hung, struck, whole
from berth.rehearsal.nvml.world import LOST, Card
from tests.cluster.bed import Bed
from tests.cluster.gpumachine import GpuMachine
from tests.cluster.pods import is_running, phase
from tests.cluster.site import MANIFESTS, Site
from tests.cluster.test_credentials import TOKEN, WITH_TOKEN, grant, granted, make_token
from tests.cluster.test_gpus import BY_FILE, RESOURCE
from tests.cluster.test_peripherals import wait_allocatable
from tests.cluster.ward import DRIVER_FAULT, Illness, Ward
from tests.nvml import need_compiler

__all__ = ["granted"]

ADDRESSES = tuple(f"0000:{0x1B + number:02x}:00.0" for number in range(6))
GPUS = tuple(f"gpu-{address.replace(':', '-').replace('.', '-')}" for address in ADDRESSES)
CARDS = tuple(whole(number, address) for number, address in enumerate(ADDRESSES))
NODES = ("lamp0", "lamp1", "horn0", "horn1")
NICS = ("plain", "strict", "brief")
SAYS = "/etc/berth/horn-says"
TIMES = "{ interval_s = 1, deadline_s = 2, timeout_s = 12 }"
HEALTH = f"""
[health]
recover_after_s = 2
gpu = {TIMES}
nic = {TIMES}
generic = {TIMES}
command = {TIMES}
"""
NODES_AND_NICS = f"""
[[generic]]
name = "lamp"
match = {{ path = "/dev/lamp*" }}
door = "both"

[[generic]]
name = "horn"
match = {{ path = "/dev/horn*" }}
door = "both"
health = {{ command = ["{SAYS}", "{{node}}"] }}

[[nic.group]]
name = "plain"
match = {{ name = ["plain"] }}

[[nic.group]]
name = "strict"
match = {{ name = ["strict"] }}
health = {{ carrier = "fault" }}

[[nic.group]]
name = "brief"
match = {{ name = ["brief"] }}
"""
XID_S = 15.0
"""How long after an XID its GPU has to say that it needs no recovery."""
TOLERATES = [{"key": DRIVER_FAULT, "operator": "Exists"}]


@contextlib.contextmanager
def made_machine(cards: Sequence[Card]) -> Iterator[GpuMachine]:
    """A machine with these GPUs, for the time of the block."""
    need_compiler()
    with tempfile.TemporaryDirectory(prefix="berth-ward-", dir="/var/tmp") as folder:
        yield GpuMachine(Path(folder), cards)


@pytest.fixture(name="few")
def _few() -> Iterator[GpuMachine]:
    """Three GPUs."""
    with made_machine(CARDS[:3]) as machine:
        yield machine


@contextlib.contextmanager
def old_site(bed: Bed) -> Iterator[Site]:
    """A node with kubelet 1.34 that tells pods how their devices are, which it does if asked."""
    with bed.cluster(gates={"ResourceHealthStatus": True}) as cluster:
        cluster.api.apply((MANIFESTS / "deviceclasses.yaml").read_text())
        cluster.api.wait("/api/v1/namespaces/default/serviceaccounts/default", bool)
        grant(cluster)
        yield Site(cluster, cluster.node("1.34+1.7"), "default")


@pytest.fixture(name="ward", scope="module", params=["1.37", "1.34"])
def _ward(request: pytest.FixtureRequest) -> Iterator[Ward]:
    """A node with all of it, and a pod for each device that falls ill; all is well."""
    with contextlib.ExitStack() as stack:
        machine = stack.enter_context(made_machine(CARDS))
        for minor, name in enumerate(NODES):
            machine.plug_in(name, minor)
        if request.param == "1.34":
            site = stack.enter_context(old_site(request.getfixturevalue("bed")))
        else:
            request.getfixturevalue("granted")
            site = request.getfixturevalue("shared_site")
        # The older stream has no field for messages.
        yield opened(Ward(site, machine, with_messages=request.param != "1.34"))


def opened(ward: Ward) -> Ward:
    """The ward with its devices, its daemon and its pods."""
    site, machine = ward.site, ward.machine
    for name in NICS:
        site.node.add_nic(name)
    site.node.write(TOKEN, make_token(site))
    say(site, "exit 0")
    config = f'{machine.config}door = "both"\n{BY_FILE}{HEALTH}{NODES_AND_NICS}{WITH_TOKEN}'
    site.node.start_berthd(config, command=machine.command, activated=True).wait_ready()
    site.wait_registered()
    site.wait_offered(
        {*GPUS, *(f"nic-{name}-{name}" for name in NICS), *(f"{name[:4]}-{name}" for name in NODES)}
    )
    for name in NICS:
        ward.admit(name, of="nic", cel=f'own.group == "{name}"')
    for number in range(4):
        ward.admit(f"gpu{number}", of="gpu", cel=of_gpu(number))
    for name in ("lamp0", "horn0"):
        ward.admit(name, of="generic", cel=of_node(name))
    ward.wait_running(*ward.pods)
    return ward


def of_gpu(number: int) -> str:
    """The selector of one GPU."""
    return f'own.uuid == "{CARDS[number].uuid}"'


def of_node(name: str) -> str:
    """The selector of one device node."""
    return f'own.node == "/dev/{name}"'


def say(site: Site, script: str) -> None:
    """Let the command of the horns be this one."""
    site.node.write(f"{SAYS}.new", f"#!/bin/sh\n{script}\n")
    new = site.node.path(f"{SAYS}.new")
    new.chmod(0o755)
    new.rename(site.node.path(SAYS))


def changed(**cards: Card) -> tuple[Card, ...]:
    """The cards, some of which are others now: `_2` is the third."""
    return tuple(cards.get(f"_{number}", card) for number, card in enumerate(CARDS))


def test_gpus_that_fail_in_each_way_are_told_avoided_and_given_again(ward: Ward) -> None:
    """An XID that takes it off the bus, one of a fault, a loss, a hang; killed in between."""

    wait_allocatable(ward.site, 2, RESOURCE)
    struck_by_xids = (
        Illness(GPUS[0], "xid-79", "XID 79 (the GPU has fallen off the bus)", "gpu0"),
        Illness(GPUS[1], "xid-48", "XID 48 (double-bit ECC error)", "gpu1"),
        Illness(GPUS[4], "xid-48"),
    )
    ill = (
        *struck_by_xids,
        Illness(GPUS[2], "lost", "NVML says that the GPU is lost", "gpu2"),
        Illness(GPUS[3], "no-answer", "did not answer for it within 2 s", "gpu3"),
    )
    xids = {
        "_0": struck(CARDS[0], 79),
        "_1": struck(CARDS[1], 48),
        "_4": struck(CARDS[4], 48),
    }
    ward.machine.show(changed(**xids))
    ward.wait_ill(*struck_by_xids)
    ward.machine.show(changed(**xids, _2=attrs.evolve(CARDS[2], error=LOST), _3=hung(CARDS[3])))
    ward.wait_ill(*ill)
    wait_allocatable(ward.site, 1, RESOURCE)

    ward.kill(*ill)
    ward.admit("other", of="gpu", cel='own.group == "all"')
    ward.wait_running("other")
    waiting = ward.admit("waiting", of="gpu", cel=of_gpu(4))
    waiting.wait_event("FailedScheduling", "cannot allocate all claims")
    ward.admit("mender", of="gpu", cel=of_gpu(4), tolerations=TOLERATES)
    ward.wait_running("mender")
    assert phase(waiting.now) == "Pending"
    ward.discharge("mender")

    ward.machine.show(changed(**xids))
    ward.wait_well("gpu0", "gpu1", "gpu2", "gpu3", limit_s=XID_S + 15)
    ward.wait_running("waiting")
    ward.discharge("other")
    wait_allocatable(ward.site, 1, RESOURCE)
    ward.discharge("waiting")
    ward.machine.show(CARDS)


def test_nics_tell_lost_carriers_and_that_they_are_gone(ward: Ward) -> None:
    """A lost carrier is a note, or a fault where the group says so; a link that is gone is one."""

    outside, peer = ward.site.cluster.control.box.run, ward.site.node.peer
    for name in ("plain", "strict"):
        outside("ip", "link", "set", peer(name), "down")
    ward.site.node.remove_nic("brief")
    ill: tuple[Illness, ...] = (
        Illness("nic-plain-plain", "no-carrier", "has no carrier", "plain", is_fault=False),
        Illness("nic-strict-strict", "no-carrier", "has no carrier", "strict"),
    )
    ward.wait_ill(*ill, Illness("nic-brief-brief", "missing", "its link is not in pod", "brief"))

    # A start looks for it everywhere.
    ill = (*ill, Illness("nic-brief-brief", "lost", "its link exists no more", "brief"))
    ward.kill(*ill)
    ward.wait_ill(*ill)
    for name in ("plain", "strict"):
        outside("ip", "link", "set", peer(name), "up")
    ward.discharge("brief")
    ward.wait_well("plain", "strict")


def test_device_nodes_tell_that_they_are_gone_and_what_a_command_says(ward: Ward) -> None:
    """A node that is there again heals, and a command has the last word on its devices."""

    wait_allocatable(ward.site, 1, "berth.dev/horn")
    ward.machine.pull_out("lamp0")
    say(ward.site, 'echo "$1 is mute"; exit 1')
    ill = (
        Illness("lamp-lamp0", "absent", "plug it in again", "lamp0"),
        Illness("horn-horn0", "probe-failed", "/dev/horn0 is mute", "horn0"),
        Illness("horn-horn1", "probe-failed"),
    )
    ward.wait_ill(*ill)
    wait_allocatable(ward.site, 0, "berth.dev/horn")

    ward.kill(*ill)
    waiting = ward.admit("waiting", of="generic", cel=of_node("horn1"))
    waiting.wait_event("FailedScheduling", "cannot allocate all claims")
    ward.admit("mender", of="generic", cel=of_node("horn1"), tolerations=TOLERATES)
    ward.wait_running("mender")
    ward.discharge("mender")

    ward.machine.plug_in("lamp0", NODES.index("lamp0"))
    say(ward.site, "exit 0")
    ward.wait_well("lamp0", "horn0")
    ward.wait_running("waiting")
    ward.discharge("waiting")
    wait_allocatable(ward.site, 1, "berth.dev/horn")


def test_old_kubelet_and_a_server_without_taints(bed: Bed, few: GpuMachine) -> None:
    """A sick GPU that nobody has leaves the slices, and is there again when it is well."""

    with bed.cluster(gates={"DRADeviceTaints": False, "DRADeviceTaintRules": False}) as cluster:
        cluster.api.apply((MANIFESTS / "deviceclasses.yaml").read_text())
        cluster.api.wait("/api/v1/namespaces/default/serviceaccounts/default", bool)
        site = Site(cluster, cluster.node("1.34+1.7"), "default")
        ward = Ward(site, few)
        config = f'{few.config}door = "both"\n{BY_FILE}{HEALTH}'
        site.node.start_berthd(config, command=few.command, activated=True).wait_ready()
        site.wait_registered()
        site.wait_offered(GPUS[:3])
        ward.admit("gpu0", of="gpu", cel=of_gpu(0))
        ward.wait_running("gpu0")
        wait_allocatable(site, 2, RESOURCE)

        lost = tuple(attrs.evolve(card, error=LOST) for card in CARDS[:2])
        few.show((*lost, CARDS[2]))
        # Whose it is has to be known to the scheduler.
        site.wait_offered((GPUS[0], GPUS[2]))
        wait_allocatable(site, 1, RESOURCE)
        ward.kill(Illness(GPUS[0], "lost"), Illness(GPUS[1], "lost"))
        ward.admit("other", of="gpu", cel='own.group == "all"')
        ward.wait_running("other")
        waiting = ward.admit("waiting", of="gpu", cel=of_gpu(1))
        waiting.wait_event("FailedScheduling", "cannot allocate all claims")
        assert ward.told("gpu0") == ("", "")
        assert is_running(ward.pods["gpu0"].now)

        few.show(CARDS[:3])
        site.wait_offered(GPUS[:3])
        ward.wait_running("waiting")
        assert ward.verdicts() == {}
        ward.discharge("other")
        wait_allocatable(site, 1, RESOURCE)
