"""ResourceSlices: values to the JSON that the API server takes, and what it holds back to values.

A `Slice` is one ResourceSlice, as wanted or as the server has it. Its devices stay JSON, since what
the server returns may hold fields that this program does not know; `device_json` makes them from
`berth.model.device`. Two slices are compared by `berth.kube.compare`, never by ``==``.

Source: ``k8s.io/api/resource/v1/types.go`` of 1.37.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from berth.kube import fields
from berth.kube.quantity import format_quantity
from berth.model.device import Attribute, Capacity, CounterSet, Device, Values, Version
from berth.model.nodecost import NodeCost

API_VERSION: Final = "resource.k8s.io/v1"

GROUPS: Final = "compatibilityGroups"
"""Field of what a device draws; with its feature gate off a server drops it."""

COSTS: Final = "nodeAllocatableResources"
"""Field of a device; with its feature gate off a server drops it."""
SKIPS: Final = "skipNodeOperations"
"""Field that says what kubelet does not ask a driver for; with its gate off a server drops it."""

READY: Final = "bindingConditions"
"""Field that tells what a pod's binding waits for; with its feature gate off a server drops it."""

_OWN: Final = frozenset(
    {
        "driver",
        "pool",
        "nodeName",
        "devices",
        "sharedCounters",
        "partitionTypeAttribute",
        SKIPS,
    }
)
"""Fields of ``spec`` that a node-local driver sets; any other was put there by somebody else."""


@attrs.frozen(kw_only=True)
class Owner:
    """The Node that a slice belongs to: when it goes, the garbage collector removes the slice."""

    name: str
    uid: str


@attrs.frozen(kw_only=True)
class Slice:
    """One ResourceSlice of a node.

    Attributes:
        driver: Name of the DRA driver.
        pool: Name of the pool.
        generation: Generation of the pool, the same in all its slices.
        slice_count: How many slices the pool has in this generation.
        node_name: The node; empty in a foreign slice that is bound otherwise.
        devices: Devices as JSON, in the order that the scheduler tries them.
        shared_counters: Counter sets as JSON, which devices in other slices of the pool draw on; a
            slice with some has no devices (1.35 and later).
        partition_type: Qualified name of the attribute that tells what part of its whole a device
            is; empty for none (1.37 and later).
        skips: What kubelet does not ask the driver for with claims of these devices (1.37 and
            later).
        name: Name of the object; empty while it is not created.
        generate_name: Prefix from which the server makes the name at creation.
        uid: Identity of the object; empty while it is not created.
        resource_version: Version of the object; empty while it is not created.
        owner: The node as an object, ``None`` when the object names none.
        others: Fields of ``spec`` that we never set. Anything here is a foreign edit.
    """

    driver: str
    pool: str
    generation: int
    slice_count: int
    node_name: str
    devices: tuple[Mapping[str, Any], ...]
    shared_counters: tuple[Mapping[str, Any], ...] = ()
    partition_type: str = ""
    skips: tuple[str, ...] = ()
    name: str = ""
    generate_name: str = ""
    uid: str = ""
    resource_version: str = ""
    owner: Owner | None = None
    others: Mapping[str, Any] = attrs.field(factory=dict)


def slice_json(wanted: Slice) -> dict[str, Any]:
    """The object to POST or PUT for ``wanted``.

    Without a ``name`` it asks the server to make one from ``generate_name``. A ``resource_version``
    makes a PUT fail with 409 when somebody else wrote in between.
    """
    return {
        "apiVersion": API_VERSION,
        "kind": "ResourceSlice",
        "metadata": _metadata(wanted),
        "spec": spec_json(wanted),
    }


def spec_json(wanted: Slice) -> dict[str, Any]:
    """The ``spec`` of ``wanted``, without what is empty."""
    spec = {
        "driver": wanted.driver,
        "pool": {
            "name": wanted.pool,
            "generation": wanted.generation,
            "resourceSliceCount": wanted.slice_count,
        },
        "nodeName": wanted.node_name,
        "devices": list(wanted.devices),
        "sharedCounters": list(wanted.shared_counters),
        "partitionTypeAttribute": wanted.partition_type,
        SKIPS: list(wanted.skips),
        **wanted.others,
    }
    return {key: value for key, value in spec.items() if value not in ("", [])}


def slice_from_json(value: Any) -> Slice:
    """Read a ResourceSlice; unknown fields are kept in ``devices`` and ``others``, else ignored.

    Raises:
        RemoteProtocolError: ``value`` is no ResourceSlice.
    """
    metadata = fields.mapping(value, "metadata")
    spec = fields.mapping(value, "spec")
    pool = fields.mapping(spec, "pool")
    return Slice(
        driver=fields.text(spec, "driver"),
        pool=fields.text(pool, "name"),
        generation=fields.integer(pool, "generation"),
        slice_count=fields.integer(pool, "resourceSliceCount"),
        node_name=fields.text(spec, "nodeName"),
        devices=tuple(fields.mappings(spec, "devices")),
        shared_counters=tuple(fields.mappings(spec, "sharedCounters")),
        partition_type=fields.text(spec, "partitionTypeAttribute"),
        skips=fields.texts(spec, SKIPS),
        name=fields.text(metadata, "name"),
        generate_name=fields.text(metadata, "generateName"),
        uid=fields.text(metadata, "uid"),
        resource_version=fields.text(metadata, "resourceVersion"),
        owner=_owner(metadata),
        others={key: value for key, value in spec.items() if key not in _OWN},
    )


