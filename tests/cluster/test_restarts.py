"""Kubelet and berthd restart: neither pods nor slices nor the other one notice."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cluster import outages
from tests.cluster.berthd import program
from tests.cluster.boxes import Daemon
from tests.cluster.outages import NICS, REGISTERED
from tests.cluster.site import PodView, Site, device
from tests.descriptors import inotify_watches

ROUNDS = 20
STOPPED_BEFORE = (2, 6)
STARTED_BEFORE = (4, 8)
"""Numbers of the pods before whose creation the daemon is stopped, and started again."""
KUBELET_LIMIT_S = 10.0
DRAIN_S = 13.0
DRAIN_LIMIT_S = 18.0
REFUSAL_LIMIT_S = 5.0


def test_kubelet_that_restarts_twenty_times_finds_the_driver_each_time(site: Site) -> None:
    """Within 10 s it has registered us, within a moment the slices are back; nothing has grown."""

    berthd = outages.open_furnished(site, nics=2)
    stays = outages.run(site, "stays")
    link, pid = stays.link("net1"), berthd.pid
    offered = [device(nic) for nic in NICS[:2]]

    took_s = [_restart_kubelet(site, twice=False, politely=True)]
    site.wait_offered(offered)
    first = outages.figures(berthd)
    took_s += [
        _restart_kubelet(site, twice=number % 4 == 3, politely=number % 2 == 0)
        for number in range(1, ROUNDS)
    ]
    assert max(took_s) < KUBELET_LIMIT_S
    assert (berthd.alive, berthd.pid) == (True, pid)
    outages.wait_no_more(berthd, first)
    assert len(inotify_watches(pid)) == 1
    # Long after the last wipe, which comes beside the registration.
    site.wait_offered(offered)
    assert len(outages.slices(site)) == 1
    assert stays.link("net1") == link
    outages.run(site, "comes")
    assert outages.held(site, "comes") == "nic1"


def _restart_kubelet(site: Site, *, twice: bool, politely: bool) -> float:
    """Restart kubelet; gives the seconds from its last start until it took our driver."""
    kubelet, began, known = site.node.kubelet, 0.0, 0
    for _ in range(2 if twice else 1):
        kubelet.terminate() if politely else kubelet.kill()
        known = site.node.berthd.log_text().count(REGISTERED)
        kubelet.start()
        began = time.monotonic()
    outages.wait_log(site.node.berthd, REGISTERED, count=known + 1, limit_s=30)
    return time.monotonic() - began


@pytest.mark.parametrize("politely", [True, False], ids=["TERM", "KILL"])
def test_daemon_behind_kept_sockets_restarts_while_ten_pods_start(
    site: Site, politely: bool
) -> None:
    """No pod fails, no slice is lost, and kubelet does not ask anew: to it nothing has happened."""

    berthd = outages.open_furnished(site, nics=len(NICS), activated=True)
    before = {item["metadata"]["uid"] for item in outages.slices(site)}
    views: list[PodView] = []

    for number, nic in enumerate(NICS):
        if number in STOPPED_BEFORE:
            _stop(site, views, politely=politely)
        if number in STARTED_BEFORE:
            berthd.start()
        views.append(outages.create(site, nic.replace("nic", "pod")))
    _wait_running(site, views)

    assert [view.link("net1")["mtu"] for view in views] == [1400] * len(NICS)
    assert not failures(site)
    assert {item["metadata"]["uid"] for item in outages.slices(site)} == before
    assert berthd.log_text().count(REGISTERED) == 1


def failures(site: Site) -> list[str]:
    """What was told of the namespace's pods as failed, but for what is the API server's own."""
    return [told for told in site.warnings() if told.partition(": ")[2].startswith("Failed")]


def _stop(site: Site, views: Sequence[PodView], *, politely: bool) -> None:
    if politely:
        site.node.berthd.terminate(limit_s=DRAIN_LIMIT_S)
    else:
        # Kubelet's call that is under way would break with its connection, whoever keeps what.
        _wait_running(site, views)
        site.node.berthd.kill()


def _wait_running(site: Site, views: Sequence[PodView]) -> None:
    for view in views:
        site.cluster.wait_running(view.now, limit_s=45)


def test_second_daemon_is_refused_and_disturbs_nothing(site: Site) -> None:
    """It names the holder's process and the lock, and the first serves on."""

    berthd = outages.open_furnished(site)
    inside = Path(f"/proc/{berthd.pid}/status").read_text().partition("NSpid:")[2].split()[1]
    began = time.monotonic()
    second = Daemon(site.node.box, "second", program())
    second.start()
    code = second.wait(limit_s=30)
    took_s = time.monotonic() - began

    assert (code, berthd.alive) == (1, True)
    assert inside in second.log_text()
    assert "/var/lib/berth" in second.log_text()
    assert took_s < REFUSAL_LIMIT_S
    outages.wait_inside(outages.run(site, "pod"))
    assert berthd.log_text().count("NRI synchronized") == 1


def test_daemon_that_is_told_to_end_lets_a_waiting_claim_go_in_time(site: Site) -> None:
    """A prepare that waits for a NIC gets its answer after 15 s, and the process ends by 18."""

    berthd = outages.open_furnished(site, activated=True)
    berthd.kill()
    view = outages.create(site, "pod")
    site.api.wait(site.claim_path("pod"), lambda claim: "allocation" in claim.get("status", {}))
    site.node.remove_nic("nic0")
    berthd.start()
    outages.wait_log(berthd, "claim waits")
    assert not failures(site)
    began = time.monotonic()

    assert berthd.terminate(limit_s=60) == 0
    took_s = time.monotonic() - began
    told = view.wait_event("FailedPrepareDynamicResources")
    # The pod's end waits for it.
    berthd.start()
    berthd.wait_ready()

    assert DRAIN_S < took_s < DRAIN_LIMIT_S
    assert "berthd is stopping; kubelet asks again" in told
