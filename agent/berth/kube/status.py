"""What a driver writes into a claim's status: one entry per device, by server-side apply.

Source: ``k8s.io/api/resource/v1/types.go`` of 1.37.2, ``AllocatedDeviceStatus``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

import attrs

from berth.kube import fields
from berth.kube.slices import API_VERSION
from berth.model.claim import ClaimRef, NetworkData


class ConditionStatus(Enum):
    """The three values of a Kubernetes condition."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


@attrs.frozen(kw_only=True)
class Condition:
    """One ``metav1.Condition``.

    Attributes:
        type: ``Ready``, ``NetworkReady``, ``Healthy``.
        status: Whether it holds.
        reason: CamelCase word, never empty.
        message: One sentence for a person; may be empty.
        changed_at: When ``status`` last changed, RFC 3339 in whole seconds with ``Z``.
    """

    type: str
    status: ConditionStatus
    reason: str
    message: str
    changed_at: str


@attrs.frozen(kw_only=True)
class DeviceStatus:
    """One entry of ``status.devices``; keyed by driver, pool, device and share.

    Attributes:
        share_id: The allocation's, ``None`` when it has none.
        conditions: At most 8, each type once.
        data: A JSON object of at most 10 KiB; ``None`` leaves the field away.
    """

    pool: str
    device: str
    share_id: str | None = None
    conditions: tuple[Condition, ...] = ()
    network: NetworkData | None = None
    data: Mapping[str, Any] | None = None


def claim_status_json(
    ref: ClaimRef, devices: Sequence[DeviceStatus], *, driver: str
) -> dict[str, Any]:
    """The body of one server-side apply to ``resourceclaims/status``.

    It holds **all** entries of ``driver``, since apply removes what the same manager wrote before
    and leaves away now. The UID makes the server refuse it for a successor of the same name.
    """
    return {
        "apiVersion": API_VERSION,
        "kind": "ResourceClaim",
        "metadata": {"name": ref.name, "namespace": ref.namespace, "uid": ref.uid},
        "status": {"devices": [_entry_json(device, driver) for device in devices]},
    }


def device_statuses(value: Any, *, driver: str) -> tuple[DeviceStatus, ...]:
    """The entries of ``driver`` in a claim, as they are read.

    Raises:
        RemoteProtocolError: ``value`` is no ResourceClaim.
    """
    return tuple(
        DeviceStatus(
            pool=fields.text(entry, "pool"),
            device=fields.text(entry, "device"),
            share_id=fields.text(entry, "shareID") or None,
            conditions=tuple(map(_condition, fields.mappings(entry, "conditions"))),
            network=_network(entry),
            data=entry.get("data"),
        )
        for entry in fields.mappings(fields.mapping(value, "status"), "devices")
        if fields.text(entry, "driver") == driver
    )


def _condition(value: Mapping[str, Any]) -> Condition:
    """One condition; a status that is none of the three says that nobody knows."""
    known = {status.value: status for status in ConditionStatus}
    return Condition(
        type=fields.text(value, "type"),
        status=known.get(fields.text(value, "status"), ConditionStatus.UNKNOWN),
        reason=fields.text(value, "reason"),
        message=fields.text(value, "message"),
        changed_at=fields.text(value, "lastTransitionTime"),
    )


def _network(entry: Mapping[str, Any]) -> NetworkData | None:
    value = fields.mapping(entry, "networkData")
    if not value:
        return None
    return NetworkData(
        interface_name=fields.text(value, "interfaceName"),
        ips=fields.texts(value, "ips"),
        hardware_address=fields.text(value, "hardwareAddress"),
    )


def _entry_json(device: DeviceStatus, driver: str) -> dict[str, Any]:
    entry: dict[str, Any] = {"driver": driver, "pool": device.pool, "device": device.device}
    if device.share_id is not None:
        entry["shareID"] = device.share_id
    if device.conditions:
        entry["conditions"] = [_condition_json(condition) for condition in device.conditions]
    if device.network is not None:
        entry["networkData"] = _network_json(device.network)
    if device.data is not None:
        entry["data"] = dict(device.data)
    return entry


def _condition_json(condition: Condition) -> dict[str, Any]:
    return {
        "type": condition.type,
        "status": condition.status.value,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": condition.changed_at,
    }


def _network_json(network: NetworkData) -> dict[str, Any]:
    result: dict[str, Any] = {}
    if network.interface_name:
        result["interfaceName"] = network.interface_name
    if network.ips:
        result["ips"] = list(network.ips)
    if network.hardware_address:
        result["hardwareAddress"] = network.hardware_address
    return result
