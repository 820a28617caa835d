"""What `berth check` tells of the cluster's features, and by what witness."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest

from berth.cli.checks.features import check_features, check_skips, cluster_features
from berth.cli.checks.machine import ApiLook, Machine
from berth.config.generic import GenericGroup
from berth.config.genericmatch import GenericMatch
from berth.config.schema import Config, DraTable
from berth.config.skip import Skip
from berth.features.registry import FEATURES
from berth.features.states import Fate
from tests.unit.cli.checks.tree import plant, told

NEW = ApiLook(version="v1.37.2", major=1, minor=37, kubelet_version="v1.37.2", declared=frozenset())

GATE = "DRAOptionalNodeOperations"


def machine(look: ApiLook | None, **more: Any) -> Machine:
    """A machine that the server spoke to so."""
    return attrs.evolve(Machine(config=Config(), api=look), **more)


def state(given: Machine, key: str) -> str:
    """The state of a feature, in words."""
    return str(cluster_features(given).of(key))


@pytest.mark.parametrize(
    ("change", "key", "expected"),
    [
        ({}, "device-taints", "on: by default in server 1.37"),
        ({"fates": {"taints": Fate.DROPPED}}, "device-taints", "off: dropped by the server"),
        ({"features": {"DRAResourcePoolStatus": True}}, "pool-status", "on: DRAResource"),
        ({"minor": 35}, "list-attributes", "off: server 1.35"),
        ({}, "optional-node-operations", "off: the node does not declare it"),
        ({"declared": None}, "optional-node-operations", "unknown: off by default in server"),
        ({"kubelet_version": "v1.34.4"}, "extended-resource", "unknown: off by default in kub"),
    ],
)
def test_each_witness_is_heard(change: dict[str, Any], key: str, expected: str) -> None:
    """Version, answer to a slice for show, figures, Node."""

    assert state(machine(attrs.evolve(NEW, **change)), key).startswith(expected)


@pytest.mark.parametrize(
    ("gates", "expected"),
    [
        ("ResourceHealthStatus: false", "off: ResourceHealthStatus is off in kubelet"),
        ("AllBeta: false", "off: ResourceHealthStatus is off in kubelet"),
        ("{AllBeta: false, ResourceHealthStatus: true}", "on: by default in server 1.37; Resource"),
        ("AllAlpha: true", "on: by default in server 1.37; by default in kubelet 1.37"),
    ],
)
def test_gates_of_kubelets_own_settings(tmp_path: Path, gates: str, expected: str) -> None:
    """One by one, or a whole stage at once, over which a single one goes."""

    block = gates if gates.startswith("{") else f"{{{gates}}}"
    files = {"/var/lib/kubelet/config.yaml": f"featureGates: {block}\n"}
    given = machine(NEW, root=plant(tmp_path, files))

    assert state(given, "resource-health").startswith(expected)


def test_one_line_for_each_feature() -> None:
    """With its gate; one that is on is all right, and what is not needs no mend."""

    lines = told(check_features(machine(NEW)))

    assert len(lines) == len(FEATURES)
    assert ("ok", "device-taints (DRADeviceTaints) is on: by default in server 1.37") in lines
    assert {level for level, _ in lines} == {"ok", "note"}


@pytest.mark.parametrize("look", [None, ApiLook(fault="no answer")])
def test_nothing_is_told_of_a_server_that_was_not_asked(look: ApiLook | None) -> None:
    """Twenty lines that say nothing would hide the one that says why."""

    assert told(check_features(machine(look))) == []


def test_nothing_is_told_where_no_claim_is_served() -> None:
    """The features are those of claims."""

    config = Config(dra=DraTable(enabled=False))

    assert told(check_features(machine(NEW, config=config))) == []


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({}, "off: the node does not declare it"),
        ({"minor": 36}, "off: server 1.36"),
        ({"fates": {"skipNodeOperations": Fate.DROPPED}}, "off: dropped by the server"),
        ({"declared": frozenset({GATE})}, ""),
        ({"declared": None}, ""),
    ],
)
def test_calls_that_cannot_be_left_out_are_told_with_the_reason(
    change: dict[str, Any], why: str
) -> None:
    """Only to a node that has such a group; what is not known is no reason."""

    match = GenericMatch(subsystem=("tty",))
    group = GenericGroup(name="counted", match=match, skip_node_operations=Skip.ALL)
    given = machine(attrs.evolve(NEW, **change))
    lines = told(check_skips(attrs.evolve(given, config=Config(generic=(group,)))))

    ever = "skip_node_operations of counted is not in force, and berth is asked as ever: "
    assert lines == ([("warning", f"{ever}feature gate {GATE} is {why}")] if why else [])
    assert told(check_skips(given)) == []
