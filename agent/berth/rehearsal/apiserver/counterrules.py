"""Which counters of a slice the API server takes: sets, and what devices draw on them.

Whether a device draws on a set that its pool has is not asked here: the two lie in slices of their
own, and it is the scheduler that looks.

Source: ``pkg/apis/resource/validation/validation.go`` of 1.37.2 (KC §4.1, §9.3).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from berth.model.names import is_dns_label, is_qualified_name
from berth.rehearsal.apiserver.problems import DUPLICATE, INVALID, REQUIRED, TOO_MANY, Problem

SETS_LIMIT: Final = 8
CONSUMPTIONS_LIMIT: Final = 2
COUNTERS_LIMIT: Final = 32
GROUPS_LIMIT: Final = 2


def check_counter_sets(sets: Sequence[Mapping[str, Any]], path: str) -> Iterator[Problem]:
    """The faults of a slice's ``sharedCounters``."""
    yield from _check_all(sets, path, key="name", limit=SETS_LIMIT)


def check_consumption(drawn: Sequence[Mapping[str, Any]], path: str) -> Iterator[Problem]:
    """The faults of a device's ``consumesCounters``."""
    yield from _check_all(drawn, path, key="counterSet", limit=CONSUMPTIONS_LIMIT)
    for index, one in enumerate(drawn if len(drawn) <= CONSUMPTIONS_LIMIT else ()):
        yield from _check_groups(
            one.get("compatibilityGroups") or [], f"{path}[{index}].compatibilityGroups"
        )


def check_partition_type(spec: Mapping[str, Any], path: str) -> Iterator[Problem]:
    """The faults of a slice's ``partitionTypeAttribute``."""
    name = spec.get("partitionTypeAttribute")
    if name is None:
        return
    domain, _, bare = name.partition("/")
    if not bare or not is_qualified_name(name):
        yield Problem(path, INVALID, "must be a fully qualified name", name)
    drawing = [
        (index, one)
        for index, one in enumerate(spec.get("devices") or [])
        if one.get("consumesCounters")
    ]
    if not drawing:
        yield Problem(path, INVALID, "must only be set with devices that consume counters", name)
    own = {name, bare} if domain == spec.get("driver") else {name}
    for index, device in drawing if bare else ():
        found = device.get("attributes") or {}
        if not any("string" in found.get(key, {}) for key in own):
            place = f"spec.devices[{index}].attributes[{name}]"
            yield Problem(place, INVALID, "must be there as a string", name)


def _check_all(
    items: Sequence[Mapping[str, Any]], path: str, *, key: str, limit: int
) -> Iterator[Problem]:
    if len(items) > limit:
        yield Problem(path, TOO_MANY, f"must have at most {limit} items", len(items))
        return
    seen: set[str] = set()
    for index, item in enumerate(items):
        place, name = f"{path}[{index}]", item.get(key, "")
        if not name:
            yield Problem(f"{place}.{key}", REQUIRED, "")
        else:
            yield from _check_label(name, f"{place}.{key}")
        yield from _check_counters(item.get("counters") or {}, f"{place}.counters")
        if name in seen:
            yield Problem(place, DUPLICATE, "", name)
        seen.add(name)


def _check_counters(counters: Mapping[str, Any], path: str) -> Iterator[Problem]:
    if not counters:
        yield Problem(path, REQUIRED, "")
    elif len(counters) > COUNTERS_LIMIT:
        rule = f"must have at most {COUNTERS_LIMIT} items"
        yield Problem(path, TOO_MANY, rule, len(counters))
    else:
        for name in counters:
            yield from _check_label(name, path)


def _check_groups(groups: Sequence[str], path: str) -> Iterator[Problem]:
    if len(groups) > GROUPS_LIMIT:
        yield Problem(path, TOO_MANY, f"must have at most {GROUPS_LIMIT} items", len(groups))
        return
    for index, name in enumerate(groups):
        if name in groups[:index]:
            yield Problem(f"{path}[{index}]", DUPLICATE, "", name)
        yield from _check_label(name, f"{path}[{index}]")


def _check_label(name: str, path: str) -> Iterator[Problem]:
    if not is_dns_label(name):
        yield Problem(path, INVALID, "must be a lower-case DNS label", name)
