"""Restart, crash and upgrade while pods get VFs, with a real kubelet: it never misses our daemon.

With stand-ins for kubelet and the runtime, and with packets counted: `tests/nspawn`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.cluster.claimforms import nic_config
from tests.cluster.node import SLICES
from tests.cluster.site import PodView
from tests.lab.labnode import VFS, LabNode
from tests.lab.labsite import LabSite

pytestmark = pytest.mark.slow

FUNCTIONS = ("10-0", "10-2", "10-4", "10-6", "11-0")
"""The first five VFs of an igb on its bus."""
OFFERS = [f"nic-0000-{bus}-{function}" for bus in ("21", "41") for function in FUNCTIONS]
CHECKPOINT = "/var/lib/kubelet/dra_manager_state"
OUT_OF_PATIENCE = "error reading server preface"
"""What kubelet says when a kept socket's next server took more than 20 s to come (KC §1.8)."""


def restart(node: LabNode) -> None:
    """As an operator does."""
    node.run("systemctl", "restart", "berthd")


def crash(node: LabNode) -> None:
    """As the kernel does; systemd starts another."""
    node.run("systemctl", "kill", "--signal=KILL", "berthd")


def upgrade(node: LabNode) -> None:
    """As apt does: all files are replaced under the running daemon, then a guarded restart."""
    node.run("dpkg", "--install", "/root/berthd.deb")


WAVES: Sequence[tuple[Callable[[LabNode], None], int]] = ((restart, 3), (crash, 2), (upgrade, 2))
"""What ends the daemon in the midst of a pod's start, and how many more pods come meanwhile."""


def test_ten_pods_start_while_berthd_is_restarted_crashes_and_is_upgraded(site: LabSite) -> None:
    """Each gets its VF; no call of kubelet's fails, no slice goes, kubelet registers nothing anew.

    A call that is under way at a kill -9 breaks with its connection, whoever keeps what: by then
    kubelet has the answer for the pod, and the runtime is at it.
    """

    node, views = site.node, list[PodView]()
    for nic in ("ens1", "ens2"):
        node.make_vfs(nic, len(FUNCTIONS))
    site.open(VFS, nics=[], offers=OFFERS)
    site.wait_registered()
    slices, registered = uids(site), registrations(node)

    for end, meanwhile in WAVES:
        views.append(create(site, len(views)))
        wait_answered(site, views[-1])
        with gone(node, end):
            views += [create(site, len(views) + number) for number in range(meanwhile)]
        # A guest with more to do needs more than kubelet's patience for the next start.
        wait_running(site, views)

    for number, view in enumerate(views):
        wait_inside(site, view, address(number))
    assert uids(site) == slices
    assert registrations(node) == registered
    assert len(site.log_lines("registered with kubelet")) == 1
    lives = node.berthd.log_text().split("Starting berthd.service")[1:]
    assert ["claim prepared" in life for life in lives] == [True] * (len(WAVES) + 1)
    warned = site.warnings()
    late = [each for each in warned if OUT_OF_PATIENCE in each]
    assert [each for each in warned if each not in late] == []
    if late:
        # Kubelet's patience is no setting, and an emulated start takes longer on a busy machine.
        pytest.skip(f"SKIPPED FOR WANT OF A QUIET MACHINE: kubelet waits for 20 s: {late}")


@contextlib.contextmanager
def gone(node: LabNode, end: Callable[[LabNode], None]) -> Iterator[None]:
    """End the daemon; the block begins when it is gone.

    Nobody asks the guest again and again meanwhile: that would hold up the next start.
    """
    pid = node.berthd.pid
    with ThreadPoolExecutor(1) as thread:
        ended = thread.submit(end, node)
        node.run("tail", f"--pid={pid}", "--sleep-interval=0.2", "--follow", "/dev/null")
        yield
        ended.result()


def create(site: LabSite, number: int) -> PodView:
    """A pod with a claim for a VF that gets an address."""
    name = f"pod{number}"
    site.claim(name, config=[nic_config(addresses=[{"address": f"{address(number)}/24"}])])
    return site.create(name, name)


def address(number: int) -> str:
    """Of a pod's VF."""
    return f"192.0.2.{10 + number}"


def wait_answered(site: LabSite, view: PodView) -> None:
    """Wait until kubelet has the answer to its prepare for a pod: then it asks for nothing."""

    def look() -> bool:
        return view.name in answered(site.node)

    site.wait_same(f"kubelet's answer for {view.name}", look, True, limit_s=site.limit_s)


def answered(node: LabNode) -> set[str]:
    """The claims of which kubelet knows the devices.

    Source: pkg/kubelet/cm/dra/state of Kubernetes 1.37: a claim is there before the call, and the
    devices of the answer behind it.
    """
    told = json.loads(json.loads(node.read(CHECKPOINT))["Data"])
    return {
        claim["ClaimName"]
        for claim in told["ClaimInfoStateList"] or ()
        if any(driver["Devices"] for driver in claim["DriverState"].values())
    }


def wait_running(site: LabSite, views: Iterable[PodView]) -> None:
    """Wait until all of these pods run."""
    for view in views:
        site.cluster.wait_running(view.now, limit_s=site.limit_s)


def wait_inside(site: LabSite, view: PodView, wished: str) -> None:
    """Wait until a pod has its VF with its address; it may come when the pod runs already."""

    def look() -> list[str]:
        links = {each["ifname"]: each["addr_info"] for each in view.ip("-4", "address")}
        return [each["local"] for each in links.get("net1", ())]

    site.wait_same(f"the VF of {view.name}", look, [wished], limit_s=site.limit_s)


def uids(site: LabSite) -> set[str]:
    """Of the node's slices; one that was wiped and made anew has another."""
    slices = site.api.items(SLICES, fieldSelector=f"spec.nodeName={site.node.name}")
    return {each["metadata"]["uid"] for each in slices}


def registrations(node: LabNode) -> int:
    """How often kubelet says that it has begun to take a driver in, or to drop one."""
    said = node.run("journalctl", "-q", "-o", "cat", "-u", "kubelet")
    return said.count("OperationExecutor.RegisterPlugin started") + said.count(
        "OperationExecutor.UnregisterPlugin started"
    )
