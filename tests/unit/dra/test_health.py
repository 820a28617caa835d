"""Health streams on a clock of their own: when something is sent, and which streams there are."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from berth.dra.health import GATHER_S, STREAMS_LIMIT, HealthStreams
from berth.dra.healthreport import Place
from berth.health.verdict import HealthState, Status, Verdict
from berth.runtime.latest import Latest
from berth.runtime.methods import Call, RpcError, StreamMethod
from berth.runtime.methods import Status as Code

WELL = Verdict(status=Status.HEALTHY, observed_s=1000)
ILL = Verdict(status=Status.UNHEALTHY, reason="lost", message="it is gone", observed_s=1000)


def state(**verdicts: Verdict) -> HealthState:
    """Give a state, by device."""
    return HealthState(verdicts=verdicts)


@attrs.define
class Reader:
    """Who reads a stream, each message with its time.

    Attributes:
        slow_s: How long it takes for each.
        gone: Whether it has hung up.
    """

    got: list[tuple[float, Any]] = attrs.field(factory=list)
    slow_s: float = 0.0
    gone: bool = False
    error: RpcError | None = None

    async def send(self, reply: Any) -> None:
        """Take a message."""
        await trio.sleep(self.slow_s)
        if self.gone:
            raise RpcError("watch", "the peer is gone", code=Code.CANCELLED)
        self.got.append((trio.current_time(), reply))

    @property
    def times(self) -> list[float]:
        """When messages came, in seconds since the first."""
        return [round(at - self.got[0][0], 3) for at, _ in self.got]

    @property
    def told(self) -> list[list[tuple[str, int, str]]]:
        """What each message said: device, health and text."""
        return [
            [(one.device.device_name, one.health, one.message) for one in reply.devices]
            for _, reply in self.got
        ]


@attrs.define
class Bed:
    """The service, and what it tells of."""

    state: Latest[HealthState] = attrs.field(factory=lambda: Latest(state(a=WELL)))
    names: list[str] = attrs.field(factory=lambda: ["a"])
    held: Latest[int] = attrs.field(factory=lambda: Latest(0))
    streams: HealthStreams = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Make the service."""
        self.streams = HealthStreams(
            self.state,
            places=lambda: [Place(pool="n", device=name) for name in self.names],
            news=[self.held],
            clock=lambda: 1_800_000_000.0 + trio.current_time(),
        )

    async def read(self, reader: Reader, version: int = 0) -> None:
        """Be the stream of a reader."""
        (method,) = self.streams.services()[version].methods
        assert isinstance(method, StreamMethod)
        try:
            await method.handler(method.request(), Call(method="watch"), reader.send)
        except RpcError as error:
            reader.error = error

    @asynccontextmanager
    async def reading(self, *readers: Reader, version: int = 0) -> AsyncIterator[None]:
        """Let readers read while the block runs."""
        async with trio.open_nursery() as nursery:
            for reader in readers:
                nursery.start_soon(self.read, reader, version)
            await wait_all_tasks_blocked()
            yield
            nursery.cancel_scope.cancel()

    @property
    def open(self) -> int:
        """How many streams there are."""
        return sum(self.streams.statistics().streams.values())


async def test_same_is_told_again_within_the_lease(autojump_clock: MockClock) -> None:
    """All devices at once, then each 10 s; a shorter lease shortens that from then on."""

    bed, reader = Bed(), Reader()
    async with bed.reading(reader):
        await trio.sleep(25)
        bed.names.append("b")
        bed.state.set(state(a=WELL, b=attrs.evolve(WELL, timeout_s=12)))
        await trio.sleep(10)

    assert reader.times == [0, 10, 20, 25 + GATHER_S, 29 + GATHER_S, 33 + GATHER_S]
    assert reader.told[0] == [("a", 1, "")]
    assert reader.told[-1] == [("a", 1, ""), ("b", 1, "")]
    assert bed.streams.statistics().sent == {"v1": 6, "v1alpha1": 0}


