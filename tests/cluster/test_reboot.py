"""A node reboots, loses files or loses hardware, with claims prepared on it."""

from __future__ import annotations

import json

from tests.cluster import outages
from tests.cluster.api import Object
from tests.cluster.claimforms import nic_config
from tests.cluster.outages import NICS
from tests.cluster.site import Site, device

RECORDS = "/var/lib/berth/claims"
CDI = "/run/cdi"
READY_LIMIT_S = 5.0


def _cdi_devices(site: Site) -> set[str]:
    """The CDI devices that the node's files define, as a runtime reads them."""
    documents = [json.loads(file.read_text()) for file in site.node.path(CDI).glob("*.json")]
    return {f"{each['kind']}={it['name']}" for each in documents for it in each["devices"]}


def _require_nothing_left(site: Site) -> None:
    assert _cdi_devices(site) == set()
    assert list(site.node.path(RECORDS).iterdir()) == []
    assert list(site.node.path(outages.METADATA).iterdir()) == []


def test_pods_of_before_a_reboot_come_back_with_their_nics(site: Site) -> None:
    """Kubelet prepares each claim again: the same CDI devices, NICs as a fresh driver has them."""

    outages.open_furnished(site, nics=2)
    views = [outages.run(site, name, restartPolicy="Always") for name in ("one", "two")]
    devices = _cdi_devices(site)
    fresh: dict[str, Object] = {}

    def start() -> None:
        outages.forward_packets(site)
        fresh.update({nic: site.home(nic) for nic in NICS[:2]})
        site.node.start_berthd(outages.CONFIG).wait_ready()

    site.node.reboot(before_kubelet=start)

    for view in views:
        outages.wait_inside(view, limit_s=60)
    assert _cdi_devices(site) == devices
    for view in views:
        outages.delete(site, view)
    for nic, was in fresh.items():
        site.wait_home(nic, was)
    _require_nothing_left(site)


def test_pod_deleted_while_its_node_was_off_leaves_nothing(site: Site) -> None:
    """After the boot kubelet only unprepares, and the NIC is free for the next pod."""

    outages.open_furnished(site)
    view = outages.run(site, "old", restartPolicy="Always")

    def start() -> None:
        site.api.delete(view.path)
        site.node.start_berthd(outages.CONFIG).wait_ready()

    site.node.reboot(before_kubelet=start)
    site.api.wait_gone(view.path)

    assert site.log_lines("claim unprepared", "/old")
    assert not site.log_lines("claim prepared")
    _require_nothing_left(site)
    site.api.delete(site.claim_path("old"))
    outages.wait_inside(outages.run(site, "new"))


def test_lost_cdi_file_is_written_again_by_the_next_start(site: Site) -> None:
    """In the same boot kubelet asks for nothing, and a container may need it yet."""

    berthd = outages.open_furnished(site, activated=True)
    view = outages.run(site, "pod")
    devices = _cdi_devices(site)
    berthd.kill()
    for file in site.node.path(CDI).glob("*.json"):
        file.unlink()

    berthd.start()
    berthd.wait_ready(READY_LIMIT_S)

    assert _cdi_devices(site) == devices
    assert "net1" in view.links()


def test_pod_whose_nic_is_gone_ends_all_the_same(site: Site) -> None:
    """Its other claim is really undone; one line tells of the loss; the NIC is offered no more."""

    outages.open_furnished(site, nics=2)
    was = site.home("nic1")
    for name, address in (("one", "192.0.2.10/24"), ("two", "192.0.2.11/24")):
        site.claim(name, config=[nic_config(addresses=[{"address": address}])])
    view = site.run("pod", "one", "two")
    site.node.remove_nic("nic0")
    view.delete()

    site.wait_home("nic1", was)
    site.wait_offered([device("nic1")])
    assert len(site.log_lines("NIC lost", device("nic0"))) == 1
    assert len(site.log_lines("claim unprepared")) == 2
    _require_nothing_left(site)
