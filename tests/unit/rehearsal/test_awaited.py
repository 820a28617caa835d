"""The stand-in for the scheduler waits with pods for their devices, as the real one does."""

from __future__ import annotations

from typing import Any

import pytest

from berth.errors import ClaimError
from berth.rehearsal.apiserver.resources import CLAIMS, PODS, SLICES
from berth.rehearsal.cluster import Cluster
from berth.rehearsal.manifests import pod_using
from berth.rehearsal.pods import Pods
from berth.rehearsal.runtime import Runtime
from berth.rehearsal.sandbox import PodName
from tests.unit.rehearsal.test_cluster import named, opened

READY, FAILED = "berth.dev/ready", "berth.dev/failed"


def waiting(*, devices: int = 1) -> tuple[Cluster, PodName]:
    """A pod whose NIC has conditions."""
    cluster = opened(devices)
    (item,) = cluster.api.objects(SLICES)
    for device in item["spec"]["devices"]:
        device["bindingConditions"], device["bindingFailureConditions"] = [READY], [FAILED]
    cluster.api.patch(SLICES, "s0", {"spec": item["spec"]})
    cluster.add_claim(named("c"))
    pod, _ = cluster.schedule(pod_using("p", {"resourceClaimName": "c"}))
    return cluster, pod


def node_of(cluster: Cluster, pod: PodName) -> str | None:
    """Where a pod is bound."""
    stored = cluster.api.get(PODS, pod.name, pod.namespace)
    assert stored is not None
    found: str | None = stored["spec"].get("nodeName")
    return found


def tell(cluster: Cluster, pod: PodName, **statuses: str) -> None:
    """Write what the driver says of the pod's device."""
    (ref,) = cluster.claims_of(pod).values()
    (result,) = cluster.results(ref)
    entry: dict[str, Any] = {key: result[key] for key in ("driver", "pool", "device")}
    entry["conditions"] = [
        {
            "type": f"berth.dev/{name}",
            "status": status,
            "reason": "Said",
            "message": "",
            "lastTransitionTime": "2023-11-14T22:13:20Z",
        }
        for name, status in statuses.items()
    ]
    cluster.api.patch(CLAIMS, ref.name, {"status": {"devices": [entry]}}, ref.namespace)


def test_pod_is_bound_when_all_conditions_hold() -> None:
    """Its claim is allocated and reserved at once, with both lists and the time."""

    cluster, pod = waiting()
    (ref,) = cluster.claims_of(pod).values()
    status = cluster.claim(ref)["status"]
    (result,) = cluster.results(ref)
    assert (result["bindingConditions"], result["bindingFailureConditions"]) == ([READY], [FAILED])
    assert status["allocation"]["allocationTimestamp"].endswith("Z")
    assert [entry["name"] for entry in status["reservedFor"]] == ["p"]

    with pytest.raises(ClaimError, match="is not bound to a node yet"):
        Pods(cluster, Runtime()).found(pod)
    for ready in ("Unknown", "False"):
        tell(cluster, pod, ready=ready, failed="False")
        assert (cluster.bind(pod), node_of(cluster, pod)) == (False, None)
    tell(cluster, pod, ready="True", failed="False")

    assert (cluster.bind(pod), node_of(cluster, pod)) == (True, "node")


def test_failure_condition_has_the_claim_allocated_anew() -> None:
    """Whatever the other condition says; what was told of the first allocation is gone."""

    cluster, pod = waiting(devices=2)
    tell(cluster, pod, ready="True", failed="True")
    (ref,) = cluster.claims_of(pod).values()

    assert cluster.bind(pod) is False
    claim = cluster.claim(ref)
    assert "devices" not in claim["status"]
    assert [entry["name"] for entry in claim["status"]["reservedFor"]] == ["p"]


def test_pod_without_conditions_is_bound_at_once() -> None:
    """As before."""

    cluster = opened()
    cluster.add_claim(named("c"))
    pod, _ = cluster.schedule(pod_using("p", {"resourceClaimName": "c"}))

    assert node_of(cluster, pod) == "node"