async def test_change_is_told_at_once_and_the_beat_counts_from_it(
    autojump_clock: MockClock,
) -> None:
    """Several changes of one moment are one message, with the last of them."""

    bed, reader = Bed(), Reader()
    async with bed.reading(reader):
        await trio.sleep(4)
        for verdict in (ILL, WELL, attrs.evolve(ILL, message="it is gone for good")):
            bed.state.set(state(a=verdict))
            await trio.lowlevel.checkpoint()
        await trio.sleep(12)

    assert reader.times == [0, 4 + GATHER_S, 14 + GATHER_S]
    assert reader.told[1:] == [[("a", 2, "it is gone for good")]] * 2


async def test_new_confirmation_waits_for_the_beat(autojump_clock: MockClock) -> None:
    """A probe each 5 s that finds the same is told when it is time, with its own time."""

    bed, reader = Bed(), Reader()
    async with bed.reading(reader):
        for second in range(1, 24):
            await trio.sleep(1)
            bed.state.set(state(a=attrs.evolve(WELL, observed_s=1000 + second)))

    assert reader.times == [0, 10, 20]
    observed = [reply.devices[0].last_updated_time for _, reply in reader.got]
    assert observed == [1000, pytest.approx(1010, abs=1), pytest.approx(1020, abs=1)]


async def test_change_and_back_within_a_moment_is_nothing(autojump_clock: MockClock) -> None:
    """What kubelet never saw need not be taken back."""

    bed, reader = Bed(), Reader()
    async with bed.reading(reader):
        bed.state.set(state(a=ILL))
        await trio.lowlevel.checkpoint()
        bed.state.set(state(a=WELL))
        await trio.sleep(1)

    assert reader.times == [0]


async def test_device_that_comes_or_goes_is_told_at_once(autojump_clock: MockClock) -> None:
    """And news of devices that changes nothing is not."""

    bed, reader = Bed(), Reader()
    async with bed.reading(reader):
        await trio.sleep(1)
        bed.held.set(1)
        await trio.sleep(1)
        bed.names.append("b")
        bed.held.set(2)
        await trio.sleep(1)
        bed.names.remove("a")
        bed.held.set(3)
        await trio.sleep(1)

    assert reader.times == [0, 2 + GATHER_S, 3 + GATHER_S]
    assert [[name for name, _, _ in one] for one in reader.told] == [["a"], ["a", "b"], ["b"]]


async def test_old_evidence_is_repeated_with_its_own_age(autojump_clock: MockClock) -> None:
    """A beat never makes an observation younger, and what expired is told as unknown at once."""

    bed, reader = Bed(), Reader()
    unknown = Verdict(status=Status.UNKNOWN, reason="unasked", message="nobody could ask")
    async with bed.reading(reader):
        await trio.sleep(15)
        bed.state.set(state(a=attrs.evolve(unknown, observed_s=1000)))
        await trio.sleep(1)

    assert reader.times == [0, 10, 15 + GATHER_S]
    assert reader.told[-1] == [("a", 0, "nobody could ask")]
    assert {reply.devices[0].last_updated_time for _, reply in reader.got} == {1000}


async def test_nothing_runs_while_no_stream_is_open(autojump_clock: MockClock) -> None:
    """No task, no timer, and nobody asks for the devices."""

    asked: list[str] = []

    def places() -> list[Place]:
        asked.append("")
        return []

    feed = Latest(state())
    HealthStreams(feed, places=places)
    await trio.sleep(100)
    feed.set(state(a=ILL))
    await trio.sleep(100)

    assert asked == []
    assert feed.statistics().readers == 0


