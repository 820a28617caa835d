"""The session over the stand-in: order, silence, release, and what is asked of single GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import attrs
import pytest
import trio
import trio.testing

from berth.errors import HostError
from berth.host.nvml.owner import Nvml
from berth.host.nvml.registry import PROBE_S
from berth.host.nvml.session import SessionState
from berth.host.nvml.sight import UNLISTED
from berth.host.nvml.silence import Silence
from berth.host.nvml.values import NoAnswer, Probe, Refusal, Walk
from berth.rehearsal.nvml.world import (
    FOR_EVER,
    LOST,
    CallFault,
    Card,
    Field,
    Process,
    World,
    read_counts,
)
from tests import nvml
from tests.nvml import cards
from tests.unit.host.nvml.conftest import FULL, OTHER, PARTED, Opened, Show, settled

HUNG = attrs.evolve(FULL, hang_ms=FOR_EVER)
"""The first GPU, which no longer answers."""

HOUR_S = 3600


async def only_open(owner: Nvml, *keys: str) -> None:
    """Wait until the calls of these alone are out."""
    while {call.key for call in owner.statistics().calls.open} != set(keys):
        await trio.testing.wait_all_tasks_blocked(0.01)


async def inside(tmp_path: Path, address: str) -> None:
    """Wait until a call on a GPU is within the library, and has its lock."""
    while read_counts(tmp_path / "world")[address].open == 0:
        await trio.testing.wait_all_tasks_blocked(0.01)
    await trio.testing.wait_all_tasks_blocked(0.05)


async def judged(owner: Nvml, clock: trio.testing.MockClock) -> Mapping[str, Silence]:
    """What the silence of GPUs means, where a second passes when that takes so long."""
    found: list[Mapping[str, Silence]] = []

    async def judge() -> None:
        found.append(await owner.silences())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(judge)
        await trio.testing.wait_all_tasks_blocked(0.01)
        clock.jump(1)
    return found[0]


async def test_order_and_minors_change_no_gpu(opened: Opened, show: Show) -> None:
    """Shuffled, with other minor numbers, each is the same at its address (T2)."""

    async with opened(hold=False) as owner:
        before = (await owner.walk()).gpus
    show(cards(attrs.evolve(OTHER, minor=0), attrs.evolve(FULL, minor=9), PARTED))
    async with opened(hold=False) as owner:
        after = (await owner.walk()).gpus

    assert [gpu.uuid for gpu in before] == [gpu.uuid for gpu in after]
    assert [gpu.minor for gpu in after] == [9, 1, 0]


async def test_gpu_that_is_lost_at_start_is_nameless(opened: Opened, show: Show) -> None:
    """The others are all there; which one it is the PCI inventory knows (T2)."""

    show(cards(OTHER, attrs.evolve(FULL, error=LOST), PARTED))
    async with opened(hold=False) as owner:
        found = await owner.walk()

    assert [gpu.address for gpu in found.gpus] == [PARTED.address, OTHER.address]
    assert found.nameless == ("index 1: the GPU is lost (15)",)


async def test_gpu_that_was_lost_at_start_is_found_when_it_is_asked(
    opened: Opened, show: Show
) -> None:
    """At the next probe, not at the next walk; whoever keeps the GPUs is told to walk."""

    show(cards(OTHER, attrs.evolve(FULL, error=LOST), PARTED))
    async with opened() as owner:
        version = owner.version
        lost = await owner.probe(FULL.address)
        assert (lost, owner.version) == (UNLISTED, version)

        show(cards(OTHER, FULL, PARTED))
        found = await owner.probe(FULL.address)
        assert isinstance(found, Probe)
        assert owner.version == version + 1
        events = [await owner.receive_event() for _ in range(3)]

    assert FULL.address in {event.address for event in events}


async def test_gpu_that_is_lost_later_is_as_it_was(opened: Opened, show: Show) -> None:
    """With what it says now."""

    async with opened() as owner:
        before = (await owner.walk()).gpus[0]
        show(cards(attrs.evolve(FULL, error=LOST), PARTED, OTHER))
        after = (await owner.walk()).gpus[0]

    assert after == attrs.evolve(before, missing={"answer": "the GPU is lost (15)"})


async def hang_for_an_hour(
    owner: Nvml, show: Show, clock: trio.testing.MockClock, *, lock: bool
) -> None:
    """Let the first GPU hang, and probe all of them every 30 s for an hour, as the agent would."""
    show(World(cards=(HUNG, PARTED, OTHER), lock=lock))
    for _ in range(HOUR_S // 30):
        async with trio.open_nursery() as nursery:
            for card in (FULL, PARTED, OTHER):
                nursery.start_soon(owner.probe, card.address)
            silent = {card.address for card in (FULL, PARTED, OTHER)} if lock else {FULL.address}
            while {call.key for call in owner.statistics().calls.open} - {"library"} != silent:
                await trio.testing.wait_all_tasks_blocked(0.01)
            clock.jump(4)
        await judged(owner, clock)
        clock.jump(25)


async def test_gpu_that_hangs_for_ever_stands_alone(
    opened: Opened, show: Show, mock_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    """The others answer as ever, one worker is stuck, and the stop waits for nothing (T4)."""

    async with opened() as owner:
        await owner.walk()
        await hang_for_an_hour(owner, show, mock_clock, lock=False)
        answer = await owner.probe(FULL.address)
        other = await owner.probe(OTHER.address)
        out = owner.statistics().calls.open
        silences = await owner.silences()
        state = owner.session.state
        counts = read_counts(tmp_path / "world")[FULL.address]
        mock_clock.autojump_threshold = 0
        before_s = trio.current_time()

    assert isinstance(answer, NoAnswer)
    assert answer.open_s == pytest.approx(HOUR_S, abs=30)
    assert isinstance(other, Probe)
    assert [call.key for call in out] == [FULL.address]
    assert silences == {FULL.address: Silence.NO_ANSWER}
    assert state is SessionState.UP
    assert (counts.open, counts.most) == (1, 1)
    assert trio.current_time() - before_s <= 2


async def test_lock_of_the_whole_library_condemns_one_gpu(
    opened: Opened, show: Show, mock_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    """Of the others nothing is known, however long it takes (T4)."""

    async with opened() as owner:
        await owner.walk()
        show(World(cards=(HUNG, PARTED, OTHER), lock=True))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(owner.probe, FULL.address)
            await only_open(owner, FULL.address)
            await inside(tmp_path, FULL.address)
            mock_clock.jump(1)
            nursery.start_soon(owner.probe, PARTED.address)
            nursery.start_soon(owner.probe, OTHER.address)
            await only_open(owner, FULL.address, PARTED.address, OTHER.address)
            mock_clock.jump(4)
        await hang_for_an_hour(owner, show, mock_clock, lock=True)
        silences = await judged(owner, mock_clock)
        state = owner.session.state
        mock_clock.autojump_threshold = 0
        before_s = trio.current_time()

    assert silences == {
        FULL.address: Silence.NO_ANSWER,
        PARTED.address: Silence.STALLED,
        OTHER.address: Silence.STALLED,
    }
    assert state is SessionState.STALLED
    assert trio.current_time() - before_s <= 2


async def test_two_that_hang_are_both_silent_when_a_third_answers(
    opened: Opened, show: Show, mock_clock: trio.testing.MockClock
) -> None:
    """As soon as the second is late: nobody waits for the patience with it to end (GH §6.6)."""

    async with opened() as owner:
        await owner.walk()
        show(cards(HUNG, attrs.evolve(PARTED, hang_ms=FOR_EVER), OTHER))
        async with trio.open_nursery() as nursery:
            for address in (FULL.address, PARTED.address):
                nursery.start_soon(owner.probe, address)
            await only_open(owner, FULL.address, PARTED.address)
            mock_clock.jump(PROBE_S)
        silences = await owner.silences()

    assert silences == dict.fromkeys((FULL.address, PARTED.address), Silence.NO_ANSWER)


async def test_two_that_hang_alone_are_both_silent_when_the_library_answers(
    opened: Opened, show: Show, mock_clock: trio.testing.MockClock
) -> None:
    """There is no third to be asked; one that is lost says nothing of the others."""

    async with opened() as owner:
        await owner.walk()
        lost = attrs.evolve(OTHER, error=LOST)
        show(cards(HUNG, attrs.evolve(PARTED, hang_ms=FOR_EVER), lost))
        async with trio.open_nursery() as nursery:
            for address in (FULL.address, PARTED.address):
                nursery.start_soon(owner.probe, address)
            await only_open(owner, FULL.address, PARTED.address)
            mock_clock.jump(PROBE_S)
        silences = await owner.silences()

    assert silences == dict.fromkeys((FULL.address, PARTED.address), Silence.NO_ANSWER)


async def test_walk_past_its_deadline_gives_the_others(
    opened: Opened, show: Show, mock_clock: trio.testing.MockClock
) -> None:
    """The GPU that hangs is as it was; when it comes back the next walk has it anew."""

    slow = attrs.evolve(FULL, faults=(CallFault(call="nvmlDeviceGetName", hang_ms=FOR_EVER),))
    found: list[Walk] = []
    async with opened() as owner:
        before = (await owner.walk()).gpus[0]
        show(cards(slow, PARTED, OTHER))

        async def walk() -> None:
            found.append(await owner.walk())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(walk)
            await trio.testing.wait_all_tasks_blocked(0.05)
            await only_open(owner, FULL.address)
            mock_clock.jump(10)
        show(cards(attrs.evolve(FULL, name="NVIDIA H200"), PARTED, OTHER))
        await only_open(owner)
        last = await owner.walk()

    assert found[0].gpus[0] == attrs.evolve(
        before, missing={"answer": "no answer to walk for 10 s"}
    )
    assert [gpu.missing for gpu in found[0].gpus[1:]] == [{}, {}]
    assert last.gpus[0].name == "NVIDIA H200"


@pytest.mark.parametrize(
    "card",
    [HUNG, attrs.evolve(FULL, faults=(CallFault(call="nvmlDeviceGetName", hang_ms=FOR_EVER),))],
    ids=["when it is named", "in the midst of it"],
)
async def test_gpu_that_hangs_while_it_is_walked_is_silent_as_soon_as_in_a_probe(
    opened: Opened, show: Show, mock_clock: trio.testing.MockClock, card: Card
) -> None:
    """What is out for it is a longer question, but none of its steps takes longer."""

    answers: list[Probe | Refusal | NoAnswer] = []

    async def probe(owner: Nvml) -> None:
        answers.append(await owner.probe(FULL.address))

    async with opened() as owner:
        await owner.walk()
        show(cards(card, PARTED, OTHER))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(owner.walk)
            await trio.testing.wait_all_tasks_blocked(0.05)
            await only_open(owner, FULL.address)
            mock_clock.jump(1)
            nursery.start_soon(probe, owner)
            await trio.testing.wait_all_tasks_blocked(0.05)
            mock_clock.jump(PROBE_S)
            await trio.testing.wait_all_tasks_blocked(0.05)
            found = await owner.silences()
            show(cards(FULL, PARTED, OTHER))

    assert [type(answer) for answer in answers] == [NoAnswer]
    assert found == {FULL.address: Silence.NO_ANSWER}


async def test_probe_gives_each_field_its_own_answer(opened: Opened, show: Show) -> None:
    """What is not supported is left out; an error of one field is that field's."""

    fields = {230: Field(value=1), 144: Field(value=1 << 40), 145: Field(result=999)}
    show(cards(attrs.evolve(FULL, fields=fields)))
    async with opened(hold=False) as owner:
        answer = await owner.probe(FULL.address)

    assert answer == Probe(fields={230: 1, 144: 1 << 40}, refused={145: Refusal.of(999)})


