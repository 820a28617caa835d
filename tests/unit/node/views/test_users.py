"""Who uses a claim, by what kubelet lists of its containers."""

from __future__ import annotations

from berth.model.claim import Consumer
from berth.model.resource import ClaimUsage, ContainerRef
from berth.nic.record import Stage
from berth.node.records.record import ClaimRecord
from berth.node.views import Knowledge, as_used, holds_view, why_view
from berth.node.views.holds import pods_of
from tests.unit.node.views.scenes import INVENTORY, POD, claim_record, nic_record

FIRST = claim_record(nic_record())
GROUP = Consumer(resource="podgroups", name="team", uid="g-1")


def usage(pod: str, record: ClaimRecord = FIRST, **other: str) -> ClaimUsage:
    """A container of a pod has the claim's device."""
    claim = record.claim
    told = {"namespace": claim.namespace, "name": claim.name, "driver": record.driver, **other}
    ref = ContainerRef(namespace=told["namespace"], pod=pod, container="main")
    return ClaimUsage(container=ref, pool="p", device="d", **told)


def test_every_pod_of_a_shared_claim_is_told() -> None:
    """Two containers of one pod are one user; the UID of one that was known stays."""

    (used,) = as_used([FIRST], [usage("web-1"), usage("web-0"), usage("web-1")])

    (known,) = FIRST.consumers
    assert pods_of(used) == ["web-0", "web-1"]
    assert known.name not in {"web-0", "web-1"}
    (again,) = as_used([FIRST], [usage(known.name)])
    assert again == FIRST


def test_claim_of_a_pod_group_tells_its_pods() -> None:
    """The group stays what it is reserved for."""

    record = claim_record(nic_record(), consumers=(GROUP,))
    (used,) = as_used([record], [usage("web-0")])

    assert used.consumers == (GROUP, Consumer(resource="pods", name="web-0", uid=""))
    (hold,) = holds_view([used], [])["holds"]
    assert hold["pods"] == ["web-0"]
    pod = f"{record.claim.namespace}/web-0"
    answer = why_view(pod, Knowledge(records=[used], inventory=INVENTORY))
    assert [found["name"] for found in answer["found"]] == [pod]


def test_pod_that_has_the_nic_is_told_though_no_container_refers_to_it() -> None:
    """PodResources lists by container."""

    record = claim_record(nic_record(Stage.ATTACHED), consumers=(GROUP,))

    (used,) = as_used([record], [])

    assert used.consumers == (GROUP, POD)
    (both,) = as_used([record], [usage("web-0")])
    assert pods_of(both) == ["web", "web-0"]


def test_what_is_no_claim_of_ours_changes_nothing() -> None:
    """Another driver's device, another namespace, or nothing at all."""

    strange = [usage("web-0", driver="other.dev"), usage("web-0", namespace="elsewhere")]

    assert as_used([FIRST], strange) == as_used([FIRST], []) == (FIRST,)
