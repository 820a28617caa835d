"""Feature gates of the API server: which fields of a slice it keeps, and which it drops.

A server drops a field in silence when its gate is off, unless the stored object uses the gate's
fields already. List attributes are the exception: what is left of one has no value, and is refused.

Source: ``pkg/registry/resource/resourceslice/strategy.go`` and ``pkg/features/kube_features.go`` of
1.37.2 (KC §4.5, §9.10).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

CONSUMABLE: Final = "DRAConsumableCapacity"
TAINTS: Final = "DRADeviceTaints"
PARTITIONABLE: Final = "DRAPartitionableDevices"
PARTITION_TYPE: Final = "DRAPartitionableDevicesType"
GROUPS: Final = "DRADeviceCompatibilityGroups"
BINDING: Final = "DRADeviceBindingConditions"
LISTS: Final = "DRAListTypeAttributes"
ALLOCATABLE: Final = "DRANodeAllocatableResources"
OPTIONAL_OPERATIONS: Final = "DRAOptionalNodeOperations"
GRANULAR_STATUS: Final = "DRAResourceClaimGranularStatusAuthorization"

GATES_1_34: Final = frozenset[str]()
"""Gates that are on by default in 1.34 and 1.35, of those that matter here."""

GATES_1_37: Final = frozenset({CONSUMABLE, TAINTS, PARTITIONABLE, BINDING, GRANULAR_STATUS})
"""Gates that are on by default in 1.36 and 1.37."""

DECLARED: Final = frozenset({OPTIONAL_OPERATIONS, ALLOCATABLE})
"""Gates of which a node tells whether its kubelet has them open, of those that matter here."""

_SPEC_FIELDS: Final = {
    "sharedCounters": PARTITIONABLE,
    "perDeviceNodeSelection": PARTITIONABLE,
    "partitionTypeAttribute": PARTITION_TYPE,
    "skipNodeOperations": OPTIONAL_OPERATIONS,
}
_DEVICE_FIELDS: Final = {
    "taints": TAINTS,
    "consumesCounters": PARTITIONABLE,
    "nodeName": PARTITIONABLE,
    "nodeSelector": PARTITIONABLE,
    "allNodes": PARTITIONABLE,
    "bindsToNode": BINDING,
    "bindingConditions": BINDING,
    "bindingFailureConditions": BINDING,
    "allowMultipleAllocations": CONSUMABLE,
    "nodeAllocatableResources": ALLOCATABLE,
}
_CONSUMPTION_FIELDS: Final = {"compatibilityGroups": GROUPS}
_CAPACITY_FIELDS: Final = {"requestPolicy": CONSUMABLE}
_ATTRIBUTE_FIELDS: Final = dict.fromkeys(("bools", "ints", "strings", "versions"), LISTS)


def drop_disabled(
    spec: dict[str, Any], old: Mapping[str, Any] | None, gates: frozenset[str]
) -> None:
    """Take the fields of gates that are off out of ``spec``, unless ``old`` uses that gate."""
    used = set(_gates_used(old)) if old is not None else set()
    for gate, holder, key in list(_gated(spec)):
        if gate not in gates and gate not in used:
            del holder[key]


def _gated(spec: Mapping[str, Any]) -> Iterator[tuple[str, Any, str]]:
    """Every gated field that is set: its gate, the mapping that holds it, its key."""
    yield from _present(spec, _SPEC_FIELDS)
    for device in spec.get("devices") or []:
        yield from _present(device, _DEVICE_FIELDS)
        for drawn in device.get("consumesCounters") or []:
            yield from _present(drawn, _CONSUMPTION_FIELDS)
        for capacity in (device.get("capacity") or {}).values():
            yield from _present(capacity, _CAPACITY_FIELDS)
        for attribute in (device.get("attributes") or {}).values():
            yield from _present(attribute, _ATTRIBUTE_FIELDS)


def _present(holder: Mapping[str, Any], gates: Mapping[str, str]) -> Iterator[tuple[str, Any, str]]:
    return ((gate, holder, key) for key, gate in gates.items() if key in holder)


def _gates_used(spec: Mapping[str, Any]) -> Iterator[str]:
    return (gate for gate, _, _ in _gated(spec))
