"""The packaged service on the emulated machine: idle, and while one pod after the other has a VF.

`BERTH_BENCH_MINUTES` and `BERTH_BENCH_PODS` make it longer or shorter.
"""

from __future__ import annotations

import os
import time

import pytest

from tests.bench.conftest import Report
from tests.bench.figures import SOLE, Aim, Row
from tests.bench.guests import Cost, cost
from tests.cluster.claimforms import nic_config
from tests.lab.labnode import VFS
from tests.lab.labsite import LabSite

MINUTES = int(os.environ.get("BERTH_BENCH_MINUTES", "10"))
PODS = int(os.environ.get("BERTH_BENCH_PODS", "50"))
TENTH = max(1, PODS // 10)
SETTLE_S = 30.0
"""What the start, or the last pod, began has come to rest."""
HOME_S = 60.0
VF, DEVICE = "ens1v0", "nic-0000-21-10-0"
EMULATED = "the processor is emulated, about ten times slower than a node's"


@pytest.fixture(name="vf")
def _vf(site: LabSite) -> LabSite:
    """A site with one VF, and our daemon that offers it."""
    site.node.ip("link", "set", "ens1", "up")
    site.node.make_vfs("ens1", 1)
    site.open(VFS, nics=[], offers=[DEVICE])
    return site


def settled(site: LabSite) -> Cost:
    """What the service has when nothing is under way."""
    time.sleep(SETTLE_S)
    return cost(site.node)


def test_idle_service(report: Report, vf: LabSite) -> None:
    """Minutes in which it has a VF to offer and nobody wants it."""

    before = settled(vf)
    time.sleep(MINUTES * 60)
    after = cost(vf.node)
    assert after.pid == before.pid

    report(
        Row(
            name=f"memory of the service after {MINUTES} idle minutes, VM",
            unit="MB",
            samples=(after.rss_mb,),
            beside=(before.rss_mb,),
            beside_name=f"{SETTLE_S:.0f} s after READY",
            aims=(Aim(of=SOLE, most=60.0),),
        )
    )
    spent_s = after.cpu_s - before.cpu_s
    report(
        Row(
            name=f"processor time of the service in {MINUTES} idle minutes, VM",
            unit="s",
            samples=(spent_s,),
            note=f"{spent_s / MINUTES / 60:.1%} of one processor; {EMULATED}",
        )
    )


def test_one_pod_after_the_other(report: Report, vf: LabSite) -> None:
    """Each has the VF, and it comes home as it was before the next one is created.

    With the first one kubelet and the runtime open connections that stay: no leak.
    """

    at_home = vf.home(VF)
    vf.template("vf", config=[nic_config(addresses=[{"address": "192.0.2.10/24"}])])
    before, starts, ends = settled(vf), [], []
    first, course = before, []
    for number in range(PODS + 1):
        began = time.perf_counter()
        pod = vf.run(f"pod{number}", templates=["vf"])
        starts.append(time.perf_counter() - began)
        assert pod.links() == {"lo", "eth0", "net1"}
        began = time.perf_counter()
        pod.delete(grace_s=1)
        vf.wait_home(VF, at_home, limit_s=HOME_S)
        ends.append(time.perf_counter() - began)
        if number == 0:
            first = settled(vf)
        elif number % TENTH == 0:
            course.append(cost(vf.node))
    after = settled(vf)
    assert after.pid == before.pid

    report(Row(name="start of a pod with a VF, VM", unit="s", samples=tuple(starts), note=EMULATED))
    report(Row(name="deletion of a pod to its VF at home, VM", unit="s", samples=tuple(ends)))
    what = f"after {PODS} more pods with a VF, one after the other, VM"
    for name, had, came, left in (
        ("open files", before.files, first.files, after.files),
        ("threads", before.threads, first.threads, after.threads),
    ):
        report(
            Row(
                name=f"{name} left {what}",
                unit="",
                samples=(left - came,),
                aims=(Aim(of=SOLE, most=0.0),),
                note=f"{had} before the first pod, {came} after it, {left} after the last",
            )
        )
    for name, of in (("memory", _rss), ("memory of its own", _own)):
        grown = [of(one) - of(before) for one in (first, *course, after)]
        report(
            Row(
                name=f"{name} grown {what}",
                unit="MB",
                samples=(grown[-1],),
                aims=(Aim(of=SOLE, most=2.0),),
                note=f"of {of(before):.1f} MB before; with the first pod, then with each {TENTH}, "
                f"then at rest: {', '.join(f'{mb:.1f}' for mb in grown)}",
            )
        )


def _rss(of: Cost) -> float:
    return of.rss_mb


def _own(of: Cost) -> float:
    return of.own_mb
