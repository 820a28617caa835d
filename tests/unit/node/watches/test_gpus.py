"""The health of GPUs, from what NVML and the bus say to the verdict."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from berth.config.xid import XidClass, XidTable
from berth.gpu.told import ACTION
from berth.health.finding import Finding, Severity
from berth.host.nvml.session import Session, SessionState
from berth.host.nvml.values import EventKind, NoAnswer, NvmlEvent, Probe, Refusal
from berth.host.pcihealth import ABSENT, FunctionSight
from berth.model.inventory import Inventory
from berth.model.peripheral import Peripheral
from berth.node.watches.gpucases import SOURCE, GpuFigures
from berth.node.watches.gpus import BUS_S
from berth.node.watches.xids import Xid
from tests.unit.node.gpubed import (
    ADDRESSES,
    BOUND,
    NAMES,
    PART_NAMES,
    PARTED,
    PARTS,
    SUBJECTS,
    UP,
    WELL,
    Bed,
    layout,
    times,
)

OTHERS = [name for name in (*NAMES, *PART_NAMES) if name != NAMES[0]]
MUTE = Probe(fields={144: 0})
RESET = Probe(fields={ACTION: 1})


def nobody(sick: dict[str, str]) -> bool:
    """All are well."""
    return not sick


@pytest.fixture
async def bed(nursery: trio.Nursery, autojump_clock: MockClock) -> Bed:
    """Eight GPUs, one of them divided, all well."""
    it = Bed()
    await nursery.start(it.run)
    await it.until(nobody, most_s=1)
    return it


async def test_gpus_and_parts_are_well_when_they_have_answered(
    bed: Bed, autojump_clock: MockClock
) -> None:
    """Each whole is asked every five seconds, and its parts with it."""

    assert set(bed.health.state.get().verdicts) == {*NAMES, *PART_NAMES}
    await trio.sleep(100)
    asked = times(bed.nvml.asked, ADDRESSES[PARTED], "probe")
    assert 20 <= len(asked) <= 22
    assert bed.sick() == {}
    seen = [bed.health.state.get().of(name).observed_s for name in (NAMES[0], PART_NAMES[0])]
    assert min(seen) >= 1_000_000 + 94


async def test_fault_is_told_at_once_and_heals_by_itself(
    bed: Bed, autojump_clock: MockClock
) -> None:
    """After the last question that follows it, and the hold time (F1)."""

    bed.xid(48)
    took_s, sick = await bed.until(bool, most_s=1)
    assert (took_s, sick) == (0, {NAMES[0]: "xid-48"})
    verdict = bed.verdict()
    assert verdict.severity is Severity.FAULT
    assert "XID 48" in verdict.message

    took_s, _ = await bed.until(nobody, most_s=120)

    assert 15 + 30 <= took_s <= 15 + 30 + 6


async def test_gpu_is_asked_after_each_xid_of_any_class(
    bed: Bed, autojump_clock: MockClock
) -> None:
    """At once, and when the need may show."""

    for code in (13, 63, 48, 74):
        await trio.sleep(30)
        bed.nvml.asked.clear()
        began_s = trio.current_time()
        bed.xid(code)
        await trio.sleep(20)
        asked = times(bed.nvml.asked, ADDRESSES[0], "classify")
        assert [at_s - began_s for at_s in asked] == pytest.approx([0, 1, 5, 15], abs=0.25)
    assert times(bed.nvml.asked, ADDRESSES[1], "classify") == []


async def test_xid_of_a_part_is_its_own_until_the_whole_needs_a_reset(
    bed: Bed, autojump_clock: MockClock
) -> None:
    """The need shows five seconds later, and counts for the siblings (F3)."""

    bed.xid(95, PARTED, gi=8, ci=0)
    await trio.sleep(2)
    assert bed.sick() == {PART_NAMES[1]: "xid-95"}
    bed.nvml.answers[ADDRESSES[PARTED]] = RESET
    took_s, sick = await bed.until(lambda sick: len(sick) > 1, most_s=5)

    assert took_s <= 3.3
    assert sick == {
        NAMES[PARTED]: "reset-required",
        PART_NAMES[0]: "reset-required",
        PART_NAMES[1]: "xid-95",
        PART_NAMES[2]: "reset-required",
    }


@pytest.mark.parametrize(
    ("gi", "ci", "names"),
    [
        (8, None, [PART_NAMES[1]]),
        (None, None, [NAMES[PARTED], *PART_NAMES]),
        (3, 0, [NAMES[PARTED], *PART_NAMES]),
    ],
)
async def test_xid_concerns_what_it_names(
    bed: Bed, autojump_clock: MockClock, gi: int | None, ci: int | None, names: list[str]
) -> None:
    """An instance that nobody knows is the whole GPU, never nobody."""

    bed.xid(48, PARTED, gi=gi, ci=ci)
    await wait_all_tasks_blocked()

    assert bed.sick() == dict.fromkeys(names, "xid-48")


@pytest.mark.parametrize(
    ("code", "answer", "found"),
    [
        (13, WELL, {}),
        (74, WELL, {}),
        (74, RESET, {NAMES[0]: "reset-required"}),
        (74, MUTE, {NAMES[0]: "xid-74"}),
        (109, MUTE, {}),
        (79, WELL, {NAMES[0]: "xid-79"}),
    ],
)
async def test_class_of_an_xid_decides(
    bed: Bed, autojump_clock: MockClock, code: int, answer: Probe, found: dict[str, str]
) -> None:
    """What has to be confirmed is told once the GPU was asked, or could not be."""

    bed.nvml.answers[ADDRESSES[0]] = answer
    bed.xid(code)
    await trio.sleep(0.6)

    assert bed.sick() == found
    xid_class = XidTable().class_of(code)
    assert bed.watch.journal.xids == {Xid(address=ADDRESSES[0], code=code, xid_class=xid_class): 1}


async def test_xid_to_confirm_of_a_gpu_that_hangs_is_a_fault(
    bed: Bed, autojump_clock: MockClock
) -> None:
    """Half a second is what it gets."""

    bed.nvml.hung.add(ADDRESSES[0])
    bed.xid(74)
    took_s, sick = await bed.until(bool, most_s=2)

    assert (took_s, sick) == (0.5, {NAMES[0]: "xid-74"})


async def test_gpu_that_is_slow_after_an_xid_is_not_silent(
    bed: Bed, autojump_clock: MockClock
) -> None:
    """It has as long to answer as ever, though who asks first waits for less."""

    bed.nvml.hung.add(ADDRESSES[0])
    bed.xid(13)
    await trio.sleep(3)
    bed.nvml.return_all()
    await trio.sleep(10)

    assert bed.sick() == {}
    assert bed.verdict().causes == 0


async def test_classes_are_the_operators(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    """What is to be ignored is counted all the same."""

    bed = Bed(table=XidTable(ignore=(48,), fault=(13,)))
    await nursery.start(bed.run)
    await bed.until(nobody, most_s=1)
    bed.xid(48, 1)
    bed.xid(13, 2)
    await trio.sleep(1)

    assert bed.sick() == {NAMES[2]: "xid-13"}
    assert Xid(address=ADDRESSES[1], code=48, xid_class=XidClass.IGNORE) in bed.watch.journal.xids


async def test_degraded_gpu_is_given_and_says_so(bed: Bed, autojump_clock: MockClock) -> None:
    """For an hour."""

    bed.xid(63)
    await trio.sleep(60)
    assert bed.verdict().is_degraded
    assert bed.verdict().reason == "xid-63"

    await trio.sleep(3600)

    assert not bed.verdict().is_degraded


async def test_lesser_event_does_not_hide_a_worse_one(bed: Bed, autojump_clock: MockClock) -> None:
    """Nor make the device healthy (F2)."""

    bed.nvml.answers[ADDRESSES[0]] = MUTE
    bed.xid(79)
    await trio.sleep(1)
    bed.xid(13)
    bed.xid(63)
    await trio.sleep(60)

    assert bed.sick() == {NAMES[0]: "xid-79"}
    assert bed.verdict().severity is Severity.LOST


async def test_gpu_that_hangs_is_told_and_keeps_nobody_else_waiting(
    bed: Bed, autojump_clock: MockClock
) -> None:
    """An hour of it: one call is out, the others are asked as ever, and a stop is at once (T4, F5).

    When the call returns after all, the GPU heals.
    """

    bed.nvml.hung.add(ADDRESSES[3])
    took_s, sick = await bed.until(bool, most_s=11)
    assert took_s <= 10
    assert sick == {NAMES[3]: "no-answer"}
    before = dict(bed.nvml.begun)
    version = bed.health.state.version
    message = bed.verdict(3).message

    await trio.sleep(3600)

    assert bed.nvml.begun[ADDRESSES[3]] == before[ADDRESSES[3]]
    assert bed.sick() == {NAMES[3]: "no-answer"}
    assert bed.verdict(3).message == message
    assert bed.health.state.version - version <= 3600 / 5 * 2
    gaps = times(bed.nvml.asked, ADDRESSES[4], "probe")[-700:]
    assert max(b - a for a, b in pairwise(gaps)) <= 6

    bed.nvml.return_all()
    took_s, _ = await bed.until(nobody, most_s=60)
    assert 30 <= took_s <= 46


async def test_library_that_is_held_up_condemns_nobody_else(
    bed: Bed, autojump_clock: MockClock
) -> None:
    """The one whose call is out longest is to blame; of the others nothing is known (T4)."""

    bed.nvml.lock = True
    bed.nvml.hung.add(ADDRESSES[0])
    await trio.sleep(3600)

    assert bed.unhealthy() == {NAMES[0]: "no-answer"}
    assert bed.sick().keys() == {*NAMES, *PART_NAMES}
    assert "held up" in bed.verdict(1).message
    assert bed.nvml.begun.most_common(1)[0][1] < 10

    bed.nvml.return_all()
    await bed.until(nobody, most_s=60)


async def test_two_that_hang_by_themselves_are_both_told(
    bed: Bed, autojump_clock: MockClock
) -> None:
    """Neither later than the other: a third that answers shows that none holds another up."""

    bed.nvml.hung |= {ADDRESSES[0], ADDRESSES[1]}
    began_s = trio.current_time()
    with trio.fail_after(11):
        await bed.health.state.wait_value(lambda _: len(bed.unhealthy()) == 2)

    assert trio.current_time() - began_s <= 10
    assert bed.unhealthy() == {NAMES[0]: "no-answer", NAMES[1]: "no-answer"}
    assert bed.sick().keys() == bed.unhealthy().keys()


async def test_gpu_that_hangs_since_the_start_is_silent_and_not_lost(
    bed: Bed, autojump_clock: MockClock
) -> None:
    """NVML does not name it, but lists one that does not say who it is (F5)."""

    bed.nvml.hang_nameless()
    bed.nvml.answers[ADDRESSES[3]] = Refusal.of(28)
    await bed.until(bool, most_s=16)
    await trio.sleep(60)
    assert bed.unhealthy() == {NAMES[3]: "no-answer"}

    bed.nvml.return_all()
    await trio.sleep(20)
    assert bed.unhealthy() == {NAMES[3]: "lost"}


async def test_stop_does_not_wait_for_what_hangs(autojump_clock: MockClock) -> None:
    """Nothing here is shielded (T4)."""

    it = Bed()
    async with trio.open_nursery() as running:
        await running.start(it.run)
        it.nvml.hung.add(ADDRESSES[0])
        await trio.sleep(20)
        stopped_s = trio.current_time()
        running.cancel_scope.cancel()

    assert trio.current_time() - stopped_s <= 2


async def test_one_lost_gpu_of_eight_is_lost_alone(bed: Bed, autojump_clock: MockClock) -> None:
    """By the event, or by the next answer (F4)."""

    bed.nvml.answers[ADDRESSES[2]] = Refusal.of(15)
    bed.tell(NvmlEvent(kind=EventKind.LOST, address=ADDRESSES[2]))
    bed.nvml.answers[ADDRESSES[5]] = Refusal.of(15)
    await wait_all_tasks_blocked()
    assert bed.sick() == {NAMES[2]: "lost"}
    await trio.sleep(6)
    assert bed.sick() == {NAMES[2]: "lost", NAMES[5]: "lost"}
    assert bed.verdict(2).severity is Severity.LOST
    asked = len(bed.nvml.asked)
    await trio.sleep(100)
    assert len(bed.nvml.asked) - asked <= 21 * 8

    bed.nvml.answers.update(dict.fromkeys(ADDRESSES, WELL))
    took_s, _ = await bed.until(nobody, most_s=60)
    assert 30 <= took_s <= 46


@pytest.mark.parametrize("sign", [ABSENT, FunctionSight(answers=False)])
async def test_gpu_that_falls_off_the_bus_is_lost_without_any_event(
    bed: Bed, autojump_clock: MockClock, sign: FunctionSight
) -> None:
    """Whatever NVML says, or when it hangs, or is not open at all (F6)."""

    bed.nvml.hung.add(ADDRESSES[1])
    bed.bus.signs = dict.fromkeys(ADDRESSES[:2], sign)
    took_s, _ = await bed.until(lambda sick: len(sick) == 2, most_s=10)
    assert took_s <= 5
    await trio.sleep(20)
    assert bed.sick() == {NAMES[0]: "lost", NAMES[1]: "lost"}
    assert "PCI function" in bed.verdict().message
    bed.nvml.be(Session(state=SessionState.RELEASED))
    await trio.sleep(60)
    assert bed.unhealthy() == {NAMES[0]: "lost", NAMES[1]: "lost"}

    bed.nvml.be(UP)
    bed.nvml.return_all()
    bed.bus.signs.clear()
    await bed.until(nobody, most_s=90)


async def test_bus_that_does_not_answer_says_nothing(bed: Bed, autojump_clock: MockClock) -> None:
    """NVML's word is enough."""

    bed.bus.signs = dict.fromkeys(ADDRESSES, NoAnswer(purpose="config", open_s=BUS_S))
    await trio.sleep(100)

    assert bed.sick() == {}


