"""What kubelet is told of its devices' health, and when it has to be told again.

Kubelet lets a report lapse a lease after it came in, by its own clock, and looks whether one has
lapsed only when it makes a pod's status for another reason. So the same is told again three times
within the shortest lease, and what is not known any more is told as that.

A report that comes after its lease has a trap: the pod's status says Unknown by then, kubelet's
memory still has the old report, an equal one is no change to it, and the status stays wrong until
the pod's next turn (up to 90 s). So a report that lapsed and is the same as before gets a mark in
its message, which makes it a change. The mark stays until something real changes: to take it off
again would be a second change that tells nobody anything.

Whether it lapsed is a matter of the silence, whatever caused it: a loop of ours that was held up,
or a stream that broke while kubelet was away (a kubelet that starts anew remembers reports and
when they came). A stream that is back within the lease needs no mark: kubelet forgets a driver's
reports when its stream ends, so that all are changes, and one that starts anew has none lapsed.

Source: KC §6.2 (kubelet 1.37.2); gpu-and-health.md §6.5.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from berth.dra.origin import pool_of
from berth.health.fold import shown
from berth.health.verdict import HealthState, Status
from berth.model.claim import DeviceResult
from berth.model.device import Device

DEVICES_LIMIT: Final = 16384
"""Devices of a driver that kubelet keeps."""

MESSAGE_LIMIT: Final = 1024
"""Most bytes of a message that kubelet keeps."""

LEASE_S: Final = 30
"""How long a report without a lease of its own holds; one before 1.35 knows no other."""

BEAT_S: Final = 10.0
"""Longest from one message to the next, in seconds."""

LEAST_BEAT_S: Final = 1.0
"""Shortest, however short a lease is."""

_CUT: Final = "..."


@attrs.frozen(kw_only=True, order=True)
class Place:
    """A device, as kubelet names it."""

    pool: str
    device: str


@attrs.frozen(kw_only=True)
class DeviceReport:
    """What is told of one device.

    Attributes:
        message: For a person; empty where there is nothing to say.
        timeout_s: How long it holds after it came in; kubelet's own time if not above 0.
        observed_s: When it was last confirmed, in seconds since 1970; 0 if never. Kubelet does not
            look at it: another one alone is no change.
    """

    place: Place
    status: Status
    message: str = ""
    timeout_s: int = LEASE_S
    observed_s: int = attrs.field(default=0, eq=False)

    @property
    def lease_s(self) -> int:
        """After how many seconds kubelet lets it lapse."""
        return self.timeout_s if self.timeout_s > 0 else LEASE_S


def places_of(
    node: str, devices: Iterable[Device], held: Iterable[DeviceResult]
) -> tuple[Place, ...]:
    """Which devices are told of: all that claims hold, in a slice or not, and all that are offered.

    Args:
        node: The node's name, empty where it is not known yet and nothing is published.
        devices: What is offered.
        held: What claims hold, under the names of then.
    """
    places = dict.fromkeys(Place(pool=one.pool, device=one.device) for one in held)
    if node:
        offered = (Place(pool=pool_of(node, one.type), device=one.name) for one in devices)
        places |= dict.fromkeys(offered)
    return tuple(places)


def reports_of(state: HealthState, places: Iterable[Place]) -> tuple[DeviceReport, ...]:
    """What is to be told now, each device once.

    Args:
        places: The most important ones first: no more than `DEVICES_LIMIT` are told of.
    """
    few = list(dict.fromkeys(places))[:DEVICES_LIMIT]
    return tuple(_report(state, place) for place in sorted(few))


def _report(state: HealthState, place: Place) -> DeviceReport:
    verdict = state.of(place.device)
    silent = verdict.status is Status.HEALTHY and not verdict.is_degraded
    return DeviceReport(
        place=place,
        status=verdict.status,
        message="" if silent else verdict.message or verdict.reason,
        timeout_s=verdict.timeout_s,
        observed_s=verdict.observed_s,
    )


def beat_s(reports: Iterable[DeviceReport]) -> float:
    """How soon the same has to be told again, in seconds."""
    shortest = min((report.lease_s for report in reports), default=LEASE_S)
    return max(LEAST_BEAT_S, min(BEAT_S, shortest / 3))


@attrs.frozen(kw_only=True)
class Told:
    """What a stream has told by now, as far as the next message depends on it.

    Attributes:
        reports: The last message, without marks.
        marks: Of reports that had lapsed before, what their messages carry besides.
        at_s: When it went out, on a clock that never goes back.
    """

    reports: tuple[DeviceReport, ...] = ()
    marks: Mapping[Place, str] = attrs.field(factory=dict)
    at_s: float = -math.inf

    @property
    def due_s(self) -> float:
        """When the same has to be told again."""
        return self.at_s + beat_s(self.reports)

    def following(self, reports: tuple[DeviceReport, ...], *, now_s: float, time_s: float) -> Told:
        """The next message, if it goes out now.

        Args:
            now_s: On the clock of `at_s`.
            time_s: Seconds since 1970; makes a mark unlike every earlier one.
        """
        before = {report.place: report for report in self.reports}
        silence_s = now_s - self.at_s
        marks = {}
        for report in reports:
            if before.get(report.place) != report:
                continue
            if silence_s >= report.lease_s:
                marks[report.place] = _mark(silence_s, time_s)
            elif report.place in self.marks:
                marks[report.place] = self.marks[report.place]
        return Told(reports=reports, marks=marks, at_s=now_s)

    def messages(self) -> tuple[DeviceReport, ...]:
        """What goes out: with marks, and no message longer than kubelet keeps."""
        return tuple(
            attrs.evolve(report, message=_text(report.message, self.marks.get(report.place, "")))
            for report in self.reports
        )


def _mark(silence_s: float, time_s: float) -> str:
    return f"told again since {shown(int(time_s))}, after a silence of {silence_s:.0f} s"


def _text(message: str, mark: str) -> str:
    """A message and its mark, of which it is the mark that must not be cut."""
    if not mark:
        return cut(message)
    return f"{cut(message, limit=MESSAGE_LIMIT - len(mark) - 3)} ({mark})" if message else mark


def cut(text: str, *, limit: int = MESSAGE_LIMIT) -> str:
    """``text`` as kubelet would cut it to ``limit`` bytes, and never within a character.

    What is no text, such as a file's name of odd bytes, is escaped: protobuf refuses it.
    """
    content = text.encode(errors="backslashreplace")
    if len(content) <= limit:
        return content.decode()
    return content[: limit - len(_CUT)].decode(errors="ignore") + _CUT