async def test_probe_without_fields_asks_for_a_sign_of_life(opened: Opened, show: Show) -> None:
    """Its memory; when that fails, the GPU is not well."""

    show(cards(attrs.evolve(FULL, fields={}), OTHER))
    async with opened(hold=False) as owner:
        well = await owner.probe(FULL.address)
        fault = CallFault(call="nvmlDeviceGetMemoryInfo", result=16)
        show(cards(attrs.evolve(FULL, fields={}, faults=(fault,)), OTHER))
        ill = await owner.classify(FULL.address)

    assert well == Probe()
    assert ill == Refusal.of(16)


async def test_gpu_that_is_not_listed_is_refused(opened: Opened) -> None:
    """Without a call."""

    async with opened(hold=False) as owner:
        answer = await owner.probe("0000:99:00.0")
        gpu = await owner.describe("0000:99:00.0")

    assert isinstance(answer, Refusal)
    assert gpu.missing == {"answer": "NVML does not list it"}


async def test_one_gpu_is_looked_at_anew(opened: Opened, show: Show) -> None:
    """After a change of its MIG layout."""

    async with opened(hold=False) as owner:
        await owner.walk()
        mig = attrs.evolve(PARTED.mig, parts=PARTED.mig.parts[1:]) if PARTED.mig else None
        show(cards(FULL, attrs.evolve(PARTED, mig=mig), OTHER))
        gpu = await owner.describe(PARTED.address)

    assert [device.gi_id for device in gpu.mig_devices] == [9]