async def test_stream_back_after_more_than_the_lease_marks_what_is_the_same(
    autojump_clock: MockClock,
) -> None:
    """Kubelet was away: what it remembers lapsed, and an equal report would be no change to it."""

    bed = Bed(state=Latest(state(a=WELL, b=WELL)), names=["a", "b"])
    first, soon, late = Reader(), Reader(), Reader()
    async with bed.reading(first):
        await trio.sleep(1)
    await trio.sleep(5)
    async with bed.reading(soon, version=1):
        await trio.sleep(1)
    bed.state.set(state(a=WELL, b=ILL))
    await trio.sleep(60)
    async with bed.reading(late):
        await trio.sleep(15)

    assert soon.told == [[("a", 1, ""), ("b", 1, "")]]
    marked, beaten = late.told
    assert "after a silence of 61 s" in marked[0][2]
    assert marked[1] == ("b", 2, "it is gone")
    assert beaten == marked
    assert bed.streams.statistics().sent == {"v1": 3, "v1alpha1": 1}


async def test_beat_that_comes_too_late_marks_what_is_the_same(mock_clock: MockClock) -> None:
    """A loop that was held up for longer than the lease says so once, and the rest repeats it."""

    bed, reader = Bed(), Reader()
    async with bed.reading(reader):
        for jump_s in (40, 10, 10):
            mock_clock.jump(jump_s)
            await wait_all_tasks_blocked()

    texts = [one[0][2] for one in reader.told]
    assert texts[0] == ""
    assert "after a silence of 40 s" in texts[1]
    assert texts[2:] == [texts[1]] * 2


async def test_reader_that_is_slow_gets_the_newest_alone(autojump_clock: MockClock) -> None:
    """What changed while it read is told as it is by then; other streams wait for nothing."""

    bed, slow, quick = Bed(), Reader(slow_s=3), Reader()
    async with bed.reading(slow, quick):
        for number in range(5):
            bed.state.set(state(a=attrs.evolve(ILL, message=str(number))))
            await trio.sleep(0.5)
        await trio.sleep(5)

    assert [one[0][2] for one in quick.told] == ["", "0", "1", "2", "3", "4"]
    assert [one[0][2] for one in slow.told] == ["", "4"]


async def test_reader_that_takes_nothing_is_ended(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """After the time in which the next message would be due; the log says so once a minute."""

    bed, deaf, other = Bed(), [Reader(slow_s=1000) for _ in range(3)], Reader()
    async with bed.reading(*deaf, other):
        await trio.sleep(11)
        assert bed.open == 1

    assert [one.error and one.error.code for one in deaf] == [Code.DEADLINE_EXCEEDED] * 3
    assert other.error is None
    assert bed.streams.statistics().unread == 3
    assert [r.levelno for r in caplog.records] == [logging.WARNING]


async def test_oldest_stream_makes_room_for_a_new_one(autojump_clock: MockClock) -> None:
    """A thousand streams leave the last sixteen, and whoever asks is told at once."""

    bed = Bed()
    readers = [Reader() for _ in range(1000)]
    async with bed.reading(*readers, version=1):
        assert bed.open == STREAMS_LIMIT
        kubelet = Reader()
        async with bed.reading(kubelet):
            assert kubelet.told == [[("a", 1, "")]]
            assert bed.streams.statistics().streams == {"v1": 1, "v1alpha1": STREAMS_LIMIT - 1}
        assert bed.open == STREAMS_LIMIT - 1

    ended = [one.error.code for one in readers if one.error is not None]
    assert ended == [Code.RESOURCE_EXHAUSTED] * (1000 - STREAMS_LIMIT + 1)
    assert bed.streams.statistics().displaced == len(ended)
    assert bed.open == 0


async def test_reader_that_goes_away_ends_its_stream_alone(autojump_clock: MockClock) -> None:
    """A message that cannot be sent is the end of that stream."""

    bed, gone, other = Bed(), Reader(gone=True), Reader()
    async with bed.reading(gone, other):
        assert bed.open == 1

    assert gone.error is not None
    assert gone.error.code is Code.CANCELLED


async def test_more_devices_than_kubelet_keeps_are_told_to_the_operator(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The list is cut, and the log says so."""

    monkeypatch.setattr("berth.dra.health.DEVICES_LIMIT", 2)
    bed = Bed(names=["a", "b", "c"])
    async with bed.reading(Reader()):
        pass

    assert ["kubelet is not told of all devices" in r.message for r in caplog.records] == [True]
