"""How far the cluster has each feature, as entries of an answer."""

from __future__ import annotations

from typing import Any

from berth.features.registry import BY_KEY
from berth.features.states import FeatureStates


def features_view(states: FeatureStates) -> list[dict[str, Any]]:
    """One entry for each feature, in the order of the table."""
    return [
        {
            "feature": state.key,
            "gate": BY_KEY[state.key].gate,
            "state": state.verdict.value,
            "why": state.why,
            "config": BY_KEY[state.key].config,
        }
        for state in states
    ]
