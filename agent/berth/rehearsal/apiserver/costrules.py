"""Which costs of a device to its node the API server takes.

Source: ``pkg/apis/resource/validation/validation.go`` of 1.37.2, ``validateNodeAllocatable*``, and
the declared rules of ``resource/v1/types.go`` (KC §9.6).
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from typing import Any, Final

from berth.kube.quantity import parse_quantity
from berth.rehearsal.apiserver.problems import INVALID, NOT_FOUND, REQUIRED, Problem

_RESOURCE: Final = re.compile(r"cpu|memory|hugepages-.*")
_BY_CAPACITY: Final = "capacityMultiplier"
_BY_DEVICE: Final = "deviceMultiplier"


def check_costs(
    costs: Mapping[str, Any], capacities: Container[str], path: str
) -> Iterator[Problem]:
    """The faults of a device's ``nodeAllocatableResources``.

    Args:
        capacities: Names of the device's capacities.
    """
    for name, cost in costs.items():
        place = f"{path}[{name}]"
        if not _RESOURCE.fullmatch(name):
            yield Problem(place, INVALID, "must be a node allocatable resource name", name)
        mapping, overhead = cost.get("mapping"), cost.get("overhead")
        if mapping is None and overhead is None:
            yield Problem(place, REQUIRED, "at least one of mapping or overhead must be set")
        if mapping is not None:
            yield from _check_mapping(mapping, capacities, f"{place}.mapping")
        if overhead is not None:
            yield from _check_overhead(overhead, f"{place}.overhead")


def _check_mapping(
    mapping: Mapping[str, Any], capacities: Container[str], path: str
) -> Iterator[Problem]:
    capacity, given = mapping.get("capacityKey"), mapping.keys()
    if capacity is not None and capacity not in capacities:
        yield Problem(f"{path}.capacityKey", NOT_FOUND, "", capacity)
    if capacity is not None and _BY_CAPACITY not in given:
        yield Problem(f"{path}.{_BY_CAPACITY}", REQUIRED, "required with capacityKey")
    if capacity is None and _BY_CAPACITY in given:
        yield Problem(f"{path}.capacityKey", REQUIRED, "required with capacityMultiplier")
    for key in (_BY_CAPACITY, _BY_DEVICE):
        if key in given and parse_quantity(mapping[key]) <= 0:
            yield Problem(f"{path}.{key}", INVALID, "must be positive", mapping[key])
    if (capacity is None) == (_BY_DEVICE not in given):
        yield Problem(path, INVALID, "must specify one of: `capacityKey`, `deviceMultiplier`")


def _check_overhead(overhead: Mapping[str, Any], path: str) -> Iterator[Problem]:
    if not overhead:
        yield Problem(path, INVALID, "at least one of perPod or perContainer must be set", "")
    for key, amount in overhead.items():
        if parse_quantity(amount) < 0:
            yield Problem(f"{path}.{key}", INVALID, "must be non-negative", amount)
