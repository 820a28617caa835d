"""How publication fares, as values for the operator and for figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import attrs

from berth.features.states import Evidence, FeatureStates, fold
from berth.kube.slices import Slice


@attrs.frozen(kw_only=True)
class PoolState:
    """One pool as it stands on the server."""

    generation: int
    slices: int
    devices: int


@attrs.frozen(kw_only=True)
class PublisherStatistics:
    """How publication fares.

    Attributes:
        state: One phrase for the operator; ``published`` when all is as it should be.
        node: Name of the node; empty while there is none to publish for.
        pools: What stands on the server, by pool.
        refused: Names of devices that the server does not take.
        rounds: Rounds of writes begun.
        writes: Requests that changed something.
        failures: Failures in a row.
        remarks: What an operator should know of the slices, one sentence each.
        restored: Slices that were put back as they had been, by pool.
        dropped: How many places there are at which the server did not keep what was written, by
            field.
        taints: How many there are on our devices, by key and effect.
        features: How far the cluster has each feature.
    """

    state: str
    node: str
    pools: Mapping[str, PoolState]
    refused: tuple[str, ...]
    rounds: int
    writes: int
    failures: int
    remarks: tuple[str, ...] = ()
    restored: Mapping[tuple[str, ...], float] = attrs.field(factory=dict)
    dropped: Mapping[str, int] = attrs.field(factory=dict)
    taints: Mapping[tuple[str, str], int] = attrs.field(factory=dict)
    features: FeatureStates = attrs.field(factory=lambda: fold(Evidence()))


def pool_states(slices: Iterable[Slice]) -> Mapping[str, PoolState]:
    """What stands on the server, by pool."""
    pools: dict[str, PoolState] = {}
    for item in slices:
        known = pools.get(item.pool, PoolState(generation=0, slices=0, devices=0))
        pools[item.pool] = PoolState(
            generation=max(known.generation, item.generation),
            slices=known.slices + 1,
            devices=known.devices + len(item.devices),
        )
    return pools


def taint_counts(slices: Iterable[Slice]) -> Mapping[tuple[str, str], int]:
    """How many taints there are on devices, by key and effect."""
    return Counter(
        (str(taint.get("key")), str(taint.get("effect")))
        for item in slices
        for device in item.devices
        for taint in device.get("taints") or ()
    )
