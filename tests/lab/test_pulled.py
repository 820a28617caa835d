"""A PCI function that comes while the node runs, and is pulled out from under its pod."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.lab.labnode import SLOW
from tests.lab.labsite import LabSite

pytestmark = pytest.mark.slow

DEVICE = "nic-0000-22-00-0"
SETTINGS = f"""{SLOW}
[[nic.group]]
name = "late"
match = {{ driver = ["e1000e"] }}
"""


@pytest.fixture(name="late")
def _late(site: LabSite) -> Iterator[LabSite]:
    """A site whose daemon runs already when a NIC is plugged into the empty port."""
    site.node.start_berthd(SETTINGS)
    site.node.machine.plug_in("late")
    site.wait_offered([DEVICE])
    yield site
    site.node.machine.pull_out("late")


def test_function_pulled_out_of_a_pod_is_told_and_the_pod_ends(late: LabSite) -> None:
    """Health, slice, the pod's status, the log and `why` say that it is gone; no record stays."""

    late.claim("nic")
    pod = late.run("user", "nic")
    assert pod.links() == {"lo", "eth0", "net1"}

    late.node.machine.pull_out("late")

    late.wait_log("reason=lost", DEVICE, limit_s=60)
    pod.wait(_is_unhealthy, what="told of its device")
    for asked in (DEVICE, "user"):
        told = late.berth("why", asked)
        # The link and the function are missed by two watches; the first to say so is quoted.
        assert " is lost: " in told
        assert "(since " in told
        assert "check its cable" not in told
    pod.delete()
    late.wait_same("holds", lambda: late.listed("holds"), [], limit_s=60)
    late.wait_offered([])
    late.node.machine.plug_in("late")
    late.wait_offered([DEVICE])


def _is_unhealthy(pod: dict[str, object]) -> bool:
    return '"health": "Unhealthy"' in json.dumps(pod["status"])