async def test_released_session_is_closed_and_taken_up_at_a_bind(opened: Opened) -> None:
    """Between the two nothing is asked, and the library has no session."""

    async with opened() as owner:
        await owner.release(600)
        state, walk = owner.session.state, await owner.walk()
        answer = await owner.probe(FULL.address)
        closed = not owner._library._ready
        owner.notice(functions=3, bind=True)
        await settled(owner)
        again = await owner.walk()
        statistics = owner.statistics()

    assert state is SessionState.RELEASED
    assert (walk, answer, closed) == (Walk(), Refusal.of(1), True)
    assert len(again.gpus) == 3
    assert statistics.sessions == 2
    assert len(statistics.listening) == 3


async def test_release_ends_by_itself(opened: Opened, mock_clock: trio.testing.MockClock) -> None:
    """When its time is over."""

    async with opened() as owner:
        await owner.release(600)
        version = owner.version
        mock_clock.jump(600)
        await owner.wait_session_changed(version)
        state = owner.session.state

    assert state is SessionState.UP


async def test_release_waits_for_a_walk(opened: Opened, show: Show) -> None:
    """No call is made in a session that is being closed."""

    slow = [attrs.evolve(card, hang_ms=10) for card in (FULL, PARTED, OTHER)]
    found: list[Walk] = []
    async with opened() as owner:

        async def walk() -> None:
            found.append(await owner.walk())

        show(cards(*slow))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(walk)
            await trio.testing.wait_all_tasks_blocked()
            await owner.release(600)

    assert [gpu.missing for gpu in found[0].gpus] == [{}, {}, {}]


