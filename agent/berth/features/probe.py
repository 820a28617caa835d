"""A slice that is never stored, which shows what a server keeps: one device for each feature.

The server judges it as it would any new slice and gives it back (``dryRun=All``); nothing is
written, and nobody's watch sees it. A new slice shows more than an update of ours: a server keeps
the fields of an object that has them already, though the gate was closed since.

A device that is refused is left out and the rest tried again: each stands for itself.

Source: KC §4.5; ``pkg/registry/resource/resourceslice/strategy.go`` of 1.37.2.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from berth.errors import KubeError
from berth.features.registry import FEATURES, PROOFS
from berth.features.states import Fate
from berth.kube.slices import Slice, spec_json

ROUNDS: Final = 4
"""How often a probe is tried with less in it before nothing is made of the answers."""

_INVALID: Final = 422
_FORBIDDEN: Final = 403
_GATES: Final = {field: one.gate for one in FEATURES if one.declared for field in one.proof}
# Of what a Node declares, by the part of a probe.

_NAME: Final = "probe"
_UNDECLARED: Final = re.compile(r"does not support (\w+) feature")
# An admission plugin keeps the whole slice from a node whose kubelet does not declare a feature
# (403, ``plugin/pkg/admission/nodedeclaredfeatures`` of 1.37.2).

_PATH: Final = re.compile(r"spec\.(?:devices\[(?P<index>\d{1,4})\]|(?P<field>\w+))")


@attrs.frozen(kw_only=True)
class Probe:
    """What is to be shown, less what was refused already.

    Attributes:
        node_name: The node whose slice it would be.
        refused: Names of parts that the server refused.
        undeclared: Names of parts that it does not take since this node's kubelet does not declare
            them; what it makes of them elsewhere stays unknown.
    """

    driver: str
    node_name: str
    refused: frozenset[str] = frozenset()
    undeclared: frozenset[str] = frozenset()

    def slice(self) -> Slice:
        """What is sent."""
        devices = _devices(self.driver)
        counted = "consumesCounters" not in self.refused
        tops = {
            "partitionTypeAttribute": f"{self.driver}/{_NAME}" if counted else "",
            "skipNodeOperations": ["*"],
        }
        return Slice(
            driver=self.driver,
            pool=f"{self.node_name}/{_NAME}",
            generation=1,
            slice_count=1,
            node_name=self.node_name,
            generate_name=f"{_NAME}-",
            devices=tuple(devices[name] for name in self._names),
            others={k: v for k, v in tops.items() if v and k not in self.refused},
        )

    def without(self, error: KubeError) -> Probe | None:
        """The probe without what the server refuses, or ``None`` where it names nothing of it."""
        found = _UNDECLARED.search(error.found) if error.status == _FORBIDDEN else None
        gated = {name for name in self._names if found and _GATES.get(name) == found[1]}
        named = set(self._named(error)) if error.status == _INVALID else set()
        if not named and not gated:
            return None
        return attrs.evolve(self, refused=self.refused | named, undeclared=self.undeclared | gated)

    def fates(self, got: Slice) -> Mapping[str, Fate]:
        """What became of every field that shows a feature, by name."""
        sent, kept = set(_shown(spec_json(self.slice()))), set(_shown(spec_json(got)))
        fates = {field: Fate.KEPT if field in kept else Fate.DROPPED for field in sent}
        return {**fates, **dict.fromkeys(self._refused_fields(), Fate.REFUSED)}

    @property
    def _names(self) -> list[str]:
        absent = self.refused | self.undeclared
        return [name for name in _devices(self.driver) if name not in absent]

    def _named(self, error: KubeError) -> Iterator[str]:
        for path in error.fields or [found[0] for found in _PATH.finditer(error.found)]:
            match = _PATH.match(path)
            if match is None:
                continue
            if match["field"]:
                yield from {match["field"]} & {*self.slice().others}
            elif int(match["index"]) < len(self._names):
                yield self._names[int(match["index"])]

    def _refused_fields(self) -> Iterator[str]:
        devices = _devices(self.driver)
        for name in self.refused:
            yield from _shown(devices[name]) if name in devices else ({name} & PROOFS)


def _devices(driver: str) -> Mapping[str, Mapping[str, Any]]:
    """A device for each feature, by the name of the part that may be refused."""
    shown: Mapping[str, Mapping[str, Any]] = {
        "allowMultipleAllocations": {
            "allowMultipleAllocations": True,
            "capacity": {_NAME: {"value": "1", "requestPolicy": {"default": "1"}}},
        },
        "consumesCounters": {
            "attributes": {_NAME: {"string": _NAME}},
            "consumesCounters": [
                {
                    "counterSet": _NAME,
                    "counters": {_NAME: {"value": "1"}},
                    "compatibilityGroups": [_NAME],
                }
            ],
        },
        "taints": {"taints": [{"key": f"{driver}/{_NAME}", "effect": "NoSchedule"}]},
        "bindingConditions": {
            "bindsToNode": True,
            "bindingConditions": [f"{driver}/{_NAME}"],
            "bindingFailureConditions": [f"{driver}/{_NAME}-failed"],
        },
        "nodeAllocatableResources": {
            "nodeAllocatableResources": {"cpu": {"overhead": {"perPod": "1m"}}}
        },
        "strings": {"attributes": {_NAME: {"strings": [_NAME]}}},
    }
    return {
        name: {"name": f"{_NAME}-{index}", **device}
        for index, (name, device) in enumerate(shown.items())
    }


def _shown(value: Any) -> Iterator[str]:
    """Names of the fields that show a feature, wherever they are."""
    # Not by recursion: what a server gives back may be nested deeper than that goes.
    left = [value]
    while left:
        here = left.pop()
        if isinstance(here, Mapping):
            yield from (key for key, below in here.items() if key in PROOFS and below)
            left.extend(here.values())
        elif isinstance(here, list | tuple):
            left.extend(here)
