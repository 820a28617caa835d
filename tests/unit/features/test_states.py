"""States of features follow from what is known, and from nothing else."""

from __future__ import annotations

import attrs
import pytest

from berth.features.feature import Number, Part
from berth.features.registry import FEATURES
from berth.features.states import Evidence, Fate, Verdict, fold

NEW = Evidence(server=(1, 37), kubelet=(1, 37), declared=frozenset())
SKIP = "optional-node-operations"
SHARES = "consumable-capacity"
TAINTS = "device-taints"
LISTS = "list-attributes"
OLD_STYLE = "extended-resource"


def told(evidence: Evidence, key: str) -> str:
    """The state of one feature, in words."""
    return str(fold(evidence).of(key))


def test_nothing_is_said_of_a_cluster_that_nobody_saw() -> None:
    """Without a version there is no verdict."""

    assert {state.verdict for state in fold(Evidence())} == {Verdict.UNKNOWN}


@pytest.mark.parametrize(
    ("server", "key", "state"),
    [
        ((1, 35), TAINTS, "unknown: off by default in server 1.35, and nothing shows it there"),
        ((1, 36), TAINTS, "on: by default in server 1.36"),
        ((1, 35), LISTS, "off: server 1.35"),
        ((1, 37), LISTS, "unknown: off by default in server 1.37, and nothing shows it there"),
        ((1, 34), "device-taint-rules", "off: server 1.34"),
    ],
)
def test_version_of_the_server_decides(server: Number, key: str, state: str) -> None:
    """What its version lacks is off; what is open by default is on; the rest is to be tried."""

    assert told(Evidence(server=server), key) == state


@pytest.mark.parametrize(
    ("fates", "key", "state"),
    [
        ({"taints": Fate.DROPPED}, TAINTS, "off: dropped by the server"),
        ({"allowMultipleAllocations": Fate.KEPT}, SHARES, "on: kept by the server"),
        (
            {"allowMultipleAllocations": Fate.KEPT, "requestPolicy": Fate.DROPPED},
            SHARES,
            "off: dropped by the server",
        ),
        ({"strings": Fate.REFUSED}, LISTS, "off: refused by the server"),
        ({"strings": Fate.KEPT}, LISTS, "on: kept by the server"),
    ],
)
def test_what_a_write_showed_outweighs_what_is_usual(
    fates: dict[str, Fate], key: str, state: str
) -> None:
    """A gate that somebody turned is known by what became of its fields."""

    assert told(attrs.evolve(NEW, fates=fates), key) == state


def test_node_has_to_declare_what_kubelet_does() -> None:
    """Both the node and the server must have it; each is told by name."""

    kept = attrs.evolve(NEW, fates={"skipNodeOperations": Fate.KEPT})
    declared = frozenset({"DRAOptionalNodeOperations"})

    assert told(kept, SKIP) == "off: the node does not declare it"
    assert told(attrs.evolve(kept, declared=declared), SKIP) == (
        "on: kept by the server; declared by the node"
    )
    assert told(attrs.evolve(NEW, declared=declared), SKIP) == (
        "unknown: off by default in server 1.37, and nothing shows it there"
    )
    assert told(attrs.evolve(kept, declared=None), SKIP).startswith("unknown: off by default in k")


@pytest.mark.parametrize(
    ("kubelet", "state"),
    [
        ((1, 33), "off: kubelet 1.33"),
        ((1, 34), "unknown: off by default in kubelet 1.34, and nothing shows it there"),
        ((1, 37), "on: by default in server 1.37; by default in kubelet 1.37"),
        (None, "unknown: the version of kubelet is not known"),
    ],
)
def test_older_kubelet_under_a_newer_server(kubelet: Number | None, state: str) -> None:
    """Of what both do, the lesser decides."""

    assert told(attrs.evolve(NEW, kubelet=kubelet), OLD_STYLE) == state


def test_gate_that_was_read_decides() -> None:
    """Figures and settings tell a gate by name."""

    off = attrs.evolve(NEW, gates={"DRAExtendedResource": False})
    on = Evidence(server=(1, 35), kubelet=(1, 37), gates={"DRAExtendedResource": True})
    kubelets = attrs.evolve(NEW, kubelet_gates={"DRAExtendedResource": False})

    assert told(off, OLD_STYLE) == "off: DRAExtendedResource is off in server"
    assert told(on, OLD_STYLE) == (
        "on: DRAExtendedResource is on in server; by default in kubelet 1.37"
    )
    assert told(kubelets, OLD_STYLE) == "off: DRAExtendedResource is off in kubelet"


def test_no_state_is_on_without_every_part_that_it_needs() -> None:
    """A feature of kubelet is never called on from what the server says alone."""

    alone = fold(Evidence(server=(1, 37), gates={one.gate: True for one in FEATURES}))

    for feature in FEATURES:
        assert alone.of(feature.key).is_on is (Part.KUBELET not in feature.parts)