async def test_machine_that_lost_its_gpus_takes_nothing_up(
    opened: Opened, mock_clock: trio.testing.MockClock
) -> None:
    """After a release there is no session, and no timer."""

    async with opened() as owner:
        await owner.release(600)
        owner.notice(functions=0)
        version = owner.version
        mock_clock.jump(600)
        await owner.wait_session_changed(version)
        session = owner.session

    assert (session.state, session.due_s) == (SessionState.NO_GPU, None)


async def test_owner_that_begins_again_opens_a_new_session(show: Show) -> None:
    """As after a defect: the first run gave its session up."""

    owner = Nvml(library=str(nvml.library()))
    for _ in range(2):
        async with trio.open_nursery() as nursery:
            await nursery.start(owner.run)
            owner.notice(functions=3)
            await settled(owner)
            gpus = (await owner.walk()).gpus
            nursery.cancel_scope.cancel()
        assert not owner._library._ready

    assert len(gpus) == 3
    assert owner.statistics().sessions == 2


async def test_release_under_a_call_that_hangs_is_refused(
    opened: Opened, show: Show, mock_clock: trio.testing.MockClock
) -> None:
    """It names the GPU, and the session stays as it was."""

    async with opened() as owner:
        await owner.walk()
        show(cards(HUNG, PARTED, OTHER))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(owner.probe, FULL.address)
            await only_open(owner, FULL.address)
            mock_clock.jump(4)
        with pytest.raises(HostError, match=r"no answer from 0000:3b:00\.0"):
            await owner.release(600)
        state = owner.session.state
        other = await owner.probe(OTHER.address)

    assert state is SessionState.UP
    assert isinstance(other, Probe)


