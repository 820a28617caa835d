"""Worker threads for what blocks, a limiter per kind of work, and the once-only decision.

A limiter per kind keeps a disk that hangs from taking the threads that netlink needs. Whoever waits
for a thread waits until it is done, but at a stop nobody waits for ever: `end_waits_at`.
"""

from __future__ import annotations

import enum
import functools
import math
import threading
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

import attrs
import trio
from trio.lowlevel import RunVar

from berth.errors import HostError
from berth.runtime.logs import get_log

P = ParamSpec("P")
T = TypeVar("T")

DEFAULT_TOTAL: Final = 4
"""Threads of one kind at a time, where nobody asks for another number."""

_log = get_log(__name__)
_limiters: RunVar[dict[str, trio.CapacityLimiter]] = RunVar("berth-thread-limiters")


@attrs.define(eq=False)
class _Waits:
    """Who waits for a thread in this run, and until when at most."""

    end_s: float = math.inf
    scopes: set[trio.CancelScope] = attrs.field(factory=set)


_waits: RunVar[_Waits] = RunVar("berth-thread-waits")


def thread_limiter(kind: str, *, total: int = DEFAULT_TOTAL) -> trio.CapacityLimiter:
    """Give the limiter of one kind of work in this run, such as ``"files"`` or ``"netlink"``.

    Args:
        kind: Name of the work; the first call for it in a run makes the limiter.
        total: Most threads of this kind at a time; later calls do not change it.
    """
    try:
        limiters = _limiters.get()
    except LookupError:
        limiters = {}
        _limiters.set(limiters)
    return limiters.setdefault(kind, trio.CapacityLimiter(total))


async def run_in_thread(
    kind: str, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
) -> T:
    """Run a blocking function in a worker thread of its kind.

    A cancel is served only when the function has returned, so that nothing is left half done.

    Raises:
        HostError: It did not return before the time that `end_waits_at` set; the thread goes on.
    """
    waits, results = _of_run(), []
    async with thread_limiter(kind):
        with trio.CancelScope(shield=True, deadline=waits.end_s) as scope:
            waits.scopes.add(scope)
            try:
                results.append(
                    await trio.to_thread.run_sync(
                        functools.partial(function, *args, **kwargs),
                        limiter=trio.CapacityLimiter(1),
                        abandon_on_cancel=True,
                    )
                )
            finally:
                waits.scopes.discard(scope)
    if not results:
        raise HostError(kind, "gave no answer before the end")
    return results[0]


def end_waits_at(end_s: float) -> None:
    """Let nobody in this run wait for a thread any longer than until then.

    For the end of the process alone: what a thread does after it nobody learns.

    Args:
        end_s: On trio's clock; an earlier one that was told before holds.
    """
    waits = _of_run()
    waits.end_s = min(waits.end_s, end_s)
    for scope in waits.scopes:
        scope.deadline = waits.end_s


def _of_run() -> _Waits:
    try:
        return _waits.get()
    except LookupError:
        waits = _Waits()
        _waits.set(waits)
        return waits


async def probe_threads() -> None:
    """Return once a worker thread has done a thing; a watchdog asks this.

    Work of its own kind, so that threads which wait for a hung disk or driver do not fail it.

    Raises:
        RuntimeError: The system gives no further thread.
    """
    await run_in_thread("probe", int)


class Verdict(enum.Enum):
    """Who came first: the work, or the end of the time for it."""

    DONE = "done"
    LATE = "late"


class Decision:
    """Settles once, between a worker thread and trio, whether work counts as done or as late.

    The thread calls `claim_done` with its work finished: True means that the other side will
    report it, False that it must undo it. The trio side calls `claim_late` when the time is over:
    True means that it may answer "late", False that the result is there after all.
    Exactly one of the two is told True. Both may be called from any thread and never block.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._verdict: Verdict | None = None

    @property
    def verdict(self) -> Verdict | None:
        """What was settled; None while nothing is."""
        return self._verdict

    def claim_done(self) -> bool:
        """Settle for "done", unless "late" was first."""
        return self._settle(Verdict.DONE)

    def claim_late(self) -> bool:
        """Settle for "late", unless "done" was first."""
        return self._settle(Verdict.LATE)

    def _settle(self, verdict: Verdict) -> bool:
        with self._lock:
            if self._verdict is None:
                self._verdict = verdict
            return self._verdict is verdict


async def run_in_time(
    nursery: trio.Nursery, work: Callable[[Decision], T], *, limit_s: float, kind: str
) -> T | None:
    """Run blocking work in a thread, but wait for it no longer than ``limit_s``.

    The work is given a `Decision`. Its last step is ``claim_done()``, and when that says False it
    undoes what it did. It goes on in a task of ``nursery``, which outlives the caller, so work that
    is late ends under its name and is waited for when that nursery ends. What late work raises is
    logged. When the caller is cancelled, the work counts as late, unless it was done before.

    Returns:
        What the work gives, or None when it is late.
    """
    decision = Decision()
    ended = trio.Event()
    results: list[T] = []
    errors: list[Exception] = []

    async def carry() -> None:
        try:
            results.append(await run_in_thread(kind, work, decision))
        except Exception as error:  # noqa: BLE001 - handed on to whoever waits
            if decision.claim_done():
                errors.append(error)
            else:
                _log.exception("late work failed", kind=kind)
        else:
            decision.claim_done()
        finally:
            ended.set()

    nursery.start_soon(carry, name=f"{kind} in time")
    try:
        with trio.move_on_after(limit_s):
            await ended.wait()
    finally:
        late = decision.claim_late()
    if late:
        return None
    # "Done" was claimed in this moment, so the thread is about to return.
    with trio.CancelScope(shield=True):
        await ended.wait()
    if errors:
        raise errors[0]
    return results[0]
