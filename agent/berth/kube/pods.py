"""Pods as the API server tells them, reduced to their claims and their end.

Source: ``k8s.io/dynamic-resource-allocation/resourceclaim`` of 1.37.2, ``Name``.
"""

from __future__ import annotations

from typing import Any

from berth.kube import fields
from berth.model.pod import PodClaims


def pod_claims_from_json(value: Any, *, uid: str) -> PodClaims | None:
    """What a pod uses; ``None`` when it is another pod than that of ``uid``.

    Raises:
        RemoteProtocolError: ``value`` is no pod.
    """
    if fields.text(fields.mapping(value, "metadata"), "uid") != uid:
        return None
    spec = fields.mapping(value, "spec")
    status = fields.mapping(value, "status")
    return PodClaims.resolve(
        group=fields.text(fields.mapping(spec, "schedulingGroup"), "podGroupName"),
        entries=[
            (fields.text(entry, "name"), fields.text(entry, "resourceClaimName"))
            for entry in fields.mappings(spec, "resourceClaims")
        ],
        made={
            fields.text(one, "name"): fields.text(one, "resourceClaimName")
            for one in fields.mappings(status, "resourceClaimStatuses")
        },
    )


def is_ending(value: Any, *, uid: str) -> bool:
    """Whether a pod is being deleted, has ended, or is another than that of ``uid``.

    Raises:
        RemoteProtocolError: ``value`` is no pod.
    """
    metadata = fields.mapping(value, "metadata")
    phase = fields.text(fields.mapping(value, "status"), "phase")
    return (
        fields.text(metadata, "uid") != uid
        or bool(fields.text(metadata, "deletionTimestamp"))
        or phase in {"Succeeded", "Failed"}
    )
