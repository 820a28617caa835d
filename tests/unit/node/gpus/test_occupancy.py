"""GPUs on which somebody computes, by either door."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
import trio

from berth.errors import ClaimError
from berth.model.claim import ClaimRef
from berth.node.gpus.occupancy import Occupancy
from berth.node.ledger import Hold, Ledger
from tests.unit.node.conftest import Node
from tests.unit.node.machine import claim, look, result
from tests.unit.node.peripherals import RESOURCE, modem
from tests.unit.node.plugin.test_allotments import Desk

GPU = attrs.evolve(modem(0), type="gpu", kind="gpu", path="0000:3b:00.0")
OTHER = ClaimRef(namespace="team", name="other", uid="uid-of-other")
WORDS = "modem-0: is in use by process 7, 9, which nobody holds it for"


class Driver:
    """Tells who computes on each GPU."""

    def __init__(self) -> None:
        self.running: tuple[int, ...] = (7, 9)
        self.asked: list[str] = []

    async def processes(self, address: str) -> tuple[int, ...]:
        """Say so."""
        await trio.lowlevel.checkpoint()
        self.asked.append(address)
        return self.running


async def test_gpu_with_a_process_is_refused() -> None:
    """Its ids are named; a GPU with none is free."""

    driver, ledger = Driver(), Ledger()
    occupancy = Occupancy(driver, ledger)
    with pytest.raises(ClaimError, match=WORDS):
        await occupancy.require_free([GPU], holder_uid="new")

    driver.running = ()
    await occupancy.require_free([GPU], holder_uid="new")

    assert driver.asked == [GPU.path] * 2


async def test_process_is_explained_by_another_holder() -> None:
    """Such as another share's; one's own hold explains nothing."""

    driver, ledger = Driver(), Ledger()
    occupancy = Occupancy(driver, ledger)
    ledger.restore([Hold(key=GPU.keys[0], device=GPU.name, holder=OTHER, share="s", limit=2)])
    await occupancy.require_free([GPU], holder_uid="new")
    with pytest.raises(ClaimError, match=WORDS):
        await occupancy.require_free([GPU], holder_uid=OTHER.uid)


async def test_only_whole_gpus_are_asked_about() -> None:
    """Nobody where GPUs are off."""

    driver = Driver()
    await Occupancy(driver, Ledger()).require_free(
        [modem(), attrs.evolve(GPU, type="mig"), attrs.evolve(GPU, type="vfio")], holder_uid="new"
    )
    await Occupancy(None, Ledger()).require_free([GPU], holder_uid="new")

    assert driver.asked == []


async def test_claim_on_an_occupied_gpu_leaves_nothing(node: Node) -> None:
    """It is prepared when the process has ended, and asks nobody when it is repeated."""

    driver = Driver()
    node.claims._occupancy = Occupancy(driver, node.ledger)
    node.eyes.show(look(peripherals=(GPU,)))
    wanted = claim(result(GPU.name, "gpu"), name="gpu")
    with pytest.raises(ClaimError, match=WORDS):
        await node.prepare(wanted)
    assert node.traces() == {}

    driver.running = ()
    await node.prepare(wanted)
    driver.running = (1,)

    assert (await node.prepare(wanted)).devices


async def test_resource_on_an_occupied_gpu_leaves_nothing(
    tmp_path: Path, nursery: trio.Nursery
) -> None:
    """A holder that is replaced explains what it leaves behind; a cancel leaves nothing either."""

    driver, desk = Driver(), Desk(tmp_path)
    desk.allotments._occupancy = Occupancy(driver, desk.ledger)
    await desk.allotments.load()
    desk.see(GPU)
    await nursery.start(desk.allotments.run)
    with pytest.raises(ClaimError, match=WORDS):
        await desk.allotments.allocate(RESOURCE, [GPU.name])
    with trio.CancelScope() as scope:
        scope.cancel()
        await desk.allotments.allocate(RESOURCE, [GPU.name])
    assert (desk.ledger.holds(), desk.given.all()) == ((), ())

    driver.running = ()
    await desk.allotments.allocate(RESOURCE, [GPU.name])
    driver.running = (7,)
    await desk.allotments.allocate(RESOURCE, [GPU.name])

    assert len(desk.given.all()) == 1
