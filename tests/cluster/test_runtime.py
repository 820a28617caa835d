"""The runtime restarts, goes silent, loses a sandbox: no pod runs without its NIC unnoticed."""

from __future__ import annotations

import signal
import time

import pytest

from tests.cluster import outages
from tests.cluster.outages import FUSED, NICS
from tests.cluster.site import Site, device

OFFERED_LIMIT_S = 10.0


def test_pods_from_before_a_restart_of_the_runtime_give_their_nics_back(each_site: Site) -> None:
    """The runtime tells no stop of their sandboxes, so the end of the last container has to do.

    A veth end that is still in its pod when the namespace ends is lost for good.
    """

    berthd = outages.open_furnished(each_site, nics=2)
    home = {nic: each_site.home(nic) for nic in NICS[:2]}
    views = [outages.run(each_site, nic.replace("nic", "pod")) for nic in home]
    links = [view.link("net1") for view in views]

    each_site.node.containerd.kill()
    each_site.node.start_containerd()
    outages.wait_log(berthd, "NRI synchronized", count=2)

    assert [view.link("net1") for view in views] == links
    for view in views:
        each_site.api.delete(view.path)
    for view in views:
        each_site.api.wait_gone(view.path)
    for nic, was in home.items():
        each_site.wait_home(nic, was)


@pytest.mark.parametrize("moment", ["claim prepared", "NIC attached"])
def test_pod_whose_start_meets_a_restart_of_the_runtime_gets_its_nic(
    site: Site, moment: str
) -> None:
    """The runtime dies right after that, and before the pod's container runs."""

    berthd = outages.open_furnished(site)
    was = site.home("nic0")
    view = outages.create(site, "pod")
    outages.wait_log(berthd, moment)
    site.node.containerd.kill()
    site.node.start_containerd()

    site.cluster.wait_running(view.now, limit_s=60)

    outages.wait_inside(view)
    outages.delete(site, view)
    site.wait_home("nic0", was)


def test_pod_that_starts_while_the_daemon_is_frozen_gets_its_nic_late(each_site: Site) -> None:
    """Frozen within the hook, the NIC half done: the runtime gives up after 2 s and starts the pod.

    The hook goes on then, is too late and undoes what it did; the new connection tells of the pod.
    """

    berthd = outages.open_furnished(each_site, command=FUSED)
    outages.arm(each_site, "attach", 1, signal.SIGSTOP)
    view = outages.create(each_site, "pod")
    berthd.wait_frozen()
    each_site.cluster.wait_running(view.now)
    half_done = view.link("net1")
    berthd.thaw()

    outages.wait_inside(view)
    outages.wait_told(each_site, "pod")
    assert half_done["addresses"] == []
    assert each_site.log_lines("pod had started without its NICs", f"{each_site.namespace}/pod")


def test_new_sandbox_of_a_pod_gets_the_nic_and_the_end_of_the_old_one_leaves_it(
    each_site: Site,
) -> None:
    """The pause process is killed: kubelet makes another sandbox, and prepares nothing."""

    berthd = outages.open_furnished(each_site)
    view = outages.run(each_site, "pod", restartPolicy="Always")
    old = outages.wait_sandbox(each_site, view)
    each_site.node.run("busybox", "kill", "-9", str(old.pid))
    outages.wait_sandbox(each_site, view, but=old)
    link = outages.wait_inside(view)
    outages.remove_sandbox(each_site, old)

    assert view.link("net1") == link
    assert berthd.log_text().count("claim prepared") == 1
    assert berthd.log_text().count("NIC home") == 1


def test_nics_are_offered_once_nri_is_there(site: Site) -> None:
    """Without it no hook would move them; ten seconds after it came they can be had."""

    late = "/run/nri/late.sock"
    config = f'{outages.CONFIG}\n[nri]\nsocket = "{late}"\n'
    outages.open_furnished(site, config=config, offers=())
    view = outages.create(site, "pod")
    view.wait_event("FailedScheduling")
    offered = [item["spec"].get("devices") for item in outages.slices(site)]
    site.node.run("ln", "-s", "/run/nri/nri.sock", late)
    took_s = _wait_offered(site)
    site.cluster.wait_running(view.now)

    assert not any(offered)
    assert site.log_lines("NRI has no runtime yet", late)
    assert took_s < OFFERED_LIMIT_S
    outages.wait_inside(view)


def test_nics_are_not_offered_while_the_runtime_is_away(site: Site) -> None:
    """Not for the moment of a restart; when it is back they are offered again without one of us."""

    berthd = outages.open_furnished(site)
    site.node.containerd.kill()
    site.wait_offered([])
    site.node.start_containerd()
    took_s = _wait_offered(site)

    assert took_s < OFFERED_LIMIT_S
    assert berthd.log_text().count("ready version") == 1


def _wait_offered(site: Site) -> float:
    began = time.monotonic()
    site.wait_offered([device("nic0")])
    return time.monotonic() - began