async def test_session_that_was_given_up_leaves_gpus_unknown(
    bed: Bed, autojump_clock: MockClock
) -> None:
    """With the reason, and what is known to be wrong stays."""

    bed.xid(48)
    await wait_all_tasks_blocked()
    bed.nvml.be(Session(state=SessionState.RELEASED))
    await trio.sleep(120)

    assert bed.unhealthy() == {NAMES[0]: "xid-48"}
    assert bed.sick().keys() == {*NAMES, *PART_NAMES}
    assert "released" in bed.verdict(1).message


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (SessionState.MISMATCH, "driver-mismatch"),
        (SessionState.DRIVER_ABSENT, "driver-absent"),
        (SessionState.LIBRARY_ABSENT, "library-absent"),
        (SessionState.FAILED, "nvml-failed"),
    ],
)
async def test_driver_that_cannot_be_spoken_with_is_a_fault_of_all(
    bed: Bed, autojump_clock: MockClock, state: SessionState, reason: str
) -> None:
    """Until it can (F9)."""

    bed.nvml.be(Session(state=state, detail="as the test says"))
    await trio.sleep(6)
    assert bed.unhealthy() == dict.fromkeys((*NAMES, *PART_NAMES), reason)
    assert "as the test says" in bed.verdict().message

    bed.nvml.be(UP)
    await bed.until(nobody, most_s=60)


