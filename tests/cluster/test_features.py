"""What a cluster can do is what `berth` says that it can do, whichever gates are open."""

from __future__ import annotations

import re
from collections.abc import Mapping

from berth.errors import KubeError
from berth.features.feature import Part, number
from berth.features.probe import ROUNDS, Probe
from berth.features.registry import FEATURES
from berth.features.states import Fate
from berth.kube.slices import slice_from_json, slice_json
from tests.cluster.api import Object
from tests.cluster.bed import Bed
from tests.cluster.berthd import DRIVER
from tests.cluster.gates import Gates
from tests.cluster.node import SLICES
from tests.cluster.pods import pod
from tests.cluster.site import Site

NEWEST = number("1.37")
ALPHA = {feature.gate for feature in FEATURES if not feature.stage(NEWEST).is_on}


def server_gates(site: Site) -> dict[str, bool]:
    """How the API server has its gates, by its own figures."""
    told = site.api.get("/metrics")
    found = re.findall(r'^kubernetes_feature_enabled{name="(\w+)".*} ([01])$', told, re.MULTILINE)
    return {name: value == "1" for name, value in found}


def declared(node: Object) -> set[str]:
    """What kubelet tells of its own gates."""
    return set(node["status"].get("declaredFeatures", ()))


def test_table_says_of_each_gate_what_the_server_does(gates: Gates, gated_site: Site) -> None:
    """Every gate of the table is one that the server has, open as the table has it or by all-on."""

    found = server_gates(gated_site)

    seen = {f.gate: found.get(f.gate) for f in FEATURES if Part.SERVER in f.parts}
    said = {f.gate: gates is Gates.ALL_ALPHA or f.stage(NEWEST).is_on for f in FEATURES}
    assert seen == {gate: said[gate] for gate in seen}


def test_older_version_is_acted_by_the_same_components(bed: Bed) -> None:
    """A cluster that is taken back to 1.36 has the gates of that and keeps its data and nodes."""

    with bed.cluster(gates=Gates.ALL_ALPHA.flags) as cluster:
        node = cluster.node("1.37+2.4")
        kept = cluster.api.get(node.object_path)["metadata"]["uid"]

        cluster.control.change(Gates.DEFAULT.flags, emulated="1.36")
        node.change_gates(Gates.DEFAULT.flags)

        assert cluster.api.get("/version")["emulationMinor"] == "36"
        now = cluster.api.wait(node.object_path, lambda it: not declared(it) & ALPHA)
        assert now["metadata"]["uid"] == kept
        cluster.run_pod(pod("default", "after", node=node.name))


def shown_to(site: Site) -> Mapping[str, Fate]:
    """What the server makes of a slice that it does not store, field by field."""
    probe: Probe | None = Probe(driver=DRIVER, node_name=site.node.name)
    for _ in range(ROUNDS):
        assert probe is not None
        try:
            given = slice_json(probe.slice())
            return probe.fates(
                slice_from_json(site.api.request("POST", f"{SLICES}?dryRun=All", given))
            )
        except KubeError as error:
            probe = probe.without(error)
    raise AssertionError("it refuses something in each round")


def test_probe_shows_what_the_server_keeps(gated_site: Site) -> None:
    """One slice that is never stored tells every gate of slices as the server's figures do."""

    found, fates = server_gates(gated_site), shown_to(gated_site)

    provable = [one for one in FEATURES if not fates.keys().isdisjoint(one.proof)]
    kept = {
        one.gate: {fates[field] for field in one.proof if field in fates} == {Fate.KEPT}
        for one in provable
    }
    assert kept == {gate: found[gate] for gate in kept}
    assert provable == [one for one in FEATURES if one.proof]
    assert gated_site.api.items(SLICES) == []
