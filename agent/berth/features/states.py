"""How far a cluster has each feature, folded from what is known of it and from nothing else.

What was seen outweighs what is usual: a field that the server dropped is off, whatever its version
does by default; one that it kept is on. A gate that is usually closed and that nothing was seen of
is unknown: it is tried where somebody opted in, and the answer decides.

Source: KC §4.5 (dropped and refused fields), §8 (what a node declares), §9.10.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from enum import Enum

import attrs

from berth.features.feature import Feature, Number, Part, Stage, text
from berth.features.registry import FEATURES


class Verdict(Enum):
    """Whether a cluster has a feature."""

    ON = "on"
    OFF = "off"
    UNKNOWN = "unknown"


class Fate(Enum):
    """What became of a field that was written."""

    KEPT = "kept"
    DROPPED = "dropped"
    REFUSED = "refused"


@attrs.frozen(kw_only=True)
class Evidence:
    """What is known of a cluster.

    Attributes:
        server: Version of the API server; ``None`` while it is not known.
        kubelet: Version of this node's kubelet; ``None`` while it is not known.
        declared: What the Node declares; ``None`` while it was not read.
        fates: What became of fields that were written, by the field's name.
        gates: Gates of the server that were read, by name.
        kubelet_gates: Gates of kubelet that were read, by name.
    """

    server: Number | None = None
    kubelet: Number | None = None
    declared: Set[str] | None = None
    fates: Mapping[str, Fate] = attrs.field(factory=dict)
    gates: Mapping[str, bool] = attrs.field(factory=dict)
    kubelet_gates: Mapping[str, bool] = attrs.field(factory=dict)

    def version(self, part: Part) -> Number | None:
        """The version of a part."""
        return self.server if part is Part.SERVER else self.kubelet

    def gate(self, part: Part, name: str) -> bool | None:
        """How a part has a gate, if that was read."""
        return (self.gates if part is Part.SERVER else self.kubelet_gates).get(name)


@attrs.frozen(kw_only=True)
class FeatureState:
    """How far a cluster has one feature.

    Attributes:
        key: The feature's.
        why: What the verdict rests on: ``server 1.35``, ``dropped by the server``.
    """

    key: str
    verdict: Verdict
    why: str

    @property
    def is_on(self) -> bool:
        """It is there."""
        return self.verdict is Verdict.ON

    @property
    def is_off(self) -> bool:
        """It is not there; what is neither on nor off may be tried."""
        return self.verdict is Verdict.OFF

    def __str__(self) -> str:
        return f"{self.verdict.value}: {self.why}"


@attrs.frozen(kw_only=True)
class FeatureStates:
    """How far a cluster has each feature.

    Attributes:
        states: By key; all of `FEATURES`.
    """

    states: Mapping[str, FeatureState]

    def of(self, key: str) -> FeatureState:
        """The state of one feature.

        Raises:
            KeyError: There is no feature of that key.
        """
        return self.states[key]

    def __iter__(self) -> Iterator[FeatureState]:
        return iter(self.states.values())


def fold(evidence: Evidence) -> FeatureStates:
    """The state of every feature, as far as the evidence goes."""
    return FeatureStates(states={one.key: _state(one, evidence) for one in FEATURES})


def lesser(several: Sequence[FeatureStates]) -> FeatureStates:
    """What all of several have: of each feature the state that promises least."""
    order = (Verdict.OFF, Verdict.UNKNOWN, Verdict.ON)
    return FeatureStates(
        states={
            one.key: min(
                (states.of(one.key) for states in several), key=lambda it: order.index(it.verdict)
            )
            for one in FEATURES
        }
    )


def _state(feature: Feature, evidence: Evidence) -> FeatureState:
    against = _against(feature, evidence)
    if against:
        return FeatureState(key=feature.key, verdict=Verdict.OFF, why=against)
    open_, closed = _for(feature, evidence)
    verdict = Verdict.UNKNOWN if closed else Verdict.ON
    return FeatureState(key=feature.key, verdict=verdict, why="; ".join(closed or open_))


def _against(feature: Feature, evidence: Evidence) -> str:
    """What shows that it is off; empty when nothing does."""
    for part in feature.parts:
        version = evidence.version(part)
        if version is not None and feature.stage(version) is Stage.ABSENT:
            return f"{part.value} {text(version)}"
    for fate in (Fate.DROPPED, Fate.REFUSED):
        if fate in _fates(feature, evidence):
            return f"{fate.value} by the server"
    for part in feature.parts:
        if evidence.gate(part, feature.gate) is False:
            return f"{feature.gate} is off in {part.value}"
    if feature.declared and evidence.declared is not None:
        return "" if feature.gate in evidence.declared else "the node does not declare it"
    return ""


def _for(feature: Feature, evidence: Evidence) -> tuple[list[str], list[str]]:
    """What shows that it is on, and what is lacking before that can be said; one for each part."""
    shown, lacking = [], []
    for part in feature.parts:
        version = evidence.version(part)
        stage = feature.stage(version) if version is not None else Stage.ABSENT
        where = f"{part.value} {text(version)}" if version is not None else part.value
        if seen := _seen(feature, part, evidence):
            shown.append(seen)
        elif version is None:
            lacking.append(f"the version of {where} is not known")
        elif stage.is_on:
            shown.append(f"by default in {where}")
        else:
            lacking.append(f"off by default in {where}, and nothing shows it there")
    return shown, lacking


def _seen(feature: Feature, part: Part, evidence: Evidence) -> str:
    """What shows that a part has it open; empty when nothing does."""
    if part is Part.SERVER and Fate.KEPT in _fates(feature, evidence):
        return "kept by the server"
    if part is Part.KUBELET and feature.declared and feature.gate in (evidence.declared or ()):
        return "declared by the node"
    return f"{feature.gate} is on in {part.value}" if evidence.gate(part, feature.gate) else ""


def _fates(feature: Feature, evidence: Evidence) -> Set[Fate]:
    return {evidence.fates[field] for field in feature.proof if field in evidence.fates}
