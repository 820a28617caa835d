"""What a cluster can do is what `berth` says that it can do, whichever gates are open."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path

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
from tests.cluster.session import apply_classes
from tests.cluster.site import Site, device

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


# What nothing on a node can show while it is off by default.
HIDDEN = {"derived-attributes", "pod-level-managers", "pool-status", "workload-claims"}
SHARED = """
[[nic.group]]
name = "lan"
match = { name = ["nic0"] }
mode = "shared"
shared = { slots = 3, children = ["macvlan"] }
"""
ONE = """
[[nic.group]]
name = "lab"
match = { name = ["nic1"] }
"""


def told(site: Site, what: str) -> dict[str, Object]:
    """What `berth status` or `berth check` says of each feature, by its key."""
    command = Path(sys.executable).with_name("berth")
    answer = site.node.run("sh", "-c", f"{command} {what} --json; test $? -le 1")
    return {one["feature"]: one for one in json.loads(answer)["features"]}


def state(site: Site, key: str) -> str:
    """The daemon's word on one feature."""
    one = told(site, "status")[key]
    return f"{one['state']}: {one['why']}"


def wait_state(site: Site, key: str, wished: str) -> None:
    """Wait until the daemon's word on a feature begins so."""
    site.wait_same(
        f"state of {key}", lambda: state(site, key)[: len(wished)], wished, limit_s=site.limit_s
    )


def test_daemon_and_check_say_what_is_so(gates: Gates, gated_site: Site) -> None:
    """With default gates and with all of them: nothing is called on that is not, or off that is."""

    gated_site.open()
    wait_state(gated_site, "device-taints", "on")
    found = server_gates(gated_site)

    for what in ("status", "check"):
        states = told(gated_site, what)
        assert list(states) == [one.key for one in FEATURES]
        unknown = {key for key, one in states.items() if one["state"] == "unknown"}
        assert unknown <= HIDDEN, what
        wrong = {
            key: one["why"]
            for key, one in states.items()
            if key not in unknown and (one["state"] == "on") is not found[one["gate"]]
        }
        assert wrong == {}, what
    lines = gated_site.log_lines("features of the cluster")
    assert len(lines) == 1, lines
    skipping = told(gated_site, "check")["optional-node-operations"]["why"]
    assert ("declared" in skipping) is (gates is Gates.ALL_ALPHA)


def test_daemon_follows_a_cluster_whose_gates_and_version_change(bed: Bed) -> None:
    """What the server lacks is taken back at once, told once, and there again with the server.

    From 1.37 with all gates to 1.37 without shared devices, to 1.36 with its own gates, and back:
    objects that were written with more stay valid, and a parent that would be given to one pod as
    a whole is not offered for as long.
    """

    everything = Gates.ALL_ALPHA.flags
    unshared = {**everything, "DRAConsumableCapacity": False, "DRAFractionalCapacityRange": False}
    both = [device("nic0", "lan"), device("nic1")]
    with bed.cluster(gates=everything) as cluster:
        apply_classes(cluster)
        site = Site(cluster, cluster.node("1.37+2.4"), "default")
        site.open(SHARED + ONE, nics=["nic0", "nic1"], offers=both)
        wait_state(site, "consumable-capacity", "on: kept by the server")
        wait_state(site, "optional-node-operations", "on: kept by the server; declared by the node")

        cluster.control.change(unshared)
        site.wait_offered(both[1:])
        wait_state(site, "consumable-capacity", "off: dropped by the server")
        assert "allowMultipleAllocations" in site.node.berth("devices")

        cluster.control.change(Gates.DEFAULT.flags, emulated="1.36")
        site.wait_offered(both)
        wait_state(site, "compatibility-groups", "off: server 1.36")
        wait_state(site, "consumable-capacity", "on: kept by the server")

        site.node.change_gates({"DRAOptionalNodeOperations": False})
        cluster.control.change(everything)
        wait_state(site, "optional-node-operations", "off: the node does not declare it")
        wait_state(site, "compatibility-groups", "on: kept by the server")
        site.wait_offered(both)
        assert len(site.log_lines("features of the cluster")) <= 8