async def test_session_that_is_let_go_of_for_a_moment_is_waited_for(
    bed: Bed, autojump_clock: MockClock
) -> None:
    """As when a claim has a GPU bound otherwise: the others are what they were."""

    for _ in range(4):
        bed.nvml.be(Session(state=SessionState.RELEASED))
        await trio.sleep(8)
        assert bed.sick() == {}
        bed.nvml.be(UP)
        await trio.sleep(5)
    asked = times(bed.nvml.asked, ADDRESSES[0], "probe")
    bed.nvml.be(Session(state=SessionState.RELEASED))
    took_s, _ = await bed.until(bool, most_s=20)

    assert 10 <= took_s <= 15
    assert len(asked) < 40


async def test_odd_error_is_a_fault_the_third_time(bed: Bed, autojump_clock: MockClock) -> None:
    """Until then the GPU is what it was."""

    bed.nvml.answers[ADDRESSES[0]] = Refusal.of(999)
    await trio.sleep(9)
    assert bed.sick() == {}
    took_s, sick = await bed.until(bool, most_s=10)
    assert took_s <= 6
    assert sick == {NAMES[0]: "nvml-999"}


async def test_fault_without_a_field_stays_until_the_driver_is_bound_anew(
    bed: Bed, autojump_clock: MockClock
) -> None:
    """Of which the link to the driver tells."""

    bed.nvml.answers[ADDRESSES[0]] = MUTE
    bed.xid(48)
    await trio.sleep(300)
    assert bed.sick() == {NAMES[0]: "xid-48"}

    bed.bus.signs[ADDRESSES[0]] = attrs.evolve(BOUND, binding=0, driver="")
    await trio.sleep(6)
    bed.bus.signs[ADDRESSES[0]] = attrs.evolve(BOUND, binding=2)
    took_s, _ = await bed.until(nobody, most_s=60)
    assert 30 <= took_s <= 46


