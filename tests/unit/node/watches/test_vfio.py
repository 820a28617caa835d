"""The health of GPUs that vfio-pci has."""

from __future__ import annotations

from typing import Any

import attrs
import trio
from trio.testing import MockClock

from berth.health.finding import Finding, Severity
from berth.health.terms import VFIO, Terms
from berth.health.verdict import Status
from berth.host.pcihealth import ABSENT, FunctionSight
from berth.model.device import Exclusion, Nic
from berth.model.inventory import Inventory
from berth.model.peripheral import Peripheral
from berth.node.health.judge import Health, Watching
from berth.node.watches.vfio import SOURCE, VfioWatch
from berth.runtime.latest import Latest
from tests.unit.node.gpubed import Bus

ADDRESSES = ("0000:1b:00.0", "0000:1c:00.0")
NAMES = ("vfio-0000-1b-00-0", "vfio-0000-1c-00-0")
HAS = FunctionSight(driver="vfio-pci", binding=1)
FREE = FunctionSight()


def function(number: int, **more: Any) -> Peripheral:
    """One function for virtual machines."""
    return Peripheral(
        identity=f"pci:{ADDRESSES[number]}/vfio",
        name=NAMES[number],
        kind="vfio",
        type="vfio",
        group="",
        keys=(),
        path=ADDRESSES[number],
        **more,
    )


class ByVfio:
    """The terms of every function."""

    def of_peripheral(self, _one: Peripheral) -> Terms:
        """The terms."""
        return VFIO

    def of_nic(self, _nic: Nic) -> Terms:
        """The terms."""
        return VFIO


class Bed:
    """A bus, who watches it, and the owner of health."""

    def __init__(self, *functions: Peripheral) -> None:
        self.bus = Bus()
        self.bus.signs = dict.fromkeys(ADDRESSES, HAS)
        self.inventory = Latest(Inventory(peripherals=functions))
        terms: Latest[Watching] = Latest(ByVfio())
        self.health = Health(inventory=self.inventory, terms=terms)
        self.watch = VfioWatch(
            inventory=self.inventory, reports=self.health, terms=terms, signs=self.bus.of
        )
        self.health.add_prober(self.watch)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Judge and watch."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self.health.run)
            await nursery.start(self.watch.run)
            task_status.started()

    def statuses(self) -> dict[str, tuple[Status, str]]:
        """Status and reason of each."""
        return {
            name: (verdict.status, verdict.reason)
            for name, verdict in self.health.state.get().verdicts.items()
        }


async def test_function_is_well_while_it_is_there_and_vfio_pci_has_it(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """It is lost without itself, sick without its driver, and heals; the other one stays well."""

    bed = Bed(function(0), function(1))
    await nursery.start(bed.run)
    await trio.sleep(1)
    assert bed.statuses() == dict.fromkeys(NAMES, (Status.HEALTHY, ""))

    for sign, reason in (
        (ABSENT, "lost"),
        (attrs.evolve(HAS, answers=False), "lost"),
        (FREE, "no-driver"),
        (attrs.evolve(HAS, driver="nvidia"), "no-driver"),
    ):
        bed.bus.signs[ADDRESSES[0]] = sign
        await trio.sleep(16)
        assert bed.statuses() == {
            NAMES[0]: (Status.UNHEALTHY, reason),
            NAMES[1]: (Status.HEALTHY, ""),
        }
        verdict = bed.health.state.get().of(NAMES[0])
        assert (verdict.severity is Severity.LOST) == (reason == "lost")
        bed.bus.signs[ADDRESSES[0]] = HAS
        await trio.sleep(15 * 3 + 31)
        assert bed.statuses()[NAMES[0]] == (Status.HEALTHY, "")


async def test_driver_of_one_that_claims_have_bound_is_no_concern(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Berth binds it itself, and gives it back."""

    bed = Bed(function(0, only_counted=True))
    bed.bus.signs[ADDRESSES[0]] = attrs.evolve(HAS, driver="nvidia")
    await nursery.start(bed.run)
    await trio.sleep(1)
    assert bed.statuses() == {NAMES[0]: (Status.HEALTHY, "")}

    bed.bus.signs[ADDRESSES[0]] = ABSENT
    await bed.health.probe_now(NAMES[0])
    await trio.sleep(0.1)

    assert bed.statuses() == {NAMES[0]: (Status.UNHEALTHY, "lost")}


async def test_function_that_nobody_may_have_is_not_looked_at(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Unless somebody has it."""

    out = function(0, exclusion=Exclusion(reason="iommu-group", detail="a member is in use"))
    bed = Bed(out)
    await nursery.start(bed.run)
    await trio.sleep(60)
    assert bed.statuses() == {NAMES[0]: (Status.UNKNOWN, "unasked")}

    bed.inventory.set(Inventory(peripherals=(attrs.evolve(out, held_by=("claim",)),)))
    await trio.sleep(1)

    assert bed.statuses() == {NAMES[0]: (Status.HEALTHY, "")}


async def test_what_another_life_found_is_void_of_what_is_not_watched(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Nobody can have it, so nobody looks, and nobody would see it heal."""

    closed = Exclusion(reason="not-selected", detail="no group takes it")
    bed = Bed(function(0, exclusion=closed), function(1))
    lost = Finding(code="lost", severity=Severity.LOST, message="-")
    for number in range(2):
        bed.health.report(function(number).identity, SOURCE, [lost], asked=False)
    await nursery.start(bed.run)
    await trio.sleep(1)

    assert bed.health.standing(function(0).identity, SOURCE) == ()
    assert bed.health.standing(function(1).identity, SOURCE) == (lost,)
