"""Which ResourceSlices the API server takes.

Paths and verdicts are those of kube-apiserver 1.37.2, the wording is our own. Not checked: node
selectors in depth, which no driver of ours writes.

Source: ``pkg/apis/resource/validation/validation.go`` of 1.37.2 (KC §4.1 to §4.3, §9).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from berth.model.names import is_dns_label, is_dns_subdomain
from berth.rehearsal.apiserver.capacityrules import check_capacity
from berth.rehearsal.apiserver.costrules import check_costs
from berth.rehearsal.apiserver.counterrules import (
    check_consumption,
    check_counter_sets,
    check_partition_type,
)
from berth.rehearsal.apiserver.problems import (
    DUPLICATE,
    INVALID,
    NOT_SUPPORTED,
    REQUIRED,
    TOO_LONG,
    TOO_MANY,
    Problem,
)

DEVICES_LIMIT: Final = 128
DEVICES_LIMIT_ADVANCED: Final = 64
"""Limit as soon as one device has taints, counters or list attributes."""

KEYS_LIMIT: Final = 32
VALUES_LIMIT: Final = 48
TEXT_LIMIT: Final = 64
TAINTS_LIMIT: Final = 16

_SCALARS: Final = ("bool", "int", "string", "version")
_LISTS: Final = ("bools", "ints", "strings", "versions")
_EFFECTS: Final = frozenset({"None", "NoSchedule", "NoExecute"})
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LABEL_PART: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]")
_SEMVER: Final = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(-(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?"
    r"(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?",
    re.ASCII,
)


def check_slice(spec: Mapping[str, Any], old: Mapping[str, Any] | None) -> list[Problem]:
    """The faults of a slice's ``spec``.

    Args:
        spec: As it would be stored, after fields of gates that are off were dropped.
        old: The stored one at an update, ``None`` at creation.
    """
    problems = [
        *check_driver(spec.get("driver", ""), "spec.driver"),
        *_check_pool(spec.get("pool", {})),
    ]
    if old is not None:
        problems += _check_immutable(spec, old)
    problems += _check_binding(spec)
    if spec.get("sharedCounters") is not None and spec.get("devices") is not None:
        problems.append(
            Problem("spec", INVALID, "only one of `sharedCounters` or `devices` is allowed")
        )
    problems += _check_devices(spec)
    problems += check_counter_sets(spec.get("sharedCounters") or [], "spec.sharedCounters")
    problems += check_partition_type(spec, "spec.partitionTypeAttribute")
    return [*problems, *_check_skipped(spec)]


def check_driver(name: str, path: str) -> Iterator[Problem]:
    """The faults of a driver's name."""
    if not name:
        yield Problem(path, REQUIRED, "")
        return
    if len(name) > 63:
        yield Problem(path, TOO_LONG, "may not be more than 63 bytes")
    if not is_dns_subdomain(name.lower(), limit=253):
        yield Problem(path, INVALID, "must be a lower-case DNS subdomain", name)


def check_pool_name(name: str, path: str) -> Iterator[Problem]:
    """The faults of a pool's name: DNS subdomains joined by slashes."""
    if not name:
        yield Problem(path, REQUIRED, "")
        return
    if len(name) > 253:
        yield Problem(path, TOO_LONG, "may not be more than 253 bytes")
    for part in name.split("/"):
        if not is_dns_subdomain(part, limit=253):
            yield Problem(path, INVALID, "must be a lower-case DNS subdomain", part)


def check_label_name(name: str, path: str) -> Iterator[Problem]:
    """The faults of a qualified label name, as taints and conditions have it."""
    prefix, slash, last = name.rpartition("/")
    right = _LABEL_PART.fullmatch(last) is not None
    if not right or (slash and not is_dns_subdomain(prefix, limit=253)):
        yield Problem(path, INVALID, "must be a qualified name", name)


def _check_pool(pool: Mapping[str, Any]) -> Iterator[Problem]:
    yield from check_pool_name(pool.get("name", ""), "spec.pool.name")
    if pool.get("resourceSliceCount", 0) <= 0:
        count = pool.get("resourceSliceCount", 0)
        yield Problem("spec.pool.resourceSliceCount", INVALID, "must be greater than zero", count)
    if pool.get("generation", 0) < 0:
        found = pool["generation"]
        yield Problem(
            "spec.pool.generation", INVALID, "must be greater than or equal to zero", found
        )


def _check_immutable(spec: Mapping[str, Any], old: Mapping[str, Any]) -> Iterator[Problem]:
    fields = (
        ("spec.pool.name", spec.get("pool", {}).get("name"), old["pool"].get("name")),
        ("spec.driver", spec.get("driver"), old.get("driver")),
        ("spec.nodeName", spec.get("nodeName"), old.get("nodeName")),
    )
    for path, new, stored in fields:
        if new != stored:
            yield Problem(path, INVALID, "field is immutable", new)