async def test_operator_clears_what_nothing_else_does(bed: Bed, autojump_clock: MockClock) -> None:
    """It does not come back by the next answer."""

    bed.nvml.answers[ADDRESSES[0]] = MUTE
    bed.xid(48)
    await trio.sleep(60)
    assert await bed.health.clear(NAMES[0], "xid-48") == ("xid-48",)
    await trio.sleep(60)

    assert bed.sick() == {}


async def test_failed_remap_is_cleared_by_nobody_but_a_person(
    bed: Bed, autojump_clock: MockClock
) -> None:
    """And comes back as long as the card says so."""

    bed.nvml.answers[ADDRESSES[0]] = Probe(fields={ACTION: 0, 145: 1})
    await trio.sleep(6)
    bed.nvml.answers[ADDRESSES[0]] = WELL
    await trio.sleep(600)
    assert bed.sick() == {NAMES[0]: "remap-failure"}

    await bed.health.clear(NAMES[0], "remap-failure")
    await trio.sleep(60)

    assert bed.sick() == {}


async def test_another_card_does_not_inherit_what_was_found(
    bed: Bed, autojump_clock: MockClock
) -> None:
    """Neither while we watch, nor when it came while the node was off."""

    bed.nvml.answers[ADDRESSES[0]] = Probe(fields={ACTION: 0, 145: 1})
    await trio.sleep(6)
    bed.nvml.answers[ADDRESSES[0]] = WELL
    bed.gpus.layouts.set((layout(0, uuid="GPU-new"), *map(layout, range(1, 8))))
    await trio.sleep(6)
    assert bed.sick() == {}

    bed.health.report(layout(1).subject, "nvml", [_remap_failure()], asked=False)
    bed.gpus.layouts.set(tuple(layout(number) for number in range(2, 8)))
    await wait_all_tasks_blocked()
    bed.health.report(layout(1).subject, "nvml", [_remap_failure()], asked=False)
    bed.gpus.layouts.set((layout(1, swapped=True), *map(layout, range(2, 8))))
    await trio.sleep(6)

    assert NAMES[1] not in bed.sick()


