"""What the stand-in's rules take and refuse is what the API server takes and refuses, at borders.

`test_api.py` compares them case by case, each with one fault. Here slices are drawn that are at
several borders at once, and nothing is stored.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings

from berth.errors import KubeError
from berth.rehearsal.apiserver import gates as server_gates
from berth.rehearsal.apiserver.callers import ANYBODY
from berth.rehearsal.apiserver.resources import SLICES as RESOURCE
from berth.rehearsal.apiserver.resources import Call
from berth.rehearsal.apiserver.store import Store
from berth.rehearsal.apiserver.verbs import Verbs
from tests.cluster.apistage import NODE
from tests.cluster.bed import Bed, Cluster
from tests.cluster.borders import bordered
from tests.cluster.gates import Gates
from tests.cluster.node import SLICES

ALL: Final = frozenset(
    getattr(server_gates, name)
    for name in (
        "CONSUMABLE",
        "TAINTS",
        "PARTITIONABLE",
        "PARTITION_TYPE",
        "GROUPS",
        "BINDING",
        "LISTS",
        "ALLOCATABLE",
        "OPTIONAL_OPERATIONS",
        "GRANULAR_STATUS",
    )
)
OPEN: Final = {Gates.DEFAULT: server_gates.GATES_1_37, Gates.ALL_ALPHA: ALL}


@pytest.fixture(name="server")
def _server(bed: Bed, gates: Gates) -> Iterator[Cluster]:
    """A server, and the object of a node that declares what its kubelet would."""
    cluster = bed.shared(gates)
    cluster.api.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
    features = sorted(server_gates.DECLARED & OPEN[gates])
    path = f"/api/v1/nodes/{NODE}"
    cluster.api.merge(f"{path}/status", {"status": {"declaredFeatures": features}})
    yield cluster
    cluster.api.delete(path)


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(body=bordered())
def test_stand_in_takes_and_refuses_what_the_server_does(
    gates: Gates, server: Cluster, body: dict[str, Any]
) -> None:
    """The same fields at fault, or the same object to be stored.

    Of more devices than a slice may have the server still tells some faults, which is no matter.
    """

    by_server, by_rules = asked(server, body), judged(body, OPEN[gates])
    if "spec.devices" in by_server:
        assert "spec.devices" in by_rules
    else:
        assert by_server == by_rules


def asked(server: Cluster, body: dict[str, Any]) -> tuple[Any, ...]:
    """What the server would do."""
    try:
        made = server.api.request("POST", f"{SLICES}?dryRun=All", body)
    except KubeError as error:
        return error.status, *sorted(set(error.fields))
    return 201, made["spec"]


def judged(body: dict[str, Any], opened: frozenset[str]) -> tuple[Any, ...]:
    """What the stand-in would."""
    verbs = Verbs(Store(), enabled=opened, now=time.time)
    copy = json.loads(json.dumps(body))
    call = Call(verb="create", resource=RESOURCE, body=copy, params={"dryRun": "All"})
    try:
        answer = verbs.run(ANYBODY, call)
    except KubeError as error:
        return error.status, *sorted(set(error.fields))
    if answer.status == 201:
        return 201, answer.body["spec"]
    return answer.status, *sorted({each["field"] for each in answer.body["details"]["causes"]})
