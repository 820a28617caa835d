"""What the API server takes as a claim's status.

Source: ``pkg/apis/resource/validation/validation.go`` of 1.37.2, ``validateDeviceStatus`` and
``validateResourceClaimStatusUpdate``; ``apimachinery/.../meta/v1/validation`` for conditions
(KC §7.2).
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from berth.model import jsontext
from berth.model.names import is_dns_label
from berth.rehearsal.apiserver.problems import (
    DUPLICATE,
    FORBIDDEN,
    INVALID,
    NOT_SUPPORTED,
    REQUIRED,
    TOO_LONG,
    TOO_MANY,
    Problem,
)
from berth.rehearsal.apiserver.slicerules import check_driver, check_label_name, check_pool_name

DATA_LIMIT: Final = 10 * 1024
CONDITIONS_LIMIT: Final = 8
ADDRESSES_LIMIT: Final = 16

_UID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_REASON: Final = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")


def check_claim_status(status: Mapping[str, Any], old: Mapping[str, Any]) -> list[Problem]:
    """The faults of a claim's ``status`` at an update of the stored ``old``."""
    allocation, stored = status.get("allocation"), old.get("allocation")
    allocated = {device_key(result) for result in _results(allocation)}
    devices = status.get("devices") or []
    problems: list[Problem] = []
    for index, device in enumerate(devices):
        problems += _check_device(device, f"status.devices[{index}]", allocated)
    problems += _check_unique([device_key(item) for item in devices], "status.devices")
    if status.get("reservedFor") and allocation is None:
        rule = "may not be specified when `allocated` is not set"
        problems.append(Problem("status.reservedFor", FORBIDDEN, rule))
    if stored is not None and allocation is not None and stored != allocation:
        problems.append(Problem("status.allocation", INVALID, "field is immutable"))
    return problems


def device_key(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    """What makes an allocated device, and the status of one, the same: driver to share."""
    return tuple(entry.get(key) for key in ("driver", "pool", "device", "shareID"))


def is_rewritten_alike(allocation: Mapping[str, Any]) -> bool:
    """Whether an apply leaves the allocation's opaque parameters as they are, byte for byte.

    The server rewrites them with sorted keys, and then refuses its own change of an allocation.
    White space, which it takes out too, is not seen here. Seen on 1.37.2.
    """
    entries = (allocation.get("devices") or {}).get("config") or []
    return all(_is_sorted((entry.get("opaque") or {}).get("parameters")) for entry in entries)


def _is_sorted(value: Any) -> bool:
    if isinstance(value, Mapping):
        in_order = list(value) == sorted(value) and not jsontext.duplicates(value)
        return in_order and all(map(_is_sorted, value.values()))
    return not isinstance(value, list) or all(map(_is_sorted, value))


def drop_deallocated(status: dict[str, Any], old: Mapping[str, Any]) -> None:
    """Take away entries whose device was allocated and is no longer, as the server does."""
    before = {device_key(result) for result in _results(old.get("allocation"))}
    freed = before - {device_key(result) for result in _results(status.get("allocation"))}
    kept = [item for item in status.get("devices") or [] if device_key(item) not in freed]
    status.pop("devices", None)
    if kept:
        status["devices"] = kept


def _results(allocation: Mapping[str, Any] | None) -> Sequence[Mapping[str, Any]]:
    results: Sequence[Mapping[str, Any]] = ((allocation or {}).get("devices") or {}).get(
        "results", []
    )
    return results


def _check_unique(keys: Sequence[Any], path: str) -> Iterator[Problem]:
    for index, key in enumerate(keys):
        if key in keys[:index]:
            yield Problem(f"{path}[{index}]", DUPLICATE, "", key)


def _check_device(
    device: Mapping[str, Any], path: str, allocated: set[tuple[Any, ...]]
) -> Iterator[Problem]:
    yield from check_driver(device.get("driver", ""), f"{path}.driver")
    yield from check_pool_name(device.get("pool", ""), f"{path}.pool")
    if not is_dns_label(device.get("device", "")):
        yield Problem(f"{path}.device", INVALID, "must be a lower-case DNS label")
    share = device.get("shareID")
    if share is not None and _UID.fullmatch(share) is None:
        yield Problem(f"{path}.shareID", INVALID, "must be a lower-case UUID", share)
    if device_key(device) not in allocated:
        yield Problem(path, INVALID, "must be an allocated device in the claim")
    yield from _check_conditions(device.get("conditions") or [], f"{path}.conditions")
    if device.get("data") is not None:
        yield from _check_data(device["data"], f"{path}.data")
    yield from _check_network(device.get("networkData") or {}, f"{path}.networkData")


def _check_conditions(conditions: Sequence[Mapping[str, Any]], path: str) -> Iterator[Problem]:
    if len(conditions) > CONDITIONS_LIMIT:
        rule = f"must have at most {CONDITIONS_LIMIT} items"
        yield Problem(path, TOO_MANY, rule, len(conditions))
    yield from _check_unique([item.get("type") for item in conditions], path)
    for index, condition in enumerate(conditions):
        yield from _check_condition(condition, f"{path}[{index}]")


def _check_condition(condition: Mapping[str, Any], path: str) -> Iterator[Problem]:
    for key in ("type", "status", "lastTransitionTime", "reason"):
        if not condition.get(key):
            yield Problem(f"{path}.{key}", REQUIRED, "")
    if condition.get("type"):
        yield from check_label_name(condition["type"], f"{path}.type")
    status, reason = condition.get("status"), condition.get("reason")
    if status and status not in {"True", "False", "Unknown"}:
        rule = "supported values: False, True, Unknown"
        yield Problem(f"{path}.status", NOT_SUPPORTED, rule, status)
    if reason and _REASON.fullmatch(reason) is None:
        rule = "must be a word of letters, digits, _ , and :, beginning with a letter"
        yield Problem(f"{path}.reason", INVALID, rule, reason)
    if reason and len(reason) > 1024:
        yield Problem(f"{path}.reason", TOO_LONG, "may not be more than 1024 bytes")
    if len(condition.get("message") or "") > 32 * 1024:
        yield Problem(f"{path}.message", TOO_LONG, "may not be more than 32768 bytes")


def _check_data(data: Any, path: str) -> Iterator[Problem]:
    if not isinstance(data, dict):
        yield Problem(path, INVALID, "must be a valid JSON object", "<value omitted>")
    elif len(json.dumps(data, separators=(",", ":"))) > DATA_LIMIT:
        yield Problem(path, TOO_LONG, f"may not be more than {DATA_LIMIT} bytes")


def _check_network(network: Mapping[str, Any], path: str) -> Iterator[Problem]:
    for key, limit in (("interfaceName", 256), ("hardwareAddress", 128)):
        if len((network.get(key) or "").encode()) > limit:
            yield Problem(f"{path}.{key}", TOO_LONG, f"may not be more than {limit} bytes")
    addresses = network.get("ips") or []
    if len(addresses) > ADDRESSES_LIMIT:
        rule = f"must have at most {ADDRESSES_LIMIT} items"
        yield Problem(f"{path}.ips", TOO_MANY, rule, len(addresses))
        return
    for index, address in enumerate(addresses):
        if not _is_canonical(address):
            rule = "must be an address in canonical CIDR form"
            yield Problem(f"{path}.ips[{index}]", INVALID, rule, address)
    yield from _check_unique(addresses, f"{path}.ips")


def _is_canonical(address: str) -> bool:
    try:
        return "/" in address and str(ipaddress.ip_interface(address)) == address
    except ValueError:
        return False
