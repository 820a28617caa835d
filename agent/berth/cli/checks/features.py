"""How far the cluster has each feature of dynamic resource allocation, one line for each.

The API server is asked as the daemon asks it; beyond that its figures and kubelet's own settings
are read, where they may be.

Source: KC §8, §9.10.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from berth.cli.checks.kubeletsettings import gates
from berth.cli.checks.line import Level, Line
from berth.cli.checks.machine import Machine
from berth.cli.wording import listed
from berth.config.schema import Config
from berth.config.skip import Skip
from berth.features.feature import Number, Stage, find_number
from berth.features.registry import BY_KEY, FEATURES
from berth.features.states import Evidence, FeatureStates, Verdict, fold

TOPIC: Final = "features"

SKIPS: Final = "optional-node-operations"
"""Key of what lets kubelet leave out calls."""

_ALL: Final = {
    Stage.ALPHA_OFF: "AllAlpha",
    Stage.BETA_OFF: "AllBeta",
    Stage.BETA_ON: "AllBeta",
}
"""Gates that turn every gate of a stage."""


def cluster_features(machine: Machine) -> FeatureStates:
    """How far the cluster has each feature, as far as it can be seen from here."""
    look, kubelet = machine.api, kubelet_number(machine)
    own = _kubelet_gates(gates(machine).states, kubelet)
    if look is None or not look.version:
        return fold(Evidence(kubelet=kubelet, kubelet_gates=own))
    return fold(
        Evidence(
            server=(look.major, look.minor),
            kubelet=kubelet,
            declared=look.declared,
            fates=look.fates or {},
            gates=look.features or {},
            kubelet_gates=own,
        )
    )


def check_features(machine: Machine) -> Iterator[Line]:
    """Which features there are, and what each answer rests on."""
    if not machine.config.dra.enabled or machine.api is None or not machine.api.version:
        return
    for state in cluster_features(machine):
        level = Level.OK if state.verdict is Verdict.ON else Level.NOTE
        feature = BY_KEY[state.key]
        yield Line(topic=TOPIC, level=level, text=f"{state.key} ({feature.gate}) is {state}")


def check_skips(machine: Machine) -> Iterator[Line]:
    """Whether kubelet can leave out the calls that groups let it leave out, and what keeps it."""
    groups = _skipping(machine.config)
    if not groups or not machine.config.dra.enabled:
        return
    gate, state = BY_KEY[SKIPS].gate, cluster_features(machine).of(SKIPS)
    if state.is_off:
        yield Line(
            topic=TOPIC,
            level=Level.WARNING,
            text=f"skip_node_operations of {listed(groups)} is not in force, and berth is asked as "
            f"ever: feature gate {gate} is {state}",
            mend="open it in API server, scheduler and kubelet; of the scheduler's nobody is told",
        )


def _skipping(config: Config) -> tuple[str, ...]:
    """The groups that let kubelet leave out calls."""
    return tuple(one.name for one in config.generic if one.skip_node_operations is not Skip.NONE)


def kubelet_number(machine: Machine) -> Number | None:
    """Kubelet's version by its Node, else by its program."""
    told = machine.api.kubelet_version if machine.api is not None else ""
    return find_number(told or machine.kubelet_version)


def _kubelet_gates(written: Mapping[str, bool], version: Number | None) -> Mapping[str, bool]:
    """The gates that somebody wrote for kubelet, those of a whole stage included."""
    whole = {
        feature.gate: written[_ALL[stage]]
        for feature in FEATURES
        if version is not None
        and (stage := feature.stage(version)) in _ALL
        and _ALL[stage] in written
    }
    return {**whole, **written}
