"""Whether the server holds what was wanted, by meaning and not by text.

A server whose feature gate is off drops a field silently; one of another version adds fields and
defaults; quantities come back in canonical form. Comparing texts would make the publisher write for
ever. `differences` tells what really differs, and where.

Source: KC §4.4, §4.5; ``resourceslicecontroller.go`` compares semantically in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Final

import attrs

from berth.kube.quantity import same_quantity
from berth.kube.slices import COSTS, Slice, spec_json


class _Rule(Enum):
    """How the leaves of one part of a slice are compared."""

    PLAIN = "an empty string is the same as none"
    EXACT = "an empty string is a value: attributes say so by a pointer"
    QUANTITY = "strings are amounts"


_RULES: Final = {
    "attributes": _Rule.EXACT,
    "capacity": _Rule.QUANTITY,
    "counters": _Rule.QUANTITY,
    COSTS: _Rule.QUANTITY,
}
"""Members of a device below which another rule holds."""


@attrs.frozen(kw_only=True)
class Difference:
    """One place where a wanted object and the found one differ.

    Attributes:
        path: Such as ``spec.devices[3].capacity.slots.requestPolicy``.
        wanted: The JSON that was wanted, ``None`` for nothing.
        found: The JSON that is there, ``None`` for nothing.
    """

    path: str
    wanted: Any
    found: Any

    @property
    def dropped(self) -> bool:
        """Whether the wanted field is simply not there: a gate that is off, or an old server."""
        return self.found is None

    def drops(self, field: str) -> bool:
        """Whether it is a field of this name that is not there."""
        return self.dropped and self.path.endswith(f".{field}")


def differences(wanted: Slice, found: Slice) -> tuple[Difference, ...]:
    """Where the specs and the owners of two slices differ in meaning; empty: nothing to write.

    Names, UIDs and resource versions are not compared. A ``timeAdded`` that the server gave to a
    taint is no difference; an unknown field is one, since only another hand can have put it there.
    """
    found_differences = list(_compare(spec_json(wanted), spec_json(found), "spec"))
    if wanted.owner is not None and wanted.owner != found.owner:
        found_differences.append(
            Difference(path="metadata.ownerReferences", wanted=wanted.owner, found=found.owner)
        )
    return tuple(found_differences)


def device_differences(
    wanted: Mapping[str, Any], found: Mapping[str, Any], *, path: str = "device"
) -> tuple[Difference, ...]:
    """Where two devices differ in meaning, with paths below ``path``."""
    return tuple(_compare(wanted, found, path))


def keep_taint_times(wanted: Slice, found: Iterable[Slice]) -> Slice:
    """``wanted`` with the ``timeAdded`` that ``found`` has for taints that stay as they are.

    Without it the server would stamp the taint anew, and each eviction delay would start again.

    Args:
        found: Slices in which its devices may have been until now.
    """
    known = {
        device.get("name"): device.get("taints", ()) for item in found for device in item.devices
    }
    return attrs.evolve(
        wanted,
        devices=tuple(
            _with_times(device, known.get(device.get("name"), ())) for device in wanted.devices
        ),
    )


def _with_times(device: Mapping[str, Any], known: Sequence[Any]) -> Mapping[str, Any]:
    if "taints" not in device:
        return device
    times = {_taint_key(taint): taint.get("timeAdded") for taint in known}
    taints = []
    for taint in device["taints"]:
        added = times.get(_taint_key(taint))
        keep = added is not None and "timeAdded" not in taint
        taints.append({**taint, "timeAdded": added} if keep else taint)
    return {**device, "taints": taints}


def _taint_key(taint: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    return taint.get("key"), taint.get("value", ""), taint.get("effect")


def _compare(wanted: Any, found: Any, path: str, rule: _Rule = _Rule.PLAIN) -> Iterator[Difference]:
    if isinstance(wanted, Mapping) and isinstance(found, Mapping):
        for key in dict.fromkeys([*wanted, *found]):
            if key != "timeAdded" or key in wanted:
                below = _RULES.get(key, rule) if rule is _Rule.PLAIN else rule
                yield from _compare(wanted.get(key), found.get(key), f"{path}.{key}", below)
    elif isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        for index, (one, other) in enumerate(zip(wanted, found, strict=True)):
            yield from _compare(one, other, f"{path}[{index}]", rule)
    elif not _same(wanted, found, rule):
        yield Difference(path=path, wanted=wanted, found=found)


def _same(wanted: Any, found: Any, rule: _Rule) -> bool:
    if rule is _Rule.QUANTITY and isinstance(wanted, str) and isinstance(found, str):
        return same_quantity(wanted, found)
    if _is_empty(wanted, rule) and _is_empty(found, rule):
        return True
    return type(wanted) is type(found) and bool(wanted == found)


def _is_empty(value: Any, rule: _Rule) -> bool:
    if value is None or (isinstance(value, list | dict) and not value):
        return True
    return value == "" and rule is not _Rule.EXACT
