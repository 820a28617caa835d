"""Which pods use a claim: of all that share one, kubelet names us the first alone.

It prepares a claim once for every pod of its node, and one of a pod group names no pod at all. What
containers have by a claim, kubelet's PodResources lists; a pod none of whose containers refers to
one is known by the NIC that it has.

Source: KC §3.2, §7.1, §10.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import attrs

from berth.model.claim import Consumer
from berth.model.resource import ClaimUsage
from berth.node.records.record import ClaimRecord


def as_used(
    records: Iterable[ClaimRecord], usages: Iterable[ClaimUsage]
) -> tuple[ClaimRecord, ...]:
    """The records with the pods that use their claims now.

    One whose claim no container refers to, with no NIC in a pod, stays as it was prepared.
    """
    users: dict[tuple[str, str, str], dict[str, None]] = {}
    for usage in usages:
        key = (usage.namespace, usage.name, usage.driver)
        users.setdefault(key, {})[usage.container.pod] = None
    return tuple(_used(record, users) for record in records)


def _used(
    record: ClaimRecord, users: Mapping[tuple[str, str, str], Collection[str]]
) -> ClaimRecord:
    away = (nic.sandbox for nic in record.nics if nic is not None and nic.is_away)
    inside = {ref.pod.rpartition("/")[2]: ref.pod_uid for ref in away if ref is not None}
    listed = users.get((record.claim.namespace, record.claim.name, record.driver)) or ()
    pods = {*listed, *inside}
    if not pods:
        return record
    named = {consumer.name: consumer.uid for consumer in record.consumers if consumer.is_pod}
    uids = inside | named
    others = (consumer for consumer in record.consumers if not consumer.is_pod)
    known = (Consumer(resource="pods", name=pod, uid=uids.get(pod, "")) for pod in sorted(pods))
    return attrs.evolve(record, consumers=(*others, *known))