def _remap_failure() -> Finding:
    return Finding(code="remap-failure", severity=Severity.FAULT, message="-", permanent=True)


async def test_missed_events_are_asked_for_and_condemn_nobody(
    bed: Bed, autojump_clock: MockClock
) -> None:
    """An overflow, a new set, and an event of a GPU that nobody knows."""

    for event, count in (
        (NvmlEvent(kind=EventKind.OVERFLOW), 8),
        (NvmlEvent(kind=EventKind.REGISTERED, address=ADDRESSES[0]), 1),
        (NvmlEvent(kind=EventKind.XID, type=8, data=79), 8),
    ):
        bed.nvml.asked.clear()
        bed.tell(event)
        await trio.sleep(0.3)
        assert len(bed.nvml.asked) == count
        await trio.sleep(1)
    assert bed.sick() == {}


async def test_gpu_that_nvml_lists_late_is_asked_when_it_does(
    bed: Bed, autojump_clock: MockClock
) -> None:
    """Not only in the next round: until then nobody knows how it is."""

    bed.nvml.answers[ADDRESSES[0]] = Refusal.of(28)
    bed.gpus.layouts.set((layout(0, uuid=""), *map(layout, range(1, 8))))
    await wait_all_tasks_blocked()
    assert bed.sick() == {NAMES[0]: "cannot-ask"}
    bed.nvml.answers[ADDRESSES[0]] = WELL
    bed.gpus.layouts.set(tuple(map(layout, range(8))))
    took_s, _ = await bed.until(nobody, most_s=1)

    assert took_s == 0


