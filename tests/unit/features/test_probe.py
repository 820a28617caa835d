"""A slice that is shown to a server, and what its answer says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import pytest

from berth.errors import KubeError
from berth.features.feature import VERSIONS, number
from berth.features.probe import Probe
from berth.features.registry import FEATURES, PROOFS
from berth.features.states import Evidence, Fate, fold
from berth.kube.slices import Slice, slice_from_json, slice_json
from berth.rehearsal.apiserver import gates
from berth.rehearsal.apiserver.resources import SLICES
from berth.rehearsal.apiserver.server import ApiServer

PROBE = Probe(driver="berth.dev", node_name="worker-7")
ALL = gates.GATES_1_37 | {
    gates.LISTS,
    gates.GROUPS,
    gates.PARTITION_TYPE,
    gates.ALLOCATABLE,
    gates.OPTIONAL_OPERATIONS,
}


def without(fields: frozenset[str], value: Any) -> Any:
    """A document without these fields, wherever they are."""
    if isinstance(value, dict):
        return {key: without(fields, item) for key, item in value.items() if key not in fields}
    return [without(fields, item) for item in value] if isinstance(value, list) else value


def stored(item: Slice, *dropped: str) -> Slice:
    """What a server makes of a slice that drops these."""
    return slice_from_json(without(frozenset(dropped), slice_json(item)))


def shown_to(server: ApiServer, probe: Probe) -> Mapping[str, Fate]:
    """What the stand-in makes of a probe."""
    try:
        named = {**slice_json(probe.slice()), "metadata": {"name": "shown"}}
        return probe.fates(slice_from_json(server.put(SLICES, named)))
    except KubeError as error:
        less = probe.without(error)
        if less is None:
            raise
        return shown_to(server, less)


def test_every_provable_feature_is_shown() -> None:
    """A server that keeps all has all that a slice can show."""

    declared = frozenset(one.gate for one in FEATURES if one.declared)
    fates = PROBE.fates(PROBE.slice())
    states = fold(Evidence(server=(1, 37), kubelet=(1, 37), declared=declared, fates=fates))

    provable = [one.key for one in FEATURES if one.proof]
    assert [key for key in provable if "kept by the server" not in states.of(key).why] == []


@pytest.mark.parametrize("field", sorted(PROBE.fates(PROBE.slice())))
def test_one_dropped_field_is_seen_alone(field: str) -> None:
    """Each stands for itself, unless it lies within another."""

    fates = PROBE.fates(stored(PROBE.slice(), field))

    lost = {name for name, fate in fates.items() if fate is Fate.DROPPED}
    assert lost - {"compatibilityGroups"} == {field} - {"compatibilityGroups"}
    assert field in lost


def test_what_is_refused_is_left_out_and_told() -> None:
    """As list attributes are by a server whose gate is off."""

    index = next(n for n, one in enumerate(PROBE.slice().devices) if "strings" in str(one))
    path = f"spec.devices[{index}].attributes[probe]"
    error = KubeError("POST", f"{path}: must specify one of: int", status=422, fields=[path])

    less = PROBE.without(error)

    assert less is not None
    assert "strings" not in str(less.slice())
    fates = less.fates(less.slice())
    assert {name for name, fate in fates.items() if fate is Fate.REFUSED} == {"strings"}


def test_refused_counters_take_what_stands_on_them_along() -> None:
    """A slice may name the attribute of parts only where some draw on counters."""

    index = next(n for n, one in enumerate(PROBE.slice().devices) if "consumesCounters" in one)
    told = f"spec.devices[{index}].consumesCounters[0].counterSet: Not found"
    less = PROBE.without(KubeError("POST", told, status=422))

    assert less is not None
    assert "partitionTypeAttribute" not in less.slice().others
    refused = {name for name, fate in less.fates(less.slice()).items() if fate is Fate.REFUSED}
    assert refused == {"consumesCounters", "compatibilityGroups"}


@pytest.mark.parametrize(
    "found", ["spec.nodeName: immutable", "no words", "spec.devices[99].name: too long"]
)
def test_refusal_of_something_else_is_no_answer(found: str) -> None:
    """Nothing is made of what the probe is not about."""

    assert PROBE.without(KubeError("POST", found, status=422)) is None


@pytest.mark.parametrize("opened", [gates.GATES_1_34, gates.GATES_1_37, ALL], ids=len)
def test_stand_in_drops_and_refuses_as_its_gates_say(opened: frozenset[str]) -> None:
    """The rehearsal's server tells its gates as the real one does (`cluster/test_features.py`)."""

    fates = shown_to(ApiServer(gates=opened), PROBE)

    for feature in FEATURES:
        shown = {fates[field] for field in feature.proof if field in fates}
        if shown:
            assert (shown == {Fate.KEPT}) is (feature.gate in opened), feature.key


def test_fields_of_the_probe_are_those_of_the_table() -> None:
    """Nothing is shown that no feature speaks of."""

    assert set(PROBE.fates(PROBE.slice())) <= PROOFS
    assert all(number(version) for version in VERSIONS)
    assert attrs.evolve(PROBE, node_name="x").slice().node_name == "x"


@pytest.mark.parametrize("index", ["9" * 5000, "9999", "-1"])
def test_refusal_of_a_device_that_was_not_sent_is_passed_on(index: str) -> None:
    """Nothing of the probe is named, however long the number is."""

    refused = KubeError("x", "no", status=422, fields=[f"spec.devices[{index}].taints"])

    assert PROBE.without(refused) is None


def test_answer_that_is_nested_without_end_is_read() -> None:
    """What was not sent is passed over, at any depth."""

    deep: Any = {"strings": ["x"]}
    for _ in range(5000):
        deep = [deep]
    got = attrs.evolve(stored(PROBE.slice(), "strings"), others={"rubbish": deep})

    assert PROBE.fates(got)["taints"] is Fate.KEPT
