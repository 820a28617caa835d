"""Kubelet's health service: how every device is, on streams that say it again before it lapses.

Each stream is a task that tells the newest state: all devices at once when it is opened, on each
change, and in between as often as leases ask for (`berth.dra.healthreport`). Nothing is queued and
nothing is shared but the state, so a slow reader holds up nobody; while no stream is open nothing
runs at all.

A message has to be taken within the time in which the next one is due, else the stream is ended:
whatever lies in its reader's buffers is old by then, and kubelet asks anew 5 s later.

Streams are bounded, and a new one takes the place of the oldest: whoever opens a stream wants to
read it, and what a reader forgot must not keep kubelet out, as a refusal of the newest would. So
kubelet has a whole list each time it asks, whatever others do.

What is told is what the owner of the state says, which knows what has expired.

Source: KC §6; gpu-and-health.md §6.5, §6.6.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

import attrs
import trio

from berth.dra.healthmessages import DIALECTS, METHOD, HealthDialect
from berth.dra.healthreport import (
    DEVICES_LIMIT,
    DeviceReport,
    Place,
    Told,
    beat_s,
    reports_of,
)
from berth.health.verdict import HealthState
from berth.runtime.latest import Latest
from berth.runtime.logs import get_log
from berth.runtime.methods import Call, RpcError, Send, Service, Status, StreamMethod

STREAMS_LIMIT: Final = 16
"""Streams at a time, of both versions together; kubelet keeps one."""

GATHER_S: Final = 0.02
"""How long further changes are waited for, in seconds, so that they go out as one."""

QUIET_S: Final = 60.0
"""Between two complaints about the same, in seconds."""

Versions: TypeAlias = "tuple[int, ...]"

_log = get_log(__name__)


@attrs.frozen(kw_only=True)
class HealthStatistics:
    """What the service did since it was made.

    Attributes:
        streams: Those that are open now, by version.
        sent: Messages that were taken, by version.
        displaced: Streams that were ended for a newer one.
        unread: Those that were ended because a message was not taken in time.
    """

    streams: Mapping[str, int]
    sent: Mapping[str, int]
    displaced: int = 0
    unread: int = 0


@attrs.define(eq=False)
class _Stream:
    """One that is open.

    Attributes:
        told: What it has told.
    """

    dialect: HealthDialect
    told: Told
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)


class HealthStreams:
    """Tells kubelet how devices are.

    Args:
        state: How they are.
        places: Gives the devices that are told of, the most important ones first
            (`healthreport.places_of`); asked at each message and each piece of news.
        news: What changes when those devices may have.
        clock: Gives seconds since 1970.
        told: Told the devices of which a message said something else than the one before.
    """

    def __init__(
        self,
        state: Latest[HealthState],
        *,
        places: Callable[[], Iterable[Place]],
        news: Iterable[Latest[Any]] = (),
        clock: Callable[[], float] = time.time,
        told: Callable[[Iterable[str]], object] = tuple,
    ) -> None:
        self._state = state
        self._news: tuple[Latest[Any], ...] = (state, *news)
        self._places = places
        self._clock = clock
        self._tell_changed = told
        self._streams: list[_Stream] = []
        self._last = Told()
        self._made: tuple[HealthState, tuple[Place, ...], tuple[DeviceReport, ...]] | None = None
        self._sent = dict.fromkeys((dialect.version for dialect in DIALECTS), 0)
        self._displaced = 0
        self._unread = 0
        self._complained_s: dict[str, float] = {}

    @property
    def tokens(self) -> tuple[str, ...]:
        """What is told to kubelet's registration; it takes the newest that it knows."""
        return tuple(dialect.service for dialect in DIALECTS)

    def services(self) -> tuple[Service, ...]:
        """The method tables of all versions."""
        return tuple(map(self._service, DIALECTS))

    def statistics(self) -> HealthStatistics:
        """Give figures for tests and for the operator."""
        versions = [stream.dialect.version for stream in self._streams]
        return HealthStatistics(
            streams={version: versions.count(version) for version in self._sent},
            sent=dict(self._sent),
            displaced=self._displaced,
            unread=self._unread,
        )

    def _service(self, dialect: HealthDialect) -> Service:
        async def watch(_request: Any, call: Call, send: Send[Any]) -> None:
            await self._serve(dialect, call, send)

        return Service(
            name=dialect.service,
            methods=(
                StreamMethod(
                    name=METHOD, request=dialect.request, reply=dialect.reply, handler=watch
                ),
            ),
        )

    async def _serve(self, dialect: HealthDialect, call: Call, send: Send[Any]) -> None:
        """Be one stream, until its reader or the server ends it.

        Raises:
            RpcError: It is ended for a newer one, or a message was not taken in time.
        """
        # It goes on from where the last one ended: what has lapsed since is told as that.
        stream = _Stream(dialect, self._last)
        self._make_room()
        self._streams.append(stream)
        try:
            with stream.scope:
                await self._tell(stream, call, send)
        finally:
            if stream in self._streams:
                self._streams.remove(stream)
            if stream.told.at_s > self._last.at_s:
                self._last = stream.told
        raise RpcError(
            call.method,
            "ended for a newer stream",
            rule=f"at most {STREAMS_LIMIT} at a time",
            code=Status.RESOURCE_EXHAUSTED,
        )

    def _make_room(self) -> None:
        while len(self._streams) >= STREAMS_LIMIT:
            self._streams.pop(0).scope.cancel()
            self._displaced += 1
            self._complain("too many health streams, the oldest is ended", limit=STREAMS_LIMIT)

    async def _tell(self, stream: _Stream, call: Call, send: Send[Any]) -> None:
        seen, reports = self._newest()
        while True:
            await self._send(stream, reports, call, send)
            seen, reports = await self._wait_due(stream.told, seen)

    async def _send(
        self, stream: _Stream, reports: tuple[DeviceReport, ...], call: Call, send: Send[Any]
    ) -> None:
        told = stream.told.following(reports, now_s=trio.current_time(), time_s=self._clock())
        limit_s = beat_s(reports)
        with trio.move_on_after(limit_s) as limit:
            await send(stream.dialect.answer(told.messages()))
        if limit.cancelled_caught:
            self._unread += 1
            self._complain("a health stream is not read, it is ended", waited_s=limit_s)
            raise RpcError(
                call.method,
                f"a message was not taken within {limit_s:.0f} s",
                code=Status.DEADLINE_EXCEEDED,
            )
        before = {report.place: report for report in stream.told.reports}
        self._tell_changed(
            report.place.device for report in reports if before.get(report.place) != report
        )
        stream.told = told
        self._sent[stream.dialect.version] += 1

    async def _wait_due(
        self, told: Told, seen: Versions
    ) -> tuple[Versions, tuple[DeviceReport, ...]]:
        """Wait until there is something else to tell, or the same has to be told again.

        Args:
            seen: What `_newest` gave with what was told.

        Returns:
            What `_newest` gives by then.
        """
        with trio.move_on_at(told.due_s):
            while True:
                await _wait_any(self._news, seen)
                await trio.sleep(GATHER_S)
                seen, reports = self._newest()
                if reports != told.reports:
                    return seen, reports
        return self._newest()

    def _newest(self) -> tuple[Versions, tuple[DeviceReport, ...]]:
        """What is to be told now, made once for all streams, and the news that it knows of."""
        places = tuple(self._places())
        if len(places) > DEVICES_LIMIT:
            self._complain(
                "kubelet is not told of all devices", devices=len(places), limit=DEVICES_LIMIT
            )
        state = self._state.get()
        if self._made is None or self._made[0] is not state or self._made[1] != places:
            self._made = (state, places, reports_of(state, places))
        return tuple(one.version for one in self._news), self._made[2]

    def _complain(self, event: str, **facts: object) -> None:
        now = trio.current_time()
        if now - self._complained_s.get(event, -math.inf) >= QUIET_S:
            self._complained_s[event] = now
            _log.warning(event, **facts)


async def _wait_any(news: Iterable[Latest[Any]], seen: Versions) -> None:
    """Wait until one of them is of another version than was seen."""
    async with trio.open_nursery() as nursery:

        async def first(one: Latest[Any], version: int) -> None:
            await one.wait_changed(version)
            nursery.cancel_scope.cancel()

        for one, version in zip(news, seen, strict=True):
            nursery.start_soon(first, one, version)
