"""Worker threads for calls that may never come back, and who may call what meanwhile.

At most one call is out for each key, which is a GPU's PCI address or the library as a whole. Past
its deadline the caller goes on with `NoAnswer`; the thread stays, no further call is made for that
key until it returns, and then that is over by itself. The threads are daemons of our own: neither
the end of the trio run nor that of the process waits for one, and a hung one takes no place in any
limiter.

Source: GH §2.4.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

import attrs
import trio

from berth.host.nvml.convoy import SHARED_S, Convoy
from berth.host.nvml.progress import listen
from berth.host.nvml.silence import NEVER, OpenCall
from berth.host.nvml.values import NoAnswer, Refusal
from berth.model.meter import Tally, Timing

T = TypeVar("T")

WALK_S: Final = 10.0
PROBE_S: Final = 4.0
LINK_S: Final = 4.0
CLASSIFY_S: Final = 0.5
SHUTDOWN_S: Final = 2.0


@attrs.frozen(kw_only=True)
class RegistryStatistics:
    """What can be seen from outside.

    Attributes:
        calls: How many were begun, by purpose.
        unanswered: How many callers went on without an answer, by purpose.
        ended: How many came back, by purpose and result: ``ok``, ``refused``, ``failed``.
        seconds: How long these took, by purpose.
        open: The calls that are out now.
    """

    calls: dict[str, int]
    unanswered: dict[str, int]
    ended: Tally
    seconds: Timing
    open: tuple[OpenCall, ...]


class _Call(Generic[T]):
    """A call and its answer, once ``done`` is set."""

    def __init__(self, begun: OpenCall, function: Callable[[], T]) -> None:
        self._begun = begun
        self._function = function
        self._began_s = time.perf_counter()
        self._moved_s = NEVER
        self.done = trio.Event()
        self.answers: list[T] = []
        self.error: Exception | None = None

    def make(self) -> None:
        """Make it, in a thread that may hang."""
        listen(self.move)
        try:
            self.answers.append(self._function())
        except Exception as error:  # noqa: BLE001 - raised where the answer is awaited
            self.error = error

    def fail(self, error: Exception) -> None:
        """It could not be made."""
        self.error = error

    @property
    def out(self) -> OpenCall:
        """How far it is."""
        return attrs.evolve(self._begun, moved_s=self._moved_s)

    def move(self) -> None:
        """A step of it was answered; told in its thread, which does not know the owner's clock."""
        self._moved_s = self._begun.began_s + time.perf_counter() - self._began_s

    @property
    def ending(self) -> str:
        """How it came back, in a word."""
        if self.error is not None:
            return "failed"
        return "refused" if isinstance(self.answers[0], Refusal) else "ok"

    def result(self) -> T:
        if self.error is not None:
            raise self.error
        return self.answers[0]


