"""Slices of any inventory are taken by a real API server, and kept as they were sent."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from berth.kube.compare import differences
from berth.kube.slices import slice_from_json, slice_json
from tests.cluster.gates import Gates
from tests.cluster.node import SLICES
from tests.cluster.site import Site
from tests.unit.dra.inventories import Inventory, inventories
from tests.unit.dra.shelf import ORIGIN, Shelf

EXAMPLES = 12
"""Some seconds; that the stand-in's rules are the server's is shown by `test_api.py`."""


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_any_inventory_is_taken_by_the_server(
    gates: Gates, gated_site: Site, data: st.DataObject
) -> None:
    """Every kind of device, beside every other, in as many slices as it takes.

    What devices cost is asked apart (`test_node_costs.py`): it needs a Node that counts.
    """

    everything = gates is Gates.ALL_ALPHA
    inventory: Inventory = data.draw(inventories(most=512, costs=False, gated=everything))
    writes = Shelf().sync(inventory.devices, inventory.sets)
    try:
        for write in writes:
            stored = gated_site.api.request("POST", SLICES, slice_json(write.slice))
            assert differences(write.slice, slice_from_json(stored)) == ()
    finally:
        gated_site.api.delete(f"{SLICES}?fieldSelector=spec.nodeName%3D{ORIGIN.node_name}")
