"""Costs of a device to its node, and the places in them at which the API server finds fault."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

CAPACITIES: Final = {"slots": {"value": "4"}}
"""Of the device."""


def _mapping(**fields: str) -> Mapping[str, Any]:
    return {"cpu": {"mapping": fields}}


COST_CASES: Final[Mapping[str, tuple[Mapping[str, Any], tuple[str, ...]]]] = {
    "by the device": (_mapping(deviceMultiplier="1500m"), ()),
    "by a capacity": (_mapping(capacityKey="slots", capacityMultiplier="2"), ()),
    "by pod and container": ({"memory": {"overhead": {"perPod": "1Gi", "perContainer": "0"}}}, ()),
    "huge pages": ({"hugepages-2Mi": {"overhead": {"perPod": "64Mi"}}}, ()),
    "room on the disk": (
        {"ephemeral-storage": {"overhead": {"perPod": "1Gi"}}},
        ("[ephemeral-storage]",),
    ),
    "no resource of a node": ({"pods": {"overhead": {"perPod": "1"}}}, ("[pods]",)),
    "nothing": ({"cpu": {}}, ("[cpu]",)),
    "no overhead": ({"cpu": {"overhead": {}}}, ("[cpu].overhead",)),
    "less than nothing": (
        {"cpu": {"overhead": {"perPod": "-1"}}},
        ("[cpu].overhead.perPod",),
    ),
    "no mapping": (_mapping(), ("[cpu].mapping",)),
    "both mappings": (
        _mapping(capacityKey="slots", capacityMultiplier="2", deviceMultiplier="1"),
        ("[cpu].mapping",),
    ),
    "no multiplier": (_mapping(capacityKey="slots"), ("[cpu].mapping.capacityMultiplier",)),
    "multiplier of nothing": (
        _mapping(capacityMultiplier="2", deviceMultiplier="1"),
        ("[cpu].mapping.capacityKey",),
    ),
    "unknown capacity": (
        _mapping(capacityKey="berth.dev/slots", capacityMultiplier="2"),
        ("[cpu].mapping.capacityKey",),
    ),
    "device for nothing": (
        _mapping(deviceMultiplier="0"),
        ("[cpu].mapping.deviceMultiplier",),
    ),
}
"""The cost, and the places below it."""