async def test_driver_that_goes_while_the_session_is_not_held_is_told(
    opened: Opened, show: Show, mock_clock: trio.testing.MockClock
) -> None:
    """Whoever asks next finds out; it is tried again as after any refusal of init (T3)."""

    async with opened(hold=False) as owner:
        version = owner.version
        show(World(cards=(FULL,), init_error=9))
        walk = await owner.walk()
        await owner.wait_session_changed(version)
        gone = owner.session
        version = owner.version
        show(cards(FULL))
        mock_clock.jump(60)
        await owner.wait_session_changed(version)
        state = owner.session.state
        again = await owner.walk()

    assert (walk, gone.state) == (Walk(), SessionState.DRIVER_ABSENT)
    assert "the driver is not loaded (9)" in gone.detail
    assert state is SessionState.UP
    assert [gpu.uuid for gpu in again.gpus] == [FULL.uuid]


async def test_session_that_is_not_held_is_open_for_each_question_only(
    opened: Opened,
) -> None:
    """And hears no events."""

    async with opened(hold=False) as owner:
        closed = [not owner._library._ready]
        walk = await owner.walk()
        closed.append(not owner._library._ready)
        answer = await owner.probe(FULL.address)
        closed.append(not owner._library._ready)
        statistics = owner.statistics()

    assert closed == [True, True, True]
    assert len(walk.gpus) == 3
    assert isinstance(answer, Probe)
    assert (statistics.sessions, statistics.listening) == (3, ())


async def test_last_gpu_that_goes_ends_the_session(opened: Opened) -> None:
    """Without a timer."""

    async with opened() as owner:
        owner.notice(functions=0)
        while owner._library._ready:
            await trio.testing.wait_all_tasks_blocked(0.01)
        session = owner.session

    assert (session.state, session.due_s) == (SessionState.NO_GPU, None)


async def test_init_that_hangs_is_stalled_until_it_returns(
    show: Show, mock_clock: trio.testing.MockClock
) -> None:
    """Nobody has to notice that it did."""

    show(attrs.evolve(cards(FULL), init_hang_ms=FOR_EVER))
    owner = Nvml(library=str(nvml.library()))
    async with trio.open_nursery() as nursery:
        await nursery.start(owner.run)
        owner.notice(functions=1)
        await only_open(owner, "library")
        mock_clock.jump(10)
        await trio.testing.wait_all_tasks_blocked(0.01)
        stalled = owner.session
        version = owner.version
        show(cards(FULL))
        while owner.session.state is not SessionState.UP:
            version = await owner.wait_session_changed(version)
        gpus = (await owner.walk()).gpus
        nursery.cancel_scope.cancel()

    assert stalled.state is SessionState.STALLED
    assert stalled.detail == "no answer to init for 10 s"
    assert [gpu.address for gpu in gpus] == [FULL.address]


async def test_mismatch_has_no_successor_without_a_module(show: Show) -> None:
    """The file that is mapped is the one on disk, and no module runs here."""

    show(attrs.evolve(cards(FULL), init_error=18))
    owner = Nvml(library=str(nvml.library()))
    async with trio.open_nursery() as nursery:
        await nursery.start(owner.run)
        owner.notice(functions=1)
        await settled(owner)
        state, successor = owner.session.state, await owner.successor()
        nursery.cancel_scope.cancel()

    assert (state, successor) == (SessionState.MISMATCH, "")


async def test_processes_on_a_gpu_are_told(opened: Opened, show: Show) -> None:
    """Each once, those of its parts too; who does not answer, says so."""

    first = attrs.evolve(FULL, processes=(Process(pid=9), Process(pid=7)))
    parts = tuple(Process(pid=pid, gi=gi, ci=0) for pid, gi in ((3, 7), (3, 9), (4, 9)))
    second = attrs.evolve(PARTED, processes=parts)
    show(cards(first, second, OTHER))
    async with opened() as owner:
        await owner.walk()
        told = [await owner.processes(card.address) for card in (FULL, PARTED, OTHER)]
        unknown = await owner.processes("0000:ff:00.0")
        show(cards(attrs.evolve(FULL, error=LOST)))
        lost = await owner.processes(FULL.address)
        show(cards(FULL))
        await owner.release(60)
        closed = await owner.processes(FULL.address)

    assert told == [(7, 9), (3, 4), ()]
    assert (lost, closed) == (Refusal.of(LOST), Refusal.of(1))
    assert isinstance(unknown, Refusal)
