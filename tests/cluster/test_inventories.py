"""Slices of any inventory are taken by a real API server, and one change writes the fewest.

They are planned and written as the daemon does it; only its pauses are left out. No node is there
but its object, and no kubelet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest
import trio
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from berth.dra.slices import Verb
from berth.kube.slices import Slice
from tests.cluster.bed import Bed, Cluster
from tests.cluster.desk import Desk, open_desk
from tests.cluster.gates import Gates
from tests.unit.dra.changes import singles
from tests.unit.dra.inventories import MOST, Inventory, everything, inventories
from tests.unit.dra.shelf import Shelf

SMALL = 512
LIMIT_S = 300.0
"""For one inventory; a busy machine is no failure."""


@pytest.fixture(name="server")
def _server(bed: Bed, gates: Gates) -> Cluster:
    """The cluster whose gates are so, of which the API server alone is needed."""
    return bed.shared(gates)


def tried(examples: int) -> settings:
    """That many examples: each costs seconds, so a failing one is shown as it was drawn."""
    return settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,  # The fast tests look for what is new; here each run is the same.
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=[HealthCheck.function_scoped_fixture, *HealthCheck],
    )


@tried(8)
@given(inventory=inventories(SMALL, skips=True), place=st.integers(0, SMALL - 1))
def test_any_inventory_is_taken_by_the_server(
    gates: Gates, server: Cluster, tmp_path: Path, inventory: Inventory, place: int
) -> None:
    """Every kind of device, beside every other, in as many slices as it takes."""

    trio.run(show, server, gates, tmp_path, inventory, place)


@tried(1)
@given(inventory=inventories(MOST, least=MOST, skips=True), place=st.integers(0, MOST - 1))
def test_any_inventory_of_the_largest_node_is_taken_by_the_server(
    gates: Gates, server: Cluster, tmp_path: Path, inventory: Inventory, place: int
) -> None:
    """The same of 4,096 devices."""

    trio.run(show, server, gates, tmp_path, inventory, place)


def test_inventory_of_the_fullest_devices_is_taken_by_the_server(
    gates: Gates, server: Cluster, tmp_path: Path
) -> None:
    """All that a device can have, at its limits, 64 times in a slice.

    4,096 of them, 26 MB of slices, were taken as well; that is minutes of a busy machine.
    """

    one = partial(show, changes="a taint".__eq__)
    trio.run(one, server, gates, tmp_path, everything(SMALL), SMALL // 2)


async def show(
    server: Cluster,
    gates: Gates,
    folder: Path,
    inventory: Inventory,
    place: int,
    *,
    changes: Callable[[str], bool] = bool,
) -> None:
    """Publish an inventory, then change what can be changed of it, one thing after the other.

    Args:
        changes: Which changes; of the largest slices each takes seconds.
    """
    with trio.fail_after(LIMIT_S):
        async with open_desk(server, gates, folder) as desk:
            written, slices = await published(desk, inventory, {})
            assert len(written) == len(slices)
            if not inventory.devices:
                return
            for change in singles(inventory, place % len(inventory.devices)):
                if not changes(change.what):
                    continue
                done, slices = await published(desk, change.inventory, slices)
                undone, slices = await published(desk, inventory, slices)
                if change.fits:
                    once = [Verb.UPDATE]
                    assert (change.what, done, undone) == (change.what, once, once)


async def published(
    desk: Desk, inventory: Inventory, before: Mapping[str, Slice]
) -> tuple[Sequence[Verb], Mapping[str, Slice]]:
    """Publish it, and look at what the server has then.

    Each device is there once, in a whole pool, as it was sent; what was written is what the server
    has otherwise than before; and a second look writes nothing.
    """
    verbs = await desk.publish(inventory)
    after = await desk.listed()
    assert desk.writer.refusals.get() == {}
    assert desk.writer.dropped() == {}
    assert [write for each in desk.plan(inventory) for write in each.writes] == []
    touched = {
        name
        for name in before.keys() | after.keys()
        if name not in before
        or name not in after
        or before[name].resource_version != after[name].resource_version
    }
    assert len(touched) == len(verbs)
    shelf = Shelf()
    shelf.slices = dict(after)
    pools = {one.pool for one in after.values()}
    read = [shelf.read(pool) for pool in pools]
    assert None not in read
    names = [name for each in read for name in each or ()]
    assert sorted(names) == sorted(device.name for device in inventory.devices)
    sets = {name for pool in pools for name in shelf.read_sets(pool)}
    # Without devices nobody has anything of a set, and there is no slice to bring it.
    assert sets == {one.name for one in inventory.sets if inventory.devices}
    return verbs, after
