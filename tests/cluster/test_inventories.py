"""Slices of any inventory are taken by a real API server, and kept as they were sent."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings

from berth.kube.compare import differences
from berth.kube.slices import slice_from_json, slice_json
from tests.cluster.bed import Cluster
from tests.cluster.node import SLICES
from tests.unit.dra.inventories import Inventory, inventories
from tests.unit.dra.shelf import ORIGIN, Shelf

EXAMPLES = 12
"""Some seconds; that the stand-in's rules are the server's is shown by `test_api.py`."""


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(inventory=inventories(most=512, costs=False))
def test_any_inventory_is_taken_by_the_server(cluster: Cluster, inventory: Inventory) -> None:
    """Every kind of device, beside every other, in as many slices as it takes.

    What devices cost is asked apart (`test_node_costs.py`): it needs a Node that counts.
    """

    writes = Shelf().sync(inventory.devices, inventory.sets)
    try:
        for write in writes:
            stored = cluster.api.request("POST", SLICES, slice_json(write.slice))
            assert differences(write.slice, slice_from_json(stored)) == ()
    finally:
        cluster.api.delete(f"{SLICES}?fieldSelector=spec.nodeName%3D{ORIGIN.node_name}")
