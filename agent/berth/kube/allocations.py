"""Claims as a watch of all of them tells them, reduced to what a node's driver is concerned by.

A cluster has many more claims than a node, so what is none of ours is found out by the fewest looks
and nothing of it is kept.

Source: ``k8s.io/api/resource/v1/types.go`` of 1.37.2, ``DeviceRequestAllocationResult``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from berth.kube import fields
from berth.kube.api import ClaimQuery
from berth.kube.claims import claim_ref_from_json, consumer_from_json, tolerations
from berth.model.allocation import AllocatedClaim, AllocatedDevice


def allocated_claim(value: Mapping[str, Any], query: ClaimQuery) -> AllocatedClaim | None:
    """A claim with the devices that ``query`` asks for; ``None`` for one without any.

    Raises:
        RemoteProtocolError: ``value`` is no ResourceClaim.
    """
    status = fields.mapping(value, "status")
    allocation = fields.mapping(status, "allocation")
    devices = tuple(_devices(fields.mapping(allocation, "devices"), query))
    if not devices:
        return None
    return AllocatedClaim(
        ref=claim_ref_from_json(value),
        devices=devices,
        consumers=tuple(map(consumer_from_json, fields.mappings(status, "reservedFor"))),
        allocated_at=fields.text(allocation, "allocationTimestamp"),
    )


def _devices(devices: Mapping[str, Any], query: ClaimQuery) -> Iterator[AllocatedDevice]:
    for result in fields.mappings(devices, "results"):
        pool = fields.text(result, "pool")
        if fields.text(result, "driver") == query.driver and pool in query.pools:
            consumed = fields.mapping(result, "consumedCapacity")
            yield AllocatedDevice(
                request=fields.text(result, "request"),
                pool=pool,
                device=fields.text(result, "device"),
                share_id=fields.text(result, "shareID") or None,
                consumed={name: fields.text(consumed, name) for name in consumed},
                tolerations=tolerations(result),
                admin_access=result.get("adminAccess") is True,
                skips=fields.texts(result, "skipNodeOperations"),
                binding_conditions=fields.texts(result, "bindingConditions"),
                failure_conditions=fields.texts(result, "bindingFailureConditions"),
            )