async def test_storm_of_xids_asks_little(bed: Bed, autojump_clock: MockClock) -> None:
    """A thousand in a second."""

    bed.nvml.asked.clear()
    for _ in range(1000):
        bed.xid(13)
        await trio.sleep(0.001)

    assert len(times(bed.nvml.asked, ADDRESSES[0], "classify")) <= 5
    assert sum(bed.watch.journal.xids.values()) == 1000


async def test_new_layout_keeps_what_concerns_its_parts(
    bed: Bed, autojump_clock: MockClock
) -> None:
    """A part that is gone has no findings any more; one that stays has its own."""

    bed.nvml.answers[ADDRESSES[PARTED]] = MUTE
    bed.xid(48, PARTED, gi=7, ci=0)
    bed.xid(48, PARTED, gi=9, ci=0)
    await wait_all_tasks_blocked()
    left = {ids: part for ids, part in PARTS.items() if ids != (9, 0)}
    bed.gpus.layouts.set((*map(layout, range(7)), layout(PARTED, parts=left)))
    await trio.sleep(6)

    assert bed.sick() == {PART_NAMES[0]: "xid-48"}
    assert bed.health.standing(PARTS[9, 0], "nvml") == ()


async def test_gpu_that_is_gone_is_watched_no_more(bed: Bed, autojump_clock: MockClock) -> None:
    """A probe that returns late tells nothing of it."""

    bed.nvml.hung.add(ADDRESSES[0])
    bed.xid(48, PARTED, gi=7, ci=0)
    await trio.sleep(6)
    bed.gpus.layouts.set(tuple(layout(number) for number in range(1, PARTED)))
    await trio.sleep(6)
    bed.nvml.return_all()
    await trio.sleep(60)

    assert bed.sick() == dict.fromkeys((NAMES[0], NAMES[PARTED], *PART_NAMES), "unasked")
    assert not any(part in bed.health.courses for part in PARTS.values())
    assert layout(0).subject not in bed.health.courses
    assert layout(0).subject not in bed.watch.figures()


async def test_gpu_is_asked_when_somebody_needs_to_know(
    bed: Bed, autojump_clock: MockClock
) -> None:
    """Its part too, which means the whole."""

    for name in (NAMES[PARTED], PART_NAMES[0]):
        bed.nvml.asked.clear()
        await bed.health.probe_now(name)
        assert [who for _, who, _ in bed.nvml.asked] == [ADDRESSES[PARTED]]


async def test_figures_are_of_the_last_answer(bed: Bed, autojump_clock: MockClock) -> None:
    """For metrics."""

    bed.nvml.answers[ADDRESSES[0]] = Probe(fields={ACTION: 3, 144: 1})
    bed.nvml.answers[ADDRESSES[1]] = MUTE
    bed.tell(NvmlEvent(kind=EventKind.OTHER, type=0x2, address=ADDRESSES[1]))
    await trio.sleep(6)

    figures = bed.watch.figures()
    assert figures[layout(0).subject] == GpuFigures(action=3, remap_pending=True)
    assert figures[layout(1).subject] == GpuFigures(action=None, remap_pending=False)
    assert bed.watch.journal.ecc_errors == {(ADDRESSES[1], "uncorrected"): 1}


