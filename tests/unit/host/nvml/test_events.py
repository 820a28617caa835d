"""Events from the stand-in to the one who reads them."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
import trio
import trio.testing

from berth.host.nvml.owner import Nvml
from berth.host.nvml.registry import PROBE_S
from berth.host.nvml.values import MIG_CHANGED, XID, EventKind, NvmlEvent, Probe
from berth.rehearsal.nvml.world import FOR_EVER, LOST, Card, Event, World, read_counts
from tests.nvml import cards
from tests.unit.host.nvml.conftest import FULL, OTHER, PARTED, Opened, Show

HUNG = attrs.evolve(PARTED, hang_ms=FOR_EVER)
"""The second GPU, which no longer answers."""


async def registered(owner: Nvml) -> list[str]:
    """Give the addresses of the next events, which must be registrations, in order."""
    events = [await owner.receive_event() for _ in owner.statistics().listening]
    assert {event.kind for event in events} == {EventKind.REGISTERED}
    return sorted(event.address for event in events)


async def test_events_come_with_their_scope(opened: Opened, show: Show) -> None:
    """An XID of a part, one of the whole GPU, a change of layout."""

    async with opened() as owner:
        assert await registered(owner) == [FULL.address, PARTED.address, OTHER.address]
        events = (
            Event(sequence=1, type=XID, data=31, gi=7, ci=0),
            Event(sequence=2, type=XID, data=79),
            Event(sequence=3, type=MIG_CHANGED),
            Event(sequence=4, type=0x8000, data=1),
        )
        show(cards(FULL, attrs.evolve(PARTED, events=events), OTHER))
        seen = [await owner.receive_event() for _ in events]

    assert seen == [
        NvmlEvent(kind=EventKind.XID, address=PARTED.address, type=8, data=31, gi=7, ci=0),
        NvmlEvent(kind=EventKind.XID, address=PARTED.address, type=8, data=79),
        NvmlEvent(kind=EventKind.MIG_CHANGED, address=PARTED.address, type=0x100),
        NvmlEvent(kind=EventKind.OTHER, address=PARTED.address, type=0x8000, data=1),
    ]


async def test_handle_that_points_elsewhere_is_known_by_its_uuid(
    opened: Opened, show: Show
) -> None:
    """And by nothing when that is not known either."""

    async with opened() as owner:
        await registered(owner)
        listener = owner._hearing._listener
        assert listener is not None
        listener._addresses = {}
        first, second = Event(sequence=1, type=XID), Event(sequence=2, type=XID)
        show(cards(FULL, PARTED, attrs.evolve(OTHER, events=(first,))))
        unknown = await owner.receive_event()
        await owner.walk()
        show(cards(FULL, PARTED, attrs.evolve(OTHER, events=(first, second))))
        known = await owner.receive_event()

    assert (unknown.address, known.address) == ("", OTHER.address)


async def test_gpu_with_few_event_types_is_heard_with_those(opened: Opened, show: Show) -> None:
    """One bit too many would refuse all; a GPU that has none is not heard."""

    show(cards(attrs.evolve(FULL, supported_events=XID), attrs.evolve(OTHER, supported_events=0)))
    async with opened() as owner:
        assert await registered(owner) == [FULL.address]
        event = Event(sequence=1, type=XID, data=13)
        show(cards(attrs.evolve(FULL, supported_events=XID, events=(event,)), OTHER))
        seen = await owner.receive_event()

    assert (seen.kind, seen.data) == (EventKind.XID, 13)


async def test_lost_gpu_is_named_and_the_others_are_heard(opened: Opened, show: Show) -> None:
    """The wait names none, so each is asked; the next set is without it."""

    async with opened() as owner:
        await registered(owner)
        show(cards(attrs.evolve(FULL, error=LOST), PARTED, OTHER))
        seen = [await owner.receive_event() for _ in range(3)]
        event = Event(sequence=1, type=XID, data=13)
        show(cards(attrs.evolve(FULL, error=LOST), PARTED, attrs.evolve(OTHER, events=(event,))))
        last = await owner.receive_event()
        listening = owner.statistics().listening

    assert {(one.kind, one.address) for one in seen} == {
        (EventKind.LOST, FULL.address),
        (EventKind.REGISTERED, PARTED.address),
        (EventKind.REGISTERED, OTHER.address),
    }
    assert (last.address, last.data) == (OTHER.address, 13)
    assert listening == (PARTED.address, OTHER.address)


async def test_gpu_that_came_back_is_heard_again(
    opened: Opened, show: Show, mock_clock: trio.testing.MockClock
) -> None:
    """After a minute, when it answers a probe."""

    async with opened() as owner:
        await registered(owner)
        show(cards(attrs.evolve(FULL, error=LOST), PARTED, OTHER))
        mock_clock.jump(2)
        for _ in range(3):
            await owner.receive_event()
        show(cards(FULL, PARTED, OTHER))
        await owner.probe(FULL.address)
        soon = owner.statistics().listening
        mock_clock.jump(61)
        await owner.probe(FULL.address)
        again = sorted([(await owner.receive_event()).address for _ in range(3)])

    assert soon == (PARTED.address, OTHER.address)
    assert again == [FULL.address, PARTED.address, OTHER.address]


async def heard_without_time(owner: Nvml, show: Show, *others: Card) -> None:
    """The last GPU's next XID is heard though the clock stands still: nobody waits for a hang."""
    event = Event(sequence=1, type=XID, data=13)
    show(cards(*others, attrs.evolve(OTHER, events=(event,))))
    seen = await owner.receive_event()
    assert (seen.kind, seen.address, seen.data) == (EventKind.XID, OTHER.address, 13)


