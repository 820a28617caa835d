"""The control plane around a pod: claims made, given, reserved and given up."""

from __future__ import annotations

from typing import Any

import pytest

from berth.errors import ClaimError
from berth.kube.claims import POD_CLAIM_NAME, claim_from_json
from berth.model.claim import PreparedDevice
from berth.rehearsal.apiserver.resources import CLAIMS, PODS, SLICES
from berth.rehearsal.apiserver.server import ApiServer
from berth.rehearsal.cluster import Cluster
from berth.rehearsal.manifests import pod_using
from berth.rehearsal.pods import Pod
from berth.rehearsal.sandbox import PodName

CLAIM_SPEC = {
    "devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "nic.berth.dev"}}]}
}


def opened(devices: int = 1) -> Cluster:
    """A cluster with one node and a slice of so many NICs."""
    cluster = Cluster(ApiServer(), node="node", driver="berth.dev")
    cluster.open()
    cluster.api.put(
        SLICES,
        {
            "metadata": {"name": "s0"},
            "spec": {
                "driver": "berth.dev",
                "nodeName": "node",
                "pool": {"name": "node/nic", "generation": 1, "resourceSliceCount": 1},
                "devices": [
                    {"name": f"nic-{n}", "attributes": {"type": {"string": "nic"}}}
                    for n in range(devices)
                ],
            },
        },
    )
    return cluster


def named(name: str) -> dict[str, Any]:
    """A claim of a name."""
    return {"metadata": {"name": name}, "spec": CLAIM_SPEC}


def test_claim_by_name_is_allocated_and_reserved() -> None:
    """What kubelet and the daemon look for in a claim is there."""

    cluster = opened()
    cluster.add_claim(named("c"))

    pod, notes = cluster.schedule(pod_using("p", {"resourceClaimName": "c"}))

    ref = cluster.claims_of(pod)["nic"]
    claim = claim_from_json(cluster.claim(ref), driver="berth.dev")
    assert notes == ()
    assert [result.device for result in claim.results] == ["nic-0"]
    assert [(c.name, c.uid) for c in claim.consumers] == [("p", pod.uid)]
    assert claim.nodes == ("node",)
    assert claim.pod_claim_name is None
    stored = cluster.api.get(PODS, "p", "default")
    assert stored is not None
    assert stored["spec"]["nodeName"] == "node"


def test_claim_by_template_belongs_to_its_pod() -> None:
    """It bears the pod's own name for it, and goes with the pod."""

    cluster = opened()
    cluster.add_template({"metadata": {"name": "t"}, "spec": {"spec": CLAIM_SPEC}})

    pod, _ = cluster.schedule(pod_using("p", {"resourceClaimTemplateName": "t"}))

    ref = cluster.claims_of(pod)["nic"]
    metadata = cluster.claim(ref)["metadata"]
    assert metadata["annotations"] == {POD_CLAIM_NAME: "nic"}
    assert metadata["name"].startswith("p-nic-")
    cluster.delete(pod)
    assert cluster.api.objects(CLAIMS) == []
    with pytest.raises(ClaimError, match="is gone"):
        cluster.claim(ref)


def test_named_claim_is_free_again_after_its_last_pod() -> None:
    """Two pods share a claim; its device is free when both are gone."""

    cluster = opened()
    for name in ("c", "d"):
        cluster.add_claim(named(name))
    first, _ = cluster.schedule(pod_using("p", {"resourceClaimName": "c"}))
    second, _ = cluster.schedule(pod_using("q", {"resourceClaimName": "c"}))
    ref = cluster.claims_of(second)["nic"]

    cluster.delete(first)
    assert [e["uid"] for e in cluster.claim(ref)["status"]["reservedFor"]] == [second.uid]
    with pytest.raises(ClaimError, match="nic-0 is in use"):
        cluster.schedule(pod_using("r", {"resourceClaimName": "d"}))
    cluster.delete(second)

    third, _ = cluster.schedule(pod_using("s", {"resourceClaimName": "d"}))
    assert [r["device"] for r in cluster.results(cluster.claims_of(third)["nic"])] == ["nic-0"]


@pytest.mark.parametrize(
    "entry", [{"resourceClaimName": "none"}, {"resourceClaimTemplateName": "none"}]
)
def test_pod_that_names_what_is_not_there_is_refused(entry: dict[str, str]) -> None:
    """The missing object is named."""

    with pytest.raises(ClaimError, match="none, which is not there"):
        opened().schedule(pod_using("p", entry))


async def test_wipe_takes_what_kubelet_takes() -> None:
    """All slices of the node, or those of one driver; those of other nodes stay."""

    cluster = opened()
    other = cluster.slices()[0]
    for name, driver, node in (("a", "other.dev", "node"), ("b", "berth.dev", "elsewhere")):
        spec = {**other["spec"], "driver": driver, "nodeName": node}
        cluster.api.put(SLICES, {"metadata": {"name": name}, "spec": spec})

    await cluster.wipe("berth.dev")
    assert [item["metadata"]["name"] for item in cluster.api.objects(SLICES)] == ["a", "b"]
    await cluster.wipe(None)
    assert [item["metadata"]["name"] for item in cluster.api.objects(SLICES)] == ["b"]


def test_container_asks_for_the_devices_of_its_requests() -> None:
    """CDI names follow the container's references, in order and each once."""

    cluster = opened()
    cluster.add_claim(named("c"))
    name, _ = cluster.schedule(pod_using("p", {"resourceClaimName": "c"}))
    ref = cluster.claims_of(name)["nic"]
    devices = [
        PreparedDevice(requests=("a",), pool="p", device="x", cdi_ids=("k=1", "k=2")),
        PreparedDevice(requests=("b",), pool="p", device="y", cdi_ids=("k=3",)),
    ]
    pod = Pod(name=name, spec={}, claims={"nic": ref}, prepared={ref.uid: devices})

    def asked(*claims: dict[str, str]) -> tuple[str, ...]:
        return pod.cdi_ids({"resources": {"claims": list(claims)}})

    assert asked({"name": "nic"}) == ("k=1", "k=2", "k=3")
    assert asked({"name": "nic", "request": "b"}, {"name": "nic"}) == ("k=3", "k=1", "k=2")
    assert asked({"name": "other"}) == ()
    assert pod.cdi_ids({}) == ()


def test_pod_without_a_sandbox_says_so() -> None:
    """A step that comes too early is told, not guessed at."""

    pod = Pod(name=PodName(namespace="n", name="p", uid="u"), spec={}, claims={})

    with pytest.raises(ClaimError, match="pod n/p: has no sandbox"):
        _ = pod.running
