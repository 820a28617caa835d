"""The daemon on a real node: what it costs, and how long a pod waits for it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.bench.conftest import Report
from tests.bench.figures import SOLE, Aim, Row, percentile
from tests.bench.lab import LATE, NIC, Lab, template
from tests.bench.processes import rss_mb, switches
from tests.cluster.bed import Cluster

STARTS = 10
ROUNDS = 200
PODS = 20
SUCCESSORS = 10
IDLE_S = 60
SETTLE_S = 5.0
CHANGES = 10
QUIET_S = 2.0


@pytest.fixture(scope="module")
def lab(cluster: Cluster) -> Iterator[Lab]:
    """A node with kubelet 1.37 and containerd 2.4, and one NIC."""
    made = Lab(cluster, cluster.node("1.37+2.4"))
    cluster.api.create(template())
    yield made
    cluster.discard(made.node)


def test_ready(report: Report, lab: Lab) -> None:
    """From the start of the process to READY=1, again and again."""

    times = [lab.start()[1] for _ in range(STARTS)]
    lab.wait_offered(NIC)

    report(
        Row(
            name="start to READY",
            unit="s",
            samples=tuple(times),
            aims=(Aim(of="p50", most=1.0),),
        )
    )


def test_memory_and_prepare(report: Report, lab: Lab) -> None:
    """Two hundred rounds over the real socket, with the real API server behind the daemon."""

    berthd, _ = lab.start()
    lab.wait_offered(NIC)
    before_mb = rss_mb(berthd.pid)
    times = lab.rounds_of_prepare(ROUNDS)
    after_mb = rss_mb(berthd.pid)

    kernel_ms = percentile(times["down"], 50)
    report(
        Row(
            name="prepare of one NIC",
            unit="ms",
            samples=tuple(times["prepare"]),
            beside=tuple(times["down"]),
            beside_name="bare link down",
        )
    )
    report(
        Row(
            name="prepare of one NIC beyond the kernel's link down",
            unit="ms",
            samples=tuple(each - kernel_ms for each in times["prepare"]),
            aims=(Aim(of="p50", most=5.0), Aim(of="p99", most=20.0)),
            note="the API server's answer to one GET, and the disk's to each fsync, are in it",
        )
    )
    report(
        Row(
            name="prepare of what is prepared already",
            unit="ms",
            samples=tuple(times["again"]),
            note="the call itself, one GET, and three files: no link is touched",
        )
    )
    report(Row(name="unprepare of one NIC", unit="ms", samples=tuple(times["unprepare"])))
    aims = (Aim(of=SOLE, most=60.0),)
    report(Row(name="memory after READY", unit="MB", samples=(before_mb,), aims=aims))
    report(
        Row(
            name=f"memory after {ROUNDS} rounds of prepare and unprepare",
            unit="MB",
            samples=(after_mb,),
            aims=aims,
            beside=(before_mb,),
            beside_name="after READY",
        )
    )


def test_idle(report: Report, lab: Lab) -> None:
    """A minute in which nothing happens."""

    berthd, _ = lab.start()
    lab.wait_offered(NIC)
    time.sleep(SETTLE_S)
    woken, written = switches(berthd.pid), lab.writes()
    time.sleep(IDLE_S)
    woken = {name: count - woken.get(name, 0) for name, count in switches(berthd.pid).items()}
    written = lab.writes() - written

    most = sorted(woken.items(), key=lambda item: -item[1])[:4]
    report(
        Row(
            name="voluntary wake-ups while idle, all threads",
            unit="1/s",
            samples=(sum(woken.values()) / IDLE_S,),
            aims=(Aim(of=SOLE, most=20.0),),
            note="; ".join(f"{name.split()[-1]} {count / IDLE_S:.1f}/s" for name, count in most),
        )
    )
    report(
        Row(
            name=f"writes to the API server in {IDLE_S} s of idleness",
            unit="",
            samples=(written,),
            aims=(Aim(of=SOLE, most=0.0),),
        )
    )


def test_link_to_slice(report: Report, lab: Lab) -> None:
    """From the kernel's event of a new link to the slice that a watch shows."""

    lab.start()
    lab.wait_offered(NIC)
    times = []
    for name in LATE:
        times.append(lab.plug_in(name) * 1000)
        time.sleep(1.0)
    for name in LATE:
        lab.node.remove_nic(name)
    lab.wait_offered(NIC)

    report(Row(name="link appears to slice written", unit="ms", samples=tuple(times)))


def test_start_of_pods(report: Report, lab: Lab) -> None:
    """Pods with a NIC and the same pods without, in turns."""

    lab.start()
    lab.wait_offered(NIC)
    lab.start_pod("first", with_nic=False)
    lab.end_pod("first")
    times: dict[bool, list[float]] = {True: [], False: []}
    for number in range(2 * PODS):
        with_nic = number % 2 == 0
        times[with_nic].append(lab.start_pod(f"pod{number}", with_nic=with_nic))
        lab.end_pod(f"pod{number}")

    report(
        Row(
            name="start of a pod with one NIC",
            unit="s",
            samples=tuple(times[True]),
            beside=tuple(times[False]),
            beside_name="pod without a claim",
            note="template claim: making, allocating and reserving it is in the ratio too",
        )
    )


def test_successor(report: Report, lab: Lab) -> None:
    """A pod is deleted by force, and its successor runs on the same NIC, ten times in a row."""

    lab.start()
    lab.wait_offered(NIC)
    lab.start_pod("heir0", with_nic=True)
    times = [lab.succeed_pod(f"heir{number}", f"heir{number + 1}") for number in range(SUCCESSORS)]
    lab.end_pod(f"heir{SUCCESSORS}")

    report(
        Row(
            name="deletion by force to successor running on the same NIC",
            unit="s",
            samples=tuple(times),
            note="kubelet gives the old pod 2 s to end",
        )
    )


def test_health_to_status(report: Report, lab: Lab) -> None:
    """A person's word is said and taken back, again and again, and the pod's status follows."""

    lab.start()
    lab.wait_offered(NIC)
    lab.start_pod("patient", with_nic=True)
    times = []
    for _ in range(CHANGES):
        for verb, health, reason in (
            ("health.set", "Unhealthy", "fan-broken"),
            ("health.clear", "Healthy", ""),
        ):
            took_s = lab.change_health("patient", verb, health, reason=reason)
            times.append(took_s * 1000)
            time.sleep(QUIET_S)
    lab.end_pod("patient")

    report(
        Row(
            name="verdict on a NIC to the pod's status",
            unit="ms",
            samples=tuple(times),
            aims=(Aim(of="p99", most=300.0),),
            note="a disk's write before it counts and kubelet's 30 to 70 ms are in it",
        )
    )
