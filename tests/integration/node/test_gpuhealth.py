"""The health of GPUs over the stand-in for NVML's library: threads, events and hangs are real."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import attrs
import pytest
import trio

from berth.config.gpu import GpuTable
from berth.config.xid import XidTable
from berth.health.finding import Severity
from berth.health.terms import Terms
from berth.health.verdict import Status
from berth.host.nvml.owner import Nvml
from berth.model.device import Nic
from berth.model.inventory import Inventory
from berth.model.peripheral import Peripheral
from berth.node.gpus.gpus import Gpus
from berth.node.health.judge import Health, Watching
from berth.node.watches.gpus import GpuWatch
from berth.rehearsal.nvml.cards import (
    divided,
    divisible,
    hung,
    needing,
    struck,
    whole,
    without_action,
)
from berth.rehearsal.nvml.world import LOST, World, read_counts
from berth.runtime.latest import Latest
from tests import nvml
from tests.nvml import cards
from tests.unit.node.gpubed import Bus
from tests.unit.node.gpus.test_gpus import ADDRESSES, NAMES, UP, Driven, at_once

FULL: Final = whole(0, ADDRESSES[0])
PARTED: Final = divided(divisible(1, ADDRESSES[1]), ((9, 7, 4), (19, 9, 0)))
PARTS: Final = (f"{NAMES[1]}-mig-1g5gb-0", f"{NAMES[1]}-mig-3g20gb-4")
QUICK: Final = Terms(interval_s=0.2, deadline_s=0.25, timeout_s=2, recover_after_s=0.2)

Show = Callable[[World], None]


class Quick:
    """Every device is watched so that a test need not wait."""

    def of_peripheral(self, _one: Peripheral) -> Terms:
        """The terms."""
        return QUICK

    def of_nic(self, _nic: Nic) -> Terms:
        """The terms."""
        return QUICK


class Node:
    """GPUs by the stand-in, and their health."""

    def __init__(self) -> None:
        driven = Driven(UP)
        self.gpus = Gpus(
            GpuTable(),
            open_nvml=lambda: Nvml(library=str(nvml.library())),
            sysfs=driven,  # type: ignore[arg-type]
            files=driven,  # type: ignore[arg-type]
            links=driven,  # type: ignore[arg-type]
            listen=driven.listen,
            aside=at_once,
        )
        self.inventory: Latest[Inventory] = Latest(Inventory())
        terms: Latest[Watching] = Latest(Quick())
        self.health = Health(inventory=self.inventory, terms=terms)
        self.watch = GpuWatch(
            self.gpus,
            inventory=self.inventory,
            reports=self.health,
            terms=terms,
            xids=XidTable(),
            signs=Bus().of,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run it for a block, from when all is well and events are heard."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._follow)
            await nursery.start(self.gpus.run)
            await nursery.start(self.health.run)
            await nursery.start(self.watch.run)
            await self.until({})
            owner = self.gpus.grip.nvml
            assert isinstance(owner, Nvml)
            with trio.fail_after(30):
                while len(owner.statistics().listening) < 2:  # noqa: ASYNC110 - a thread's doing
                    await trio.sleep(0.005)
            yield
            nursery.cancel_scope.cancel()

    async def _follow(self) -> None:
        """What was seen, but for the nodes of parts, which this machine does not have."""
        async for seen in self.gpus.peripherals.changes():
            peripherals = tuple(attrs.evolve(one, unhealthy="", lacking=()) for one in seen)
            self.inventory.set(Inventory(peripherals=peripherals))

    async def until(self, found: dict[str, tuple[Status, str]]) -> None:
        """Wait until just these are not well: by name, what they are and why."""
        with trio.fail_after(30):
            await self.health.state.wait_value(lambda _: self._sick() == found)

    async def until_message(self, words: str) -> None:
        """Wait until the first GPU's verdict says so."""
        with trio.fail_after(30):
            await self.health.state.wait_value(lambda now: words in now.of(NAMES[0]).message)

    def _sick(self) -> dict[str, tuple[Status, str]] | None:
        offered = {one.name for one in self.inventory.get().peripherals if one.exclusion is None}
        verdicts = self.health.state.get().verdicts
        if offered != {NAMES[0], *PARTS} or not offered <= verdicts.keys():
            return None
        return {
            name: (verdicts[name].status, verdicts[name].reason)
            for name in offered
            if verdicts[name].status is not Status.HEALTHY
        }


@pytest.fixture
def show(tmp_path: Path) -> Iterator[Show]:
    """Show both cards in good health; another world can be put in their place."""
    nvml.library()
    with nvml.shown(tmp_path / "world", cards(FULL, PARTED)) as put:
        yield put


async def test_xid_79_is_a_lost_gpu_at_once_and_siblings_stay_well(show: Show) -> None:
    """Then every call says so too, and the set of events is made anew without it (F4)."""

    node = Node()
    async with node.running():
        show(cards(struck(FULL, 79), PARTED))
        began_s = trio.current_time()
        await node.until({NAMES[0]: (Status.UNHEALTHY, "xid-79")})
        took_s = trio.current_time() - began_s
        assert node.health.state.get().of(NAMES[0]).severity is Severity.LOST

        show(cards(attrs.evolve(struck(FULL, 79), error=LOST), PARTED))
        await node.until_message("1 more: lost")
        await node.until({NAMES[0]: (Status.UNHEALTHY, "xid-79")})

    assert took_s < 1


async def test_xid_of_a_part_and_the_need_for_a_reset(show: Show) -> None:
    """First the part alone, then all of the GPU, and no other one."""

    node = Node()
    async with node.running():
        sick = struck(PARTED, 95, gi=9, ci=0)
        show(cards(FULL, sick))
        await node.until({PARTS[0]: (Status.UNHEALTHY, "xid-95")})
        show(cards(FULL, needing(sick, 4)))
        await node.until(
            {
                PARTS[0]: (Status.UNHEALTHY, "xid-95"),
                PARTS[1]: (Status.UNHEALTHY, "reset-required"),
            }
        )


async def test_xid_to_confirm_where_the_driver_says_nothing(show: Show) -> None:
    """NVLink's errors are a fault then; with the field they are what it says (T5)."""

    node = Node()
    async with node.running():
        show(cards(struck(without_action(FULL), 74), struck(PARTED, 74, gi=7, ci=0)))
        await node.until({NAMES[0]: (Status.UNHEALTHY, "xid-74")})


@pytest.mark.slow
@pytest.mark.parametrize("lock", [False, True])
async def test_call_that_never_returns_condemns_its_gpu_alone(
    show: Show, tmp_path: Path, lock: bool
) -> None:
    """Of the others nothing is known where the library holds all up; one call is out (case 18)."""

    node = Node()
    async with node.running():
        show(World(cards=(hung(FULL), PARTED), lock=lock))
        unknown = dict.fromkeys(PARTS, (Status.UNKNOWN, "cannot-ask")) if lock else {}
        await node.until({NAMES[0]: (Status.UNHEALTHY, "no-answer"), **unknown})
        await trio.sleep(3.5 * QUICK.deadline_s)  # now patience with the others is over
        await node.until({NAMES[0]: (Status.UNHEALTHY, "no-answer"), **unknown})
        assert read_counts(tmp_path / "world")[FULL.address].open == 1

        show(cards(FULL, PARTED))
        await node.until({})
