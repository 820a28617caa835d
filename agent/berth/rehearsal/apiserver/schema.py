"""The shape of what the API server takes: types, unknown fields, canonical forms.

The real server decodes JSON into typed structures: a wrong type is a 400, an unknown field is
pruned (or a 400 under ``fieldValidation=Strict``), ``null`` is the same as absent, and quantities
come out in canonical form.

Source: ``k8s.io/api/resource/v1/types.go`` of 1.37.2; Kubernetes documentation, "Field validation".
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, TypeAlias

import attrs

from berth.kube.quantity import canonical_quantity
from berth.rehearsal.apiserver.problems import refuse


class Leaf(Enum):
    """A value without parts."""

    TEXT = "a string"
    INTEGER = "an integer"
    FLAG = "a boolean"
    QUANTITY = "a quantity"
    ANYTHING = "any JSON"


@attrs.frozen
class ListOf:
    """A list of equal shapes."""

    item: Shape


@attrs.frozen
class MapOf:
    """An object with free keys."""

    item: Shape


@attrs.frozen
class Fields:
    """An object with known keys.

    Attributes:
        zeros: Quantities that the server writes as 0 where they are not given.
        nulls: Those that it writes as ``null`` then.
    """

    members: Mapping[str, Shape]
    zeros: frozenset[str] = frozenset()
    nulls: frozenset[str] = frozenset()


Shape: TypeAlias = "Leaf | ListOf | MapOf | Fields"

_TEXT, _INTEGER, _FLAG, _QUANTITY = Leaf.TEXT, Leaf.INTEGER, Leaf.FLAG, Leaf.QUANTITY

_ATTRIBUTE: Final = Fields(
    {
        "int": _INTEGER,
        "bool": _FLAG,
        "string": _TEXT,
        "version": _TEXT,
        "ints": ListOf(_INTEGER),
        "bools": ListOf(_FLAG),
        "strings": ListOf(_TEXT),
        "versions": ListOf(_TEXT),
    }
)
_POLICY: Final = Fields(
    {
        "default": _QUANTITY,
        "validValues": ListOf(_QUANTITY),
        "validRange": Fields({"min": _QUANTITY, "max": _QUANTITY, "step": _QUANTITY}),
    },
    nulls=frozenset({"default"}),
)
_COUNTERS: Final = MapOf(Fields({"value": _QUANTITY}, frozenset({"value"})))
_TAINT: Final = Fields({"key": _TEXT, "value": _TEXT, "effect": _TEXT, "timeAdded": _TEXT})
_COST: Final = Fields(
    {
        "mapping": Fields(
            {"capacityKey": _TEXT, "capacityMultiplier": _QUANTITY, "deviceMultiplier": _QUANTITY}
        ),
        "overhead": Fields({"perPod": _QUANTITY, "perContainer": _QUANTITY}),
    }
)
_DEVICE: Final = Fields(
    {
        "name": _TEXT,
        "attributes": MapOf(_ATTRIBUTE),
        "capacity": MapOf(
            Fields({"value": _QUANTITY, "requestPolicy": _POLICY}, frozenset({"value"}))
        ),
        "consumesCounters": ListOf(
            Fields(
                {"counterSet": _TEXT, "counters": _COUNTERS, "compatibilityGroups": ListOf(_TEXT)}
            )
        ),
        "nodeName": _TEXT,
        "nodeSelector": Leaf.ANYTHING,
        "allNodes": _FLAG,
        "taints": ListOf(_TAINT),
        "bindsToNode": _FLAG,
        "bindingConditions": ListOf(_TEXT),
        "bindingFailureConditions": ListOf(_TEXT),
        "allowMultipleAllocations": _FLAG,
        "nodeAllocatableResources": MapOf(_COST),
    }
)
SLICE_SPEC: Final = Fields(
    {
        "driver": _TEXT,
        "pool": Fields({"name": _TEXT, "generation": _INTEGER, "resourceSliceCount": _INTEGER}),
        "nodeName": _TEXT,
        "nodeSelector": Leaf.ANYTHING,
        "allNodes": _FLAG,
        "devices": ListOf(_DEVICE),
        "perDeviceNodeSelection": _FLAG,
        "sharedCounters": ListOf(Fields({"name": _TEXT, "counters": _COUNTERS})),
        "partitionTypeAttribute": _TEXT,
        "skipNodeOperations": ListOf(_TEXT),
    }
)
"""``spec`` of a ResourceSlice."""

_CONDITION: Final = Fields(
    {
        "type": _TEXT,
        "status": _TEXT,
        "reason": _TEXT,
        "message": _TEXT,
        "lastTransitionTime": _TEXT,
        "observedGeneration": _INTEGER,
    }
)
CLAIM_STATUS: Final = Fields(
    {
        "allocation": Leaf.ANYTHING,
        "reservedFor": ListOf(
            Fields({"apiGroup": _TEXT, "resource": _TEXT, "name": _TEXT, "uid": _TEXT})
        ),
        "devices": ListOf(
            Fields(
                {
                    "driver": _TEXT,
                    "pool": _TEXT,
                    "device": _TEXT,
                    "shareID": _TEXT,
                    "conditions": ListOf(_CONDITION),
                    "data": Leaf.ANYTHING,
                    "networkData": Fields(
                        {
                            "interfaceName": _TEXT,
                            "ips": ListOf(_TEXT),
                            "hardwareAddress": _TEXT,
                        }
                    ),
                }
            )
        ),
    }
)
"""``status`` of a ResourceClaim."""


def conform(value: Any, shape: Shape, path: str, unknown: list[str]) -> Any:
    """``value`` as the server would decode it, as a fresh copy.

    Args:
        value: JSON.
        shape: What it should be.
        path: Where it is, for messages.
        unknown: Is given the path of every pruned field.

    Raises:
        KubeError: 400, when a type is wrong.
    """
    if isinstance(shape, Leaf):
        return _leaf(value, shape, path)
    if isinstance(shape, ListOf):
        _expect(value, list, path)
        return [
            conform(item, shape.item, f"{path}[{index}]", unknown)
            for index, item in enumerate(value)
        ]
    _expect(value, dict, path)
    if isinstance(shape, MapOf):
        return {
            key: conform(item, shape.item, f"{path}[{key}]", unknown) for key, item in value.items()
        }
    unknown += [f"{path}.{key}" for key in value if key not in shape.members]
    known = {
        key: conform(item, shape.members[key], f"{path}.{key}", unknown)
        for key, item in value.items()
        if key in shape.members and item is not None
    }
    return {**dict.fromkeys(shape.zeros, "0"), **dict.fromkeys(shape.nulls), **known}


def without_empty(value: Any, shape: Shape) -> Any:
    """``value`` as it is stored: lists and free keys of which there are none are left out."""
    if isinstance(shape, ListOf):
        return [without_empty(item, shape.item) for item in value]
    if isinstance(shape, MapOf):
        return {key: without_empty(item, shape.item) for key, item in value.items()}
    if not isinstance(shape, Fields):
        return value
    return {
        key: without_empty(item, shape.members[key])
        for key, item in value.items()
        if item or not isinstance(shape.members[key], ListOf | MapOf)
    }


def _leaf(value: Any, leaf: Leaf, path: str) -> Any:
    if leaf is Leaf.QUANTITY and isinstance(value, str | int | float) and value is not True:
        try:
            return canonical_quantity(str(value))
        except ValueError:
            raise refuse(400, f"{path}: quantities must match the regular expression") from None
    kinds = {Leaf.TEXT: str, Leaf.INTEGER: int, Leaf.FLAG: bool, Leaf.QUANTITY: str}
    if leaf is not Leaf.ANYTHING:
        _expect(value, kinds[leaf], path)
    return value


def _expect(value: Any, kind: type, path: str) -> None:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise refuse(
            400,
            f"json: cannot unmarshal {type(value).__name__} into field {path} "
            f"of type {kind.__name__}",
        )
