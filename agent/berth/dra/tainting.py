"""Taints of devices on their way to a server: what it takes of them, and what others put there.

A taint whose key is in our driver's domain is ours, whoever wrote it; another one belongs to
whoever put it there and stays, also when its device is written anew. Rules of the cluster taint
devices from beside their slices.

Source: KC §9.1, §4.2; gpu-and-health.md §1.8, §6.5.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from berth.health.taints import TELLS
from berth.kube.slices import Slice
from berth.kube.taintrules import TaintRule
from berth.model.device import Device

NOTES_SINCE: Final = (1, 35)
"""First version whose server takes taints that keep nobody away; before, they are refused."""

TAINTS_LIMIT: Final = 16
"""Most taints of a device; more of others than fit beside ours are left out."""

_SHOWN: Final = 5
# Devices that a sentence names.

FIELD: Final = "taints"
"""Field of a device; a server whose feature gate DRADeviceTaints is off drops it."""


def without_notes(device: Device) -> Device:
    """The device without taints that keep nobody away."""
    kept = tuple(taint for taint in device.taints if taint.effect != TELLS)
    return device if len(kept) == len(device.taints) else attrs.evolve(device, taints=kept)


def untainted(device: Device) -> Device | None:
    """The device as it is told to a server that drops taints.

    ``None`` where one should keep everybody away and no claim has it: then it is not offered.
    """
    if any(taint.effect != TELLS for taint in device.taints) and not device.claimed:
        return None
    return attrs.evolve(device, taints=()) if device.taints else device


def foreign_taints(slices: Iterable[Slice]) -> tuple[str, ...]:
    """What others keep from claims in our slices, one sentence for each device."""
    return tuple(
        f"another hand keeps claims from {device.get('name')} by a taint in its slice: "
        f"{', '.join(map(_words, taints))}"
        for item in slices
        for device in item.devices
        if (taints := _foreign(device, item.driver))
    )


def ruled(rules: Iterable[TaintRule], slices: Iterable[Slice]) -> tuple[str, ...]:
    """Which of our devices rules of the cluster taint, one sentence for each rule.

    Nothing of it is in our slices, and nothing of it is ours to undo.
    """
    found = tuple(slices)
    hits = (
        (rule, [name for item in found for name in _names(item) if _is_hit(rule, item, name)])
        for rule in rules
    )
    return tuple(
        f"DeviceTaintRule {rule.name} taints {_some(names)}: {_words(rule.taint)}"
        for rule, names in hits
        if names
    )


def _names(item: Slice) -> Iterable[str]:
    return (str(device.get("name")) for device in item.devices)


def _is_hit(rule: TaintRule, item: Slice, name: str) -> bool:
    return rule.hits(item.driver, item.pool, name)


def _some(names: Sequence[str]) -> str:
    rest = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{rest}"


def ours_alone(item: Slice) -> Slice:
    """A slice without the taints of others."""
    if not any(_foreign(device, item.driver) for device in item.devices):
        return item
    return attrs.evolve(
        item, devices=tuple(_without_foreign(device, item.driver) for device in item.devices)
    )


def with_foreign(wanted: Slice, existing: Iterable[Slice]) -> Slice:
    """A slice with the taints that others have given its devices, in whichever slice they were."""
    foreign = {
        str(device.get("name")): taints
        for item in existing
        for device in item.devices
        if (taints := _foreign(device, wanted.driver))
    }
    if not foreign:
        return wanted
    return attrs.evolve(
        wanted,
        devices=tuple(
            _tainted(device, foreign.get(str(device.get("name")), ())) for device in wanted.devices
        ),
    )


def _foreign(device: Mapping[str, Any], driver: str) -> list[Mapping[str, Any]]:
    return [one for one in device.get(FIELD) or () if not _is_ours(one, driver)]


def _words(taint: Mapping[str, Any]) -> str:
    """A taint as kubectl writes it."""
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint.get('key', '')}{value}:{taint.get('effect', '')}"


def _is_ours(taint: Mapping[str, Any], driver: str) -> bool:
    return str(taint.get("key", "")).startswith(f"{driver}/")


def _without_foreign(device: Mapping[str, Any], driver: str) -> Mapping[str, Any]:
    kept = [one for one in device.get(FIELD) or () if _is_ours(one, driver)]
    bare = {key: value for key, value in device.items() if key != FIELD}
    return {**bare, FIELD: kept} if kept else bare


def _tainted(device: Mapping[str, Any], more: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    taints = [*(device.get(FIELD) or ()), *more][:TAINTS_LIMIT]
    return {**device, FIELD: taints} if taints else device
