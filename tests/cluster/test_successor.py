"""The next pod comes before the last one has let go of the NIC."""

from __future__ import annotations

import statistics
import time

from tests.cluster import outages
from tests.cluster.claimforms import nic_config
from tests.cluster.site import Site

ROUNDS = 10
TAKEOVER_LIMIT_S = 2.0
REFUSED_S = 60.0
"""After this time kubelet asks again for what was refused; one such round gives the fault away."""
# Deaf to TERM, so that its sandbox lives on for the whole of its grace period.
STUBBORN = ["/bin/sh", "-c", "trap '' TERM; while :; do sleep 1; done"]


def test_successor_of_a_pod_deleted_by_force_gets_its_nic_ten_times_in_a_row(site: Site) -> None:
    """It waits for the old sandbox's end and runs at once; the late unprepare is not for it."""

    berthd = outages.open_furnished(site)
    interface = nic_config(interface={"name": "net1"}, addresses=[{"address": outages.ADDRESS}])
    site.template("nic", config=[interface])
    more = {"command": STUBBORN, "terminationGracePeriodSeconds": 1}
    view = site.run("pod0", templates=["nic"], **more)

    took_s = []
    for number in range(1, ROUNDS + 1):
        site.api.delete(view.path, grace_s=0)
        view = site.create(f"pod{number}", templates=["nic"], **more)
        outages.wait_log(berthd, "NIC home", count=number)
        began = time.monotonic()
        site.cluster.wait_running(view.now)
        took_s.append(time.monotonic() - began)
        assert "net1" in view.links()

    outages.wait_log(berthd, "claim unprepared", count=ROUNDS)
    assert statistics.median(took_s) < TAKEOVER_LIMIT_S
    assert max(took_s) < REFUSED_S / 2
    assert "net1" in view.links()
    assert len(site.log_lines("claim waits")) == ROUNDS