class Registry:
    """The calls that are out; used in one trio run.

    Args:
        returned: Called in the trio thread when a call has returned, however late.
        threads: What its threads are called, before the key.
    """

    def __init__(
        self, returned: Callable[[], object] = lambda: None, *, threads: str = "nvml"
    ) -> None:
        self._tell_returned = returned
        self._threads = threads
        self._open: dict[str, _Call[Any]] = {}
        self._gathering: Convoy[_Call[Any]] | None = None
        self._calls: Counter[str] = Counter()
        self._unanswered: Counter[str] = Counter()
        self._ended = Tally("call", "result")
        self._seconds = Timing("call")

    async def ask(
        self,
        key: str,
        purpose: str,
        function: Callable[[], T],
        *,
        deadline_s: float,
        joins: str = "",
        allowed_s: float | None = None,
        shared: bool = False,
    ) -> T | NoAnswer:
        """Call a function in a thread and give its answer, or `NoAnswer` past the deadline.

        While another call is out for the key its end is waited for; when that one is past its own
        deadline already there is no waiting. A cancel leaves the call out.

        Args:
            joins: Purpose whose call, when it is out, answers for this one as well.
            allowed_s: How long NVML may leave each of the call's steps without an answer before it
                counts as overdue; as long as the caller waits unless it is said.
            shared: It may have one thread with others that are asked for at this moment.
        """
        with trio.move_on_after(deadline_s):
            while (other := self._open.get(key)) is not None:
                if other.out.overdue(trio.current_time()):
                    await trio.lowlevel.checkpoint()
                    return self._unanswered_by(other.out, purpose)
                await other.done.wait()
                if joins and other.out.purpose == joins:
                    joined: T = other.result()
                    return joined
            most_s = deadline_s if allowed_s is None else allowed_s
            if shared:
                call = self._begun(key, purpose, function, deadline_s=most_s)
                await self._go_along(call)
            else:
                call = self.start_nowait(key, purpose, function, deadline_s=most_s)
            await call.done.wait()
            return call.result()
        return self._unanswered_by(self._open[key].out if key in self._open else None, purpose)

    def start_nowait(
        self, key: str, purpose: str, function: Callable[[], T], *, deadline_s: float
    ) -> _Call[T]:
        """Begin a call that nobody need wait for; none may be out for the key."""
        call = self._begun(key, purpose, function, deadline_s=deadline_s)
        alone = self._convoy(key)
        alone.add(call)
        alone.depart()
        return call

    def busy(self, key: str) -> bool:
        """Whether a call is out for the key."""
        return key in self._open

    async def wait_quiet(self) -> None:
        """Wait until no call is out but those that are past their deadline."""
        await trio.lowlevel.checkpoint()
        while fresh := [
            call for call in self._open.values() if not call.out.overdue(trio.current_time())
        ]:
            with trio.move_on_at(fresh[0].out.since_s + fresh[0].out.deadline_s):
                await fresh[0].done.wait()

    def open_calls(self) -> tuple[OpenCall, ...]:
        """Give the calls that are out."""
        return tuple(call.out for call in self._open.values())

    def statistics(self) -> RegistryStatistics:
        """Give figures for tests, metrics and the operator."""
        return RegistryStatistics(
            calls=dict(self._calls),
            unanswered=dict(self._unanswered),
            ended=self._ended,
            seconds=self._seconds,
            open=self.open_calls(),
        )

    def _convoy(self, name: str) -> Convoy[_Call[Any]]:
        return Convoy(f"{self._threads} {name}", self._returned)

    def _begun(
        self, key: str, purpose: str, function: Callable[[], T], *, deadline_s: float
    ) -> _Call[T]:
        out = OpenCall(key=key, purpose=purpose, began_s=trio.current_time(), deadline_s=deadline_s)
        self._open[key] = call = _Call(out, function)
        self._calls[purpose] += 1
        return call

    async def _go_along(self, call: _Call[Any]) -> None:
        """Make a call with all others of this moment; returns when it was made, or left alone."""
        convoy, is_first = self._gathering, self._gathering is None
        if convoy is None:
            convoy = self._gathering = self._convoy("shared")
        convoy.add(call)
        try:
            if is_first:
                try:
                    # Whoever asks at this moment has come when this returns.
                    await trio.lowlevel.checkpoint()
                finally:
                    self._gathering = None
                    convoy.depart()
            with trio.move_on_after(SHARED_S):
                await call.done.wait()
        finally:
            convoy.disband()

    def _returned(self, call: _Call[Any]) -> None:
        key = call.out.key
        if self._open.get(key) is call:
            del self._open[key]
        self._ended.add(call.out.purpose, call.ending)
        self._seconds.observe(trio.current_time() - call.out.began_s, call.out.purpose)
        call.done.set()
        self._tell_returned()

    def _unanswered_by(self, out: OpenCall | None, purpose: str) -> NoAnswer:
        self._unanswered[purpose] += 1
        if out is None:
            return NoAnswer(purpose=purpose, open_s=0)
        return NoAnswer(purpose=out.purpose, open_s=trio.current_time() - out.began_s)