def device_json(device: Device) -> dict[str, Any]:
    """One device as a slice's ``spec.devices`` holds it, quantities in canonical form."""
    result: dict[str, Any] = {
        "name": device.name,
        "attributes": {
            name: _values_json(device.lists[name])
            if name in device.lists
            else attribute_json(value)
            for name, value in sorted(device.attributes.items())
        },
    }
    if device.capacity:
        result["capacity"] = {
            name: _capacity_json(value) for name, value in sorted(device.capacity.items())
        }
    if device.shared:
        result["allowMultipleAllocations"] = True
    if device.taints:
        result["taints"] = [
            {"key": taint.key, "value": taint.value, "effect": taint.effect}
            for taint in device.taints
        ]
    if device.consumes:
        result["consumesCounters"] = [
            {
                "counterSet": one.counter_set,
                "counters": _counters_json(one.counters),
                **({GROUPS: list(one.groups)} if one.groups else {}),
            }
            for one in device.consumes
        ]
    if device.costs:
        result[COSTS] = {name: _cost_json(cost) for name, cost in sorted(device.costs.items())}
    if device.binding:
        result[READY] = list(device.binding)
        result["bindingFailureConditions"] = list(device.failure)
    return result


def counter_set_json(counters: CounterSet) -> dict[str, Any]:
    """One counter set as a slice's ``spec.sharedCounters`` holds it."""
    return {"name": counters.name, "counters": _counters_json(counters.counters)}


def attribute_json(value: Attribute) -> dict[str, Any]:
    """One attribute as the API's union of kinds; metadata files use the same form."""
    if isinstance(value, Version):
        return {"version": value.text}
    if isinstance(value, bool):
        return {"bool": value}
    return {"int": value} if isinstance(value, int) else {"string": value}


def _values_json(values: Values) -> dict[str, Any]:
    return {"ints" if isinstance(values[0], int) else "strings": list(values)}


def _counters_json(counters: Mapping[str, int]) -> dict[str, Any]:
    return {name: {"value": format_quantity(amount)} for name, amount in sorted(counters.items())}


def _capacity_json(capacity: Capacity) -> dict[str, Any]:
    result: dict[str, Any] = {"value": format_quantity(capacity.value)}
    policy: dict[str, Any] = {}
    if capacity.default is not None:
        policy["default"] = format_quantity(capacity.default)
    if capacity.values:
        policy["validValues"] = [format_quantity(value) for value in capacity.values]
    if capacity.bounds is not None:
        policy["validRange"] = {
            "min": format_quantity(capacity.bounds.minimum),
            "step": format_quantity(capacity.bounds.step),
        }
    if policy:
        result["requestPolicy"] = policy
    return result


def _cost_json(cost: NodeCost) -> dict[str, Any]:
    mapping = {
        "capacityKey": cost.capacity,
        "capacityMultiplier": _milli(cost.times_milli),
        "deviceMultiplier": _milli(cost.device_milli),
    }
    overhead = {"perPod": _milli(cost.pod_milli), "perContainer": _milli(cost.container_milli)}
    parts = {"mapping": mapping, "overhead": overhead}
    given = {key: {k: v for k, v in part.items() if v} for key, part in parts.items()}
    return {key: part for key, part in given.items() if part}


def _milli(amount: int) -> str:
    """A quantity in thousandths; empty for none."""
    whole, rest = divmod(amount, 1000)
    if rest:
        return f"{amount}m"
    return format_quantity(whole) if whole else ""


def _metadata(wanted: Slice) -> dict[str, Any]:
    named = {
        "name": wanted.name,
        "generateName": wanted.generate_name,
        "uid": wanted.uid,
        "resourceVersion": wanted.resource_version,
    }
    metadata: dict[str, Any] = {key: value for key, value in named.items() if value}
    if wanted.owner is not None:
        metadata["ownerReferences"] = [
            {
                "apiVersion": "v1",
                "kind": "Node",
                "name": wanted.owner.name,
                "uid": wanted.owner.uid,
                "controller": True,
            }
        ]
    return metadata


def _owner(metadata: Mapping[str, Any]) -> Owner | None:
    for reference in fields.mappings(metadata, "ownerReferences"):
        if fields.text(reference, "kind") == "Node" and reference.get("controller") is True:
            return Owner(name=fields.text(reference, "name"), uid=fields.text(reference, "uid"))
    return None