async def test_restart_goes_on_with_what_was_found(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Until its own rule heals it, of the whole and of a part (F7)."""

    bed = Bed()
    bed.nvml.answers.update(dict.fromkeys(ADDRESSES, MUTE))
    async with trio.open_nursery() as first:
        await first.start(bed.health.run)
        async with trio.open_nursery() as before:
            await before.start(bed.watch.run)
            bed.xid(48)
            bed.xid(48, PARTED, gi=7, ci=0)
            await trio.sleep(10)
            before.cancel_scope.cancel()
        await bed.restart(first)
        bed.xid(13, PARTED)
        await trio.sleep(300)
        assert bed.sick() == {NAMES[0]: "xid-48", PART_NAMES[0]: "xid-48"}

        bed.nvml.answers.update(dict.fromkeys(ADDRESSES, WELL))
        took_s, _ = await bed.until(nobody, most_s=60)
        first.cancel_scope.cancel()

    assert 30 <= took_s <= 46


async def test_restart_heals_nothing_and_a_boot_does(tmp_path: Path) -> None:
    """Whoever kills the agent does not cure a GPU (T7, F7); lasting damage outlives a boot."""

    first = Bed(folder=tmp_path)
    async with trio.open_nursery() as running:
        first.nvml.answers[ADDRESSES[1]] = Probe(fields={145: 1})
        await running.start(first.run)
        first.nvml.answers[ADDRESSES[PARTED]] = MUTE
        first.xid(48, PARTED, gi=7, ci=0)
        await first.until(lambda sick: len(sick) == 2, most_s=5)
        running.cancel_scope.cancel()
    expected = {NAMES[1]: "remap-failure", PART_NAMES[0]: "xid-48"}
    for boot, found in (("boot-1", expected), ("boot-2", {NAMES[1]: "remap-failure"})):
        bed = Bed(folder=tmp_path, boot=boot)
        await bed.health.recall()
        async with trio.open_nursery() as running:
            bed.nvml.answers[ADDRESSES[PARTED]] = MUTE
            await running.start(bed.run)
            _, sick = await bed.until(lambda sick: len(sick) <= 2, most_s=5)
            running.cancel_scope.cancel()

        assert sick == found


async def test_what_nvml_found_is_void_when_the_gpu_is_vfio_pcis_for_good(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """One that NVML does not list yet may be its own still, and stays sick."""

    bed = Bed()
    lost = Finding(code="xid-79", severity=Severity.LOST, message="-")
    for number in range(3):
        bed.health.report(SUBJECTS[number], SOURCE, [lost], asked=False)
    rest = bed.inventory.get().peripherals[2:]
    bound = _function(0, only_counted=False)
    bed.inventory.set(Inventory(peripherals=(bound, _function(1, only_counted=True), *rest)))
    bed.gpus.layouts.set(())
    await nursery.start(bed.run)
    await trio.sleep(1)

    standing = [bool(bed.health.standing(SUBJECTS[number], SOURCE)) for number in range(3)]
    assert standing == [False, True, True]


def _function(number: int, *, only_counted: bool) -> Peripheral:
    return Peripheral(
        identity=f"{SUBJECTS[number]}/vfio",
        name=f"vfio-{number}",
        kind="vfio",
        type="vfio",
        group="",
        keys=(),
        path=ADDRESSES[number],
        only_counted=only_counted,
    )


async def test_answer_of_a_card_that_is_gone_is_no_word_on_the_next(
    bed: Bed, autojump_clock: MockClock
) -> None:
    """A probe may be out while cards are swapped; the new one is asked at once."""

    bed.xid(48)
    await trio.sleep(2)
    bed.nvml.hung.add(ADDRESSES[0])
    await trio.sleep(4)
    bed.gpus.layouts.set((layout(0, uuid="GPU-new"), *map(layout, range(1, 8))))
    await wait_all_tasks_blocked()
    bed.nvml.return_all()
    await trio.sleep(0.2)

    assert bed.health.standing(SUBJECTS[0], SOURCE) == ()
    assert bed.sick() == {}