def _check_binding(spec: Mapping[str, Any]) -> Iterator[Problem]:
    """Exactly one way to say which nodes the devices are on."""
    given = []
    if spec.get("nodeName") is not None:
        if spec["nodeName"]:
            given.append("`nodeName`")
            yield from _check_node_name(spec["nodeName"], "spec.nodeName")
        else:
            yield Problem(
                "spec.nodeName", INVALID, "must be either unset or set to a non-empty string", ""
            )
    if spec.get("nodeSelector") is not None:
        given.append("`nodeSelector`")
        if len(spec["nodeSelector"].get("nodeSelectorTerms", [])) != 1:
            path = "spec.nodeSelector.nodeSelectorTerms"
            yield Problem(path, INVALID, "must have exactly one node selector term")
    for flag in ("allNodes", "perDeviceNodeSelection"):
        if spec.get(flag) is not None:
            if spec[flag]:
                given.append(f"`{flag}`")
            else:
                yield Problem(
                    f"spec.{flag}", INVALID, "must be either unset or set to true", value=False
                )
    rule = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection`"
    if not given:
        yield Problem("spec", REQUIRED, f"{rule} is required")
    elif len(given) > 1:
        shown = "{" + ", ".join(given) + "}"
        yield Problem("spec", INVALID, f"{rule} is required, but multiple fields are set", shown)


def _check_node_name(name: str, path: str) -> Iterator[Problem]:
    if not is_dns_subdomain(name, limit=253):
        yield Problem(path, INVALID, "must be a lower-case DNS subdomain", name)


def _check_devices(spec: Mapping[str, Any]) -> Iterator[Problem]:
    devices = spec.get("devices") or []
    limit = DEVICES_LIMIT_ADVANCED if any(map(_is_advanced, devices)) else DEVICES_LIMIT
    if len(devices) > limit:
        # The real server goes on here with the half of its rules that are declared.
        yield Problem("spec.devices", TOO_MANY, f"must have at most {limit} items", len(devices))
        return
    per_device = spec.get("perDeviceNodeSelection") is True
    for index, device in enumerate(devices):
        yield from _check_device(device, f"spec.devices[{index}]", per_device=per_device)
    yield from _check_unique([item.get("name", "") for item in devices], "spec.devices")


def _is_advanced(device: Mapping[str, Any]) -> bool:
    lists = (
        attribute.get(kind) is not None
        for attribute in device.get("attributes", {}).values()
        for kind in _LISTS
    )
    return bool(device.get("taints") or device.get("consumesCounters") or any(lists))


def _check_unique(keys: Sequence[Any], path: str) -> Iterator[Problem]:
    seen: set[Any] = set()
    for index, key in enumerate(keys):
        if key in seen:
            yield Problem(f"{path}[{index}]", DUPLICATE, "", key)
        seen.add(key)


def _check_device(device: Mapping[str, Any], path: str, *, per_device: bool) -> Iterator[Problem]:
    name = device.get("name", "")
    if not is_dns_label(name):
        yield Problem(f"{path}.name", INVALID, "must be a lower-case DNS label", name)
    attributes, capacity = device.get("attributes", {}), device.get("capacity", {})
    keys = len(attributes) + len(capacity)
    if keys > KEYS_LIMIT:
        rule = f"the total number of attributes and capacities must not exceed {KEYS_LIMIT}"
        yield Problem(path, INVALID, rule, keys)
    values = sum(map(_count_values, attributes.values()))
    if values > VALUES_LIMIT:
        rule = f"the total number of attribute values must not exceed {VALUES_LIMIT}"
        yield Problem(path, INVALID, rule, values)
    for key, attribute in attributes.items():
        yield from _check_qualified_name(key, f"{path}.attributes")
        yield from _check_attribute(attribute, f"{path}.attributes[{key}]")
    shared = device.get("allowMultipleAllocations") is True
    for key, entry in capacity.items():
        yield from _check_qualified_name(key, f"{path}.capacity")
        yield from check_capacity(entry, f"{path}.capacity[{key}]", shared=shared)
    yield from check_consumption(device.get("consumesCounters") or [], f"{path}.consumesCounters")
    costs = device.get("nodeAllocatableResources") or {}
    yield from check_costs(costs, capacity, f"{path}.nodeAllocatableResources")
    yield from _check_taints(device.get("taints") or [], f"{path}.taints")
    yield from _check_conditions(device, path)
    if not per_device and {"nodeName", "nodeSelector", "allNodes"} & device.keys():
        yield Problem(
            path,
            INVALID,
            "`nodeName`, `nodeSelector` and `allNodes` can only be set if "
            "`perDeviceNodeSelection` is set to true in the ResourceSlice spec",
        )


def _count_values(attribute: Mapping[str, Any]) -> int:
    return sum(len(attribute.get(kind) or ()) for kind in _LISTS) or 1


def _check_qualified_name(name: str, path: str) -> Iterator[Problem]:
    """``identifier`` or ``domain/identifier``; more slashes are taken, as the real server does."""
    parts = name.split("/")
    if len(parts) == 2:
        if parts[0]:
            yield from check_driver(parts[0], path)
        else:
            yield Problem(path, INVALID, "the domain must not be empty", "")
    if len(parts) <= 2:
        if len(parts[-1]) > 32:
            yield Problem(path, TOO_LONG, "may not be more than 32 bytes")
        if _IDENTIFIER.fullmatch(parts[-1]) is None:
            yield Problem(path, INVALID, "must be a C identifier", parts[-1])


def _check_attribute(attribute: Mapping[str, Any], path: str) -> Iterator[Problem]:
    given = [kind for kind in (*_SCALARS, *_LISTS) if attribute.get(kind) is not None]
    # An empty list is no value, and a fault of its own.
    if len(given) != 1 or attribute[given[0]] == []:
        yield Problem(path, INVALID, f"must specify one of: {', '.join(_SCALARS)}, …", "")
    for kind in given:
        if kind in _SCALARS:
            yield from _check_text(kind, attribute[kind], f"{path}.{kind}")
        elif not attribute[kind]:
            yield Problem(f"{path}.{kind}", INVALID, "must not be empty if specified", [])
        else:
            for index, item in enumerate(attribute[kind]):
                yield from _check_text(kind.removesuffix("s"), item, f"{path}.{kind}[{index}]")


def _check_text(kind: str, value: Any, path: str) -> Iterator[Problem]:
    if kind == "version" and _SEMVER.fullmatch(value) is None:
        rule = "must be a string compatible with semver.org spec 2.0.0"
        yield Problem(path, INVALID, rule, value)
    if kind in {"string", "version"} and len(value.encode()) > TEXT_LIMIT:
        yield Problem(path, TOO_LONG, f"may not be more than {TEXT_LIMIT} bytes")


def _check_taints(taints: Sequence[Mapping[str, Any]], path: str) -> Iterator[Problem]:
    if len(taints) > TAINTS_LIMIT:
        yield Problem(path, TOO_MANY, f"must have at most {TAINTS_LIMIT} items", len(taints))
        return
    for index, taint in enumerate(taints):
        place = f"{path}[{index}]"
        yield from check_label_name(taint.get("key", ""), f"{place}.key")
        value, effect = taint.get("value", ""), taint.get("effect", "")
        if value and _LABEL_PART.fullmatch(value) is None:
            yield Problem(f"{place}.value", INVALID, "must be a label value", value)
        if not effect:
            yield Problem(f"{place}.effect", REQUIRED, "")
        elif effect not in _EFFECTS:
            rule = "supported values: " + ", ".join(sorted(_EFFECTS))
            yield Problem(f"{place}.effect", NOT_SUPPORTED, rule, effect)


def _check_conditions(device: Mapping[str, Any], path: str) -> Iterator[Problem]:
    """Binding conditions and failure conditions: both or neither, disjoint, at most four each."""
    kinds = ("bindingConditions", "bindingFailureConditions")
    binding, failing = (device.get(kind) or [] for kind in kinds)
    for kind, names in zip(kinds, (binding, failing), strict=True):
        if len(names) > 4:
            yield Problem(f"{path}.{kind}", TOO_MANY, "must have at most 4 items", len(names))
        else:
            for index, name in enumerate(names):
                yield from check_label_name(name, f"{path}.{kind}[{index}]")
        yield from _check_unique(names, f"{path}.{kind}")
    for index, name in enumerate(failing):
        if name in binding:
            place = f"{path}.{kinds[1]}[{index}]"
            yield Problem(place, INVALID, "must not overlap with bindingConditions", name)
    if bool(binding) != bool(failing):
        missing = kinds[0] if failing else kinds[1]
        yield Problem(f"{path}.{missing}", INVALID, "both lists are needed, or neither", [])


def _check_skipped(spec: Mapping[str, Any]) -> Iterator[Problem]:
    path, operations = "spec.skipNodeOperations", spec.get("skipNodeOperations") or []
    known = ("NodePrepareResources", "NodeUnprepareResources", "*")
    for index, operation in enumerate(operations):
        if operation not in known:
            rule = "supported values: " + ", ".join(known)
            yield Problem(f"{path}[{index}]", NOT_SUPPORTED, rule, operation)
    yield from _check_unique(operations, path)
    if "NodePrepareResources" in operations and {*known[1:]}.isdisjoint(operations):
        rule = "NodePrepareResources needs NodeUnprepareResources to be skipped too"
        yield Problem(path, INVALID, rule, operations)
