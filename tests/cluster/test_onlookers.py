"""Claims with admin access: they look at what others have, and change nothing of it."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from berth.errors import KubeError
from tests.cluster.api import Object
from tests.cluster.berthd import DRIVER
from tests.cluster.claimforms import nic_config, request
from tests.cluster.pairmachine import NICS, PairMachine, nic
from tests.cluster.pods import phase
from tests.cluster.site import LIMIT_S, Site, device
from tests.cluster.test_alignment import start as start_pairs
from tests.cluster.test_peripherals import consoles, wait_allocatable
from tests.nvml import need_compiler

CONSOLES = """
[[generic]]
name = "console"
match = { path = "/dev/tty1[01]" }
door = "both"
rename = "/dev/berth/"
"""
NAMES = ("console-tty10", "console-tty11")


def welcome(site: Site) -> None:
    """Let claims of the namespace have admin access."""
    label = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    site.api.merge(f"/api/v1/namespaces/{site.namespace}", label)


def look(site: Site, of: str, **more: object) -> None:
    """Make a claim that looks at every device of a class."""
    site.claim("look", request("all", of=of, allocationMode="All", adminAccess=True, **more))


def test_namespace_without_the_label_may_not_look(site: Site) -> None:
    """The API server refuses the claim itself."""

    with pytest.raises(KubeError, match="admin-access") as refused:
        look(site, "nic")
    assert refused.value.status in {403, 422}


def test_onlooker_reads_of_a_nic_and_leaves_it_where_it_is(site: Site) -> None:
    """The tenant's link stays in its pod; the other pod has the files, and no link or marker."""

    site.open(nics=["nic0", "nic1"])
    welcome(site)
    peer = site.peer("nic0").set_address("192.0.2.1/24")
    address = nic_config(addresses=[{"address": "192.0.2.10/24"}])
    site.claim("work", request("nic", cel='own.ifName == "nic0"'), config=[address])
    worker = site.run("worker", "work")
    link, holds = worker.link("net1"), site.listed("holds")
    look(site, "nic")

    monitor = site.run("monitor", "look")

    assert monitor.links() == {"lo", "eth0"}
    assert "BERTH_CLAIM" not in monitor.run("env")
    (newest, _) = monitor.metadata("resourceclaims/look/all")
    told = {one["name"]: one["attributes"]["ifName"] for one in newest["requests"][0]["devices"]}
    assert told == {device(name): {"string": name} for name in ("nic0", "nic1")}
    assert (worker.link("net1"), site.listed("holds")) == (link, holds)
    peer.ping("192.0.2.10")
    monitor.delete()
    assert (worker.link("net1"), site.listed("holds")) == (link, holds)
    peer.ping("192.0.2.10")


def test_onlooker_may_read_nodes_and_not_write_them(site: Site) -> None:
    """It gets what the group allows for it, beside whoever holds them, and counts nowhere."""

    site.node.start_berthd(CONSOLES, activated=True).wait_ready()
    site.wait_registered()
    site.wait_offered(NAMES)
    wait_allocatable(site, 2)
    welcome(site)
    site.claim("work", request("serial", of="generic"))
    worker = site.run("worker", "work")
    wait_allocatable(site, 1)
    look(site, "generic")

    monitor = site.run("monitor", "look")

    assert set(consoles(monitor)) == {"tty10", "tty11"}
    (own,) = consoles(worker)
    script = f"(: <>/dev/berth/{own}) 2>&1; true"
    assert "not permitted" in monitor.run("sh", "-c", script)
    assert "not permitted" not in worker.run("sh", "-c", script)
    assert [hold["claim"] for hold in site.listed("holds")] == [f"{site.namespace}/work"]
    wait_allocatable(site, 1)
    monitor.delete()
    assert [hold["claim"] for hold in site.listed("holds")] == [f"{site.namespace}/work"]


def test_onlooker_is_no_exception_to_taints_and_heals_nothing(site: Site) -> None:
    """To look at a sick device a claim says that it tolerates it; the finding stands after it."""

    site.node.start_berthd(CONSOLES, activated=True).wait_ready()
    site.wait_registered()
    site.wait_offered(NAMES)
    welcome(site)
    site.berth("health", "set", NAMES[0], "fan-broken", "--message", "is replaced on Friday")
    site.wait_same("taints", lambda: tainted(site), {NAMES[0]})
    before = findings(site)
    assert before
    look(site, "generic")
    waiting = site.create("monitor", "look")
    waiting.wait_event("FailedScheduling", "cannot allocate all claims")
    assert phase(waiting.now) == "Pending"
    waiting.delete()
    site.api.delete(site.claim_path("look"))

    look(site, "generic", tolerations=[{"key": f"{DRIVER}/fault", "operator": "Exists"}])
    monitor = site.run("monitor", "look")
    assert set(consoles(monitor)) == {"tty10", "tty11"}
    monitor.delete()
    assert (findings(site), tainted(site)) == (before, {NAMES[0]})


def tainted(site: Site) -> set[str]:
    """The devices whose slices say that they are faulty."""
    return {name for name, one in site.wait_offered(NAMES).items() if one.get("taints")}


def findings(site: Site) -> list[Object]:
    """What stands against the first console."""
    command = Path(sys.executable).with_name("berth")
    told = json.loads(site.node.run("sh", "-c", f"{command} health list --json; test $? -le 1"))
    (console,) = (one for one in told["devices"] if one["name"] == NAMES[0])
    found: list[Object] = console["findings"]
    return found


@pytest.fixture(name="pairs")
def _pairs() -> Iterator[PairMachine]:
    """A machine with NICs that vfio-pci has."""
    need_compiler()
    with tempfile.TemporaryDirectory(prefix="berth-pairs-", dir="/var/tmp") as folder:
        yield PairMachine(Path(folder))


def test_function_of_a_machine_is_shown_to_nobody(site: Site, pairs: PairMachine) -> None:
    """Whoever opens it has it whole: refused by name, and the function stays as it is bound."""

    start_pairs(site, pairs)
    welcome(site)
    override = pairs.tree / "sys/bus/pci/devices" / NICS[0] / "driver_override"
    before = override.read_text(encoding="utf-8")
    look(site, "nic-vfio")

    said = site.create("monitor", "look").wait_refused()

    assert "is asked for with adminAccess" in said
    assert any(nic(root) in said for root in range(4))
    assert override.read_text(encoding="utf-8") == before
    assert site.listed("holds") == []
    site.claim("work", request("nic", of="nic-vfio"))
    site.cluster.wait_running(site.create("worker", "work").now, limit_s=LIMIT_S)