async def test_hang_of_one_keeps_nobody_from_being_heard_when_another_is_lost(
    opened: Opened, show: Show, mock_clock: trio.testing.MockClock
) -> None:
    """The set is made anew at once, and the one that hangs is asked beside it."""

    lost = attrs.evolve(FULL, error=LOST)
    async with opened() as owner:
        await registered(owner)
        mock_clock.jump(2)
        show(cards(lost, HUNG, OTHER))
        seen = [await owner.receive_event() for _ in range(2)]
        assert {(one.kind, one.address) for one in seen} == {
            (EventKind.LOST, FULL.address),
            (EventKind.REGISTERED, OTHER.address),
        }
        await heard_without_time(owner, show, lost, HUNG)
        mock_clock.jump(PROBE_S)


async def test_gpu_that_hangs_from_the_start_keeps_nobody_from_being_heard(
    opened: Opened, show: Show, mock_clock: trio.testing.MockClock
) -> None:
    """It does not even say which one it is."""

    show(cards(FULL, HUNG, OTHER))
    async with opened(settle=False) as owner:
        first = await owner.receive_event()
        second = await owner.receive_event()
        assert {first.address, second.address} == {FULL.address, OTHER.address}
        await heard_without_time(owner, show, FULL, HUNG)
        show(cards(FULL, PARTED, OTHER))


async def test_set_that_ends_is_not_kept_by_one_that_hangs(
    opened: Opened, show: Show, mock_clock: trio.testing.MockClock
) -> None:
    """While one is still waited for, another is lost: the next set is made all the same."""

    lost = attrs.evolve(FULL, error=LOST)
    async with opened() as owner:
        await registered(owner)
        mock_clock.jump(2)
        show(cards(lost, HUNG, OTHER))
        for _ in range(2):
            await owner.receive_event()
        mock_clock.jump(2)
        show(cards(lost, HUNG, attrs.evolve(OTHER, error=LOST)))
        seen = await owner.receive_event()
        mock_clock.jump(PROBE_S)

    assert (seen.kind, seen.address) == (EventKind.LOST, OTHER.address)


async def test_gpu_that_answers_again_comes_into_the_set_of_now(
    opened: Opened, show: Show, mock_clock: trio.testing.MockClock
) -> None:
    """At once, and nothing that the others say meanwhile is lost."""

    lost = attrs.evolve(FULL, error=LOST)
    async with opened() as owner:
        await registered(owner)
        mock_clock.jump(2)
        show(cards(lost, HUNG, OTHER))
        for _ in range(2):
            await owner.receive_event()
        mock_clock.jump(PROBE_S)
        show(cards(lost, PARTED, OTHER))
        while not isinstance(await owner.probe(PARTED.address), Probe):
            await trio.testing.wait_all_tasks_blocked(0.01)
        seen = await owner.receive_event()
        await heard_without_time(owner, show, lost, PARTED)

    assert (seen.kind, seen.address) == (EventKind.REGISTERED, PARTED.address)


@pytest.mark.slow
@pytest.mark.parametrize("world", [World(storm=True), World(wait_error=3)])
async def test_storm_of_returns_does_not_spin(
    opened: Opened, show: Show, world: World, tmp_path: Path
) -> None:
    """Twenty returns, then a pause; events are heard all the same."""

    def waits() -> int:
        return read_counts(tmp_path / "world")["library"].calls

    show(attrs.evolve(world, cards=(FULL,)))
    async with opened() as owner:
        await registered(owner)
        before = waits()
        while waits() < before + 10:
            await trio.testing.wait_all_tasks_blocked(0.01)
        await trio.testing.wait_all_tasks_blocked(0.2)
        assert waits() < before + 500
        event = Event(sequence=1, type=XID, data=13)
        show(attrs.evolve(world, cards=(attrs.evolve(FULL, events=(event,)),)))
        seen = await owner.receive_event()

    assert seen.data == 13


async def test_broken_set_is_made_anew(
    opened: Opened, show: Show, mock_clock: trio.testing.MockClock
) -> None:
    """After a pause, since it may be broken again."""

    async with opened() as owner:
        await registered(owner)
        show(attrs.evolve(cards(FULL, PARTED, OTHER), wait_error=999))
        while owner._hearing.due_s is None:
            await trio.testing.wait_all_tasks_blocked(0.01)
        show(cards(FULL, PARTED, OTHER))
        mock_clock.jump(1)
        again = await registered(owner)

    assert len(again) == 3
