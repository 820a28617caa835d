"""Whatever becomes of our slices, the right ones are back soon; nothing is written for nothing.

Kubelet deletes them when it starts (`test_restarts.py`) and when a driver is away; people edit
them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from tests.cluster import outages
from tests.cluster.api import Object
from tests.cluster.node import SLICES
from tests.cluster.outages import NICS
from tests.cluster.site import Site, device

OFFERS = [device(nic) for nic in NICS[:2]]
BACK_LIMIT_S = 30.0
CUT_S, BACK_AFTER_CUT_LIMIT_S = 8.0, 60.0
WRITES_A_MINUTE = 20
IDLE_S = 30.0


def _delete(site: Site, item: Object) -> None:
    site.api.delete(_path(item))


def _delete_as_kubelet_does(site: Site, item: Object) -> None:
    site.api.delete(f"{SLICES}?fieldSelector=spec.nodeName%3D{item['spec']['nodeName']}")


def _drop_a_device(site: Site, item: Object) -> None:
    site.api.merge(_path(item), {"spec": {"devices": item["spec"]["devices"][:1]}})


def _raise_the_generation(site: Site, item: Object) -> None:
    pool = {**item["spec"]["pool"], "generation": 77, "resourceSliceCount": 2}
    site.api.merge(_path(item), {"spec": {"pool": pool}})


def _add_another(site: Site, item: Object) -> None:
    made = {**item, "metadata": {"generateName": "by-hand-"}}
    made["spec"] = {**item["spec"], "devices": [{"name": "nobody"}]}
    site.api.create({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", **made})


def _path(item: Object) -> str:
    return f"{SLICES}/{item['metadata']['name']}"


CHANGES: Sequence[Callable[[Site, Object], None]] = (
    _delete,
    _delete_as_kubelet_does,
    _drop_a_device,
    _raise_the_generation,
    _add_another,
)


def test_slices_that_somebody_changed_are_right_again(site: Site) -> None:
    """Right after we wrote them, and again and again: one generation, whole, by few writes."""

    outages.open_furnished(site, nics=2)
    before = outages.writes(site, "resourceslices")
    took_s = []

    for change in CHANGES:
        (item,) = outages.slices(site)
        change(site, item)
        took_s.append(_wait_right(site, limit_s=BACK_LIMIT_S))

    # All changes but one were such writes themselves: kubelet deletes a collection.
    ours = outages.writes(site, "resourceslices") - before - len(CHANGES) + 1
    assert max(took_s) < BACK_LIMIT_S
    assert len(CHANGES) <= ours <= WRITES_A_MINUTE


def test_slices_deleted_while_the_daemon_is_away_are_back_with_it(site: Site) -> None:
    """As kubelet does when a driver was away for half a minute."""

    berthd = outages.open_furnished(site, nics=2)
    (item,) = outages.slices(site)
    berthd.kill()
    _delete_as_kubelet_does(site, item)
    berthd.start()

    _wait_right(site, limit_s=BACK_LIMIT_S)


def test_slices_deleted_while_the_watch_is_cut_are_back_when_it_is_not(site: Site) -> None:
    """Nothing gets through for a while, not even that the connection is cut."""

    outages.open_furnished(site, nics=2)
    (item,) = outages.slices(site)
    outside, link = site.cluster.control.box.run, site.node.name
    outside("ip", "link", "set", link, "down")
    _delete(site, item)
    time.sleep(CUT_S)
    outside("ip", "link", "set", link, "up")

    _wait_right(site, limit_s=BACK_AFTER_CUT_LIMIT_S)


def test_nothing_is_written_while_nothing_changes(site: Site) -> None:
    """Neither slices nor the claim of a pod that has its NIC, for half a minute."""

    berthd = outages.open_furnished(site, nics=2)
    outages.run(site, "pod")
    # The one try; kubelet's credentials do not suffice for it.
    outages.wait_log(berthd, "claim status is not written")
    before = outages.writes(site, "resourceslices")
    version = site.api.get(site.claim_path("pod"))["metadata"]["resourceVersion"]
    time.sleep(IDLE_S)

    assert outages.writes(site, "resourceslices") == before
    assert site.api.get(site.claim_path("pod"))["metadata"]["resourceVersion"] == version
    assert berthd.log_text().count("claim status is not written") == 1


def _wait_right(site: Site, *, limit_s: float) -> float:
    """Wait until our slices are as they should be; gives how long that took.

    Each change is done when the API server has answered, so what is right was made right.
    """
    began = time.monotonic()
    outages.poll(lambda: outages.slices(site), _are_right, what="our slices", limit_s=limit_s)
    return time.monotonic() - began


def _are_right(slices: Sequence[Object]) -> bool:
    names = [each["name"] for item in slices for each in item["spec"].get("devices", ())]
    pools = {tuple(item["spec"]["pool"].items()) for item in slices}
    counts = {item["spec"]["pool"]["resourceSliceCount"] for item in slices}
    return sorted(names) == OFFERS and len(pools) == 1 and counts == {len(slices)}
