"""Devices that the API server does not take: left out, so that the others are published.

A refusal (422) names the devices by path; such a device is left out until its facts change. A
shared parent whose ``allowMultipleAllocations`` was dropped would be given to one pod as a whole,
and a form of a GPU whose ``consumesCounters`` was dropped beside the other form; a device without
``bindingConditions`` would be given to pods before it is ready, which its group may forbid. They
are left out for as long as they need the field.

Source: network.md §2.1, §2.3; KC §4.5.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import attrs
from typing_extensions import Self

from berth.errors import KubeError
from berth.features.registry import BY_KEY
from berth.features.states import FeatureStates
from berth.kube.slices import READY, Slice
from berth.model.device import Device, Exclusion

REASON: Final = "unpublishable"
"""The word of network.md §1.2 for such a device."""

SHARING: Final = "allowMultipleAllocations"
"""Field that makes a device shareable; an API server without DRAConsumableCapacity drops it."""

COUNTING: Final = "consumesCounters"
"""Field by which the scheduler keeps forms of one thing apart."""

_FEATURES: Final = {
    SHARING: "consumable-capacity",
    COUNTING: "partitionable-devices",
    READY: "binding-conditions",
}
_NEEDS: Final[Mapping[str, Callable[[Device], bool]]] = {
    SHARING: lambda device: device.shared,
    COUNTING: lambda device: device.only_counted,
    READY: lambda device: device.only_awaited,
}

_PATH: Final = re.compile(r"spec\.devices\[(?P<index>\d+)\]")


@attrs.frozen(kw_only=True)
class Refusal:
    """A device as it was refused.

    Attributes:
        exclusion: What is told about it.
        dropped: A field that the server does not keep and that the device needs; no change of
            other facts helps.
    """

    device: Device
    exclusion: Exclusion
    dropped: str = ""

    def stands_for(self, device: Device) -> bool:
        """Whether ``device``, of the same name, would be refused again."""
        return _NEEDS[self.dropped](device) if self.dropped else device == self.device


@attrs.frozen(kw_only=True)
class Quarantine:
    """The refusals in force, by device name.

    A device that is not offered for a while stays refused; it is forgotten when it is offered with
    other facts.
    """

    refusals: Mapping[str, Refusal] = attrs.field(factory=dict)

    def admits(self, device: Device) -> bool:
        """Whether a device may be published."""
        refusal = self.refusals.get(device.name)
        return refusal is None or not refusal.stands_for(device)

    def with_refusals(self, refusals: Iterable[Refusal]) -> Self:
        """The quarantine with these in it."""
        added = {refusal.device.name: refusal for refusal in refusals}
        return attrs.evolve(self, refusals={**self.refusals, **added})

    def revised(self, devices: Iterable[Device]) -> Self:
        """The quarantine without the devices whose facts have changed."""
        changed = {device.name for device in devices if self.admits(device)}
        if changed.isdisjoint(self.refusals):
            return self
        left = {name: refusal for name, refusal in self.refusals.items() if name not in changed}
        return attrs.evolve(self, refusals=left)

    def without_dropped(self, states: FeatureStates) -> Self:
        """The quarantine without refusals for lack of a feature that is not off any more."""
        left = {
            name: refusal
            for name, refusal in self.refusals.items()
            if not refusal.dropped or states.of(_FEATURES[refusal.dropped]).is_off
        }
        return self if len(left) == len(self.refusals) else attrs.evolve(self, refusals=left)


def unguarded(devices: Iterable[Device], states: FeatureStates) -> tuple[Refusal, ...]:
    """The devices that need a feature which is known to be off: not to be written at all."""
    return tuple(
        Refusal(device=device, exclusion=_without(field), dropped=field)
        for device in devices
        for field in _needed(device)
        if states.of(_FEATURES[field]).is_off
    )


def refusals_of(
    error: KubeError, sent: Slice, devices: Mapping[str, Device]
) -> tuple[Refusal, ...]:
    """The devices that a refused write names; empty when it names none.

    Args:
        error: A refusal with status 422.
        sent: What was refused; the paths count its devices.
        devices: Devices by name.
    """
    named: dict[str, str] = {}
    for path in error.fields or [found[0] for found in _PATH.finditer(error.found)]:
        match = _PATH.match(path)
        if match is not None and int(match["index"]) < len(sent.devices):
            named.setdefault(str(sent.devices[int(match["index"])]["name"]), path)
    return tuple(
        Refusal(
            device=devices[name],
            exclusion=Exclusion(
                reason=REASON, detail=f"the API server refuses {path}: {error.found}"
            ),
        )
        for name, path in named.items()
        if name in devices
    )


def dropped_in(sent: Slice, got: Slice, devices: Mapping[str, Device]) -> tuple[Refusal, ...]:
    """The devices of a write that the server stored without what they must not be without."""
    stored = {device.get("name"): device for device in got.devices}
    return tuple(
        Refusal(device=devices[name], exclusion=_without(field), dropped=field)
        for name, device in ((str(device["name"]), device) for device in sent.devices)
        if name in devices
        for field in _needed(devices[name])
        if device.get(field) and not stored.get(name, {}).get(field)
    )


def _needed(device: Device) -> tuple[str, ...]:
    """Fields without which a device would be given to one too many, or too soon."""
    return tuple(field for field, needs in _NEEDS.items() if needs(device))


def _without(field: str) -> Exclusion:
    gate = BY_KEY[_FEATURES[field]].gate
    detail = f"the API server drops {field}: its feature gate {gate} is off or unknown"
    return Exclusion(reason=REASON, detail=detail)
