"""The one owner of the session with NVML: opens it, gives it up, and answers what is asked of GPUs.

Everything goes through the registry, so that no GPU and not the library itself can hold up more
than the one who asked, and him only until the deadline. Nothing here raises for what NVML does.

Source: GH §2.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from typing import Final

import attrs
import trio

from berth.errors import HostError
from berth.host.nvml.blame import Blame
from berth.host.nvml.hearing import Hearing
from berth.host.nvml.inbox import Inbox
from berth.host.nvml.library import Library, successor_of
from berth.host.nvml.registry import (
    PROBE_S,
    SHUTDOWN_S,
    WALK_S,
    Registry,
    RegistryStatistics,
)
from berth.host.nvml.session import (
    Session,
    SessionState,
    noticed,
    released,
    resumed,
    tried,
)
from berth.host.nvml.sight import Sight
from berth.host.nvml.silence import LIBRARY, Silence, overdue
from berth.host.nvml.values import NoAnswer, NvmlEvent, Probe, Refusal, Walk
from berth.model.gpu import Driver, Gpu

CLOSED: Final = Refusal.of(1)


@attrs.frozen(kw_only=True)
class NvmlStatistics:
    """What can be seen from outside.

    Attributes:
        sessions: How many were opened.
        events: How many were heard.
        dropped: How many of these nobody could be told.
        listening: GPUs whose events are heard.
    """

    calls: RegistryStatistics
    sessions: int
    events: int
    dropped: int
    listening: tuple[str, ...]


class Nvml:
    """The session and the GPUs behind it; made and used in one trio run.

    Args:
        library: Path of the library; empty for the dynamic loader's.
        hold: Keep the session open, which events need; else it is open during each question only.
    """

    def __init__(self, *, library: str = "", hold: bool = True) -> None:
        self._path = library
        self._hold = hold
        self._library = Library(library)
        self._registry = Registry(self._returned)
        self._sight = Sight(self._registry)
        self._inbox = Inbox()
        self._blame = Blame(
            self._registry,
            handles=self._sight.handles,
            probe=lambda address, deadline_s: self.probe(address, deadline_s=deadline_s),
        )
        self._hearing = Hearing(self._registry, self._sight, self._inbox, self._wake)
        self._session = Session()
        self._opened = False
        self._sessions = 0
        self._users = 0
        self._unused = trio.lowlevel.ParkingLot()
        self._closing = False
        self._lock = trio.Lock()
        self._woken = trio.Event()
        self._version = 0
        self._lot = trio.lowlevel.ParkingLot()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Open the session when it is due and keep its events; gives it up when cancelled."""
        self._set(resumed(self._session, now_s=trio.current_time()))
        task_status.started()
        try:
            while True:
                await self._step()
                await self._wait_due()
        finally:
            with trio.move_on_after(SHUTDOWN_S, shield=True):
                await self._close()

    def notice(self, *, functions: int, bind: bool = False) -> None:
        """Take note of the PCI inventory; call it after each look and for each uevent.

        Args:
            functions: How many GPUs the inventory has.
            bind: A driver was bound to one of them, or its module was loaded.
        """
        now_s = trio.current_time()
        self._set(noticed(self._session, functions=functions, bind=bind, now_s=now_s))

    @property
    def session(self) -> Session:
        """The state of the session; ``stalled`` while several GPUs of an open one are silent."""
        late = overdue(self._registry.open_calls(), trio.current_time())
        if self._session.state is not SessionState.UP or len(late) < 2:
            return self._session
        names = ", ".join(call.key for call in late)
        return attrs.evolve(
            self._session, state=SessionState.STALLED, detail=f"no answer from {names}"
        )

    @property
    def version(self) -> int:
        """How often the session changed, or what it lists; for `wait_session_changed`."""
        return self._version

    async def wait_session_changed(self, since: int) -> int:
        """Wait until the session is another than at that version, and give the version of now."""
        await trio.lowlevel.checkpoint()
        while self._version == since:
            await self._lot.park()
        return self._version

    async def walk(self, *, told: Callable[[Gpu], None] = lambda _: None) -> Walk:
        """Look at all GPUs; nothing is found while the session is not up.

        Args:
            told: Called with each GPU as soon as it has answered: one that does not answer keeps
                the walk from its end for seconds.
        """
        async with self._using() as driver:
            if driver is None:
                return Walk()
            found = await self._sight.walk(driver, told=told)
        for gpu in found.gpus:
            if "answer" not in gpu.missing:
                self._hearing.answered(gpu.address)
        return found

    async def describe(self, address: str) -> Gpu:
        """Look at one GPU anew, as after a change of its MIG layout."""
        async with self._using() as driver:
            if driver is None:
                return Gpu(address=address, missing={"answer": CLOSED.text})
            return await self._sight.describe(address)

    async def probe(
        self, address: str, *, deadline_s: float = PROBE_S, shared: bool = False
    ) -> Probe | Refusal | NoAnswer:
        """Ask whether a GPU is well, and give up waiting after a time; opening a session is extra.

        A refusal with code 1 says that there is no session, and nothing of the GPU. Of one that
        does not answer `silences` says what that means.

        Args:
            shared: Others that are asked at this moment may be asked before it, by one thread.
        """
        came = self._sight.came
        async with self._using() as driver:
            answer = (
                CLOSED
                if driver is None
                else await self._sight.probe(address, deadline_s, shared=shared)
            )
        if isinstance(answer, Probe):
            self._hearing.answered(address)
        if came != self._sight.came:
            self._tell_changed()
        return answer

    async def classify(self, address: str) -> Probe | Refusal | NoAnswer:
        """Ask the same after an XID, for `CLASSIFY_S` at most."""
        async with self._using() as driver:
            return CLOSED if driver is None else await self._sight.classify(address)

    async def processes(self, address: str) -> tuple[int, ...] | Refusal | NoAnswer:
        """Ask which processes compute on a GPU, for `PROBE_S` at most."""
        async with self._using() as driver:
            return CLOSED if driver is None else await self._sight.processes(address)

    async def links(self, address: str) -> tuple[str, ...] | Refusal | NoAnswer:
        """Ask where a GPU's NVLinks lead, for `WALK_S` in all; never in anybody's request."""
        async with self._using() as driver:
            return CLOSED if driver is None else await self._sight.links(address)

    async def silences(self) -> Mapping[str, Silence]:
        """Give what is to be said of each GPU whose call is out beyond its deadline.

        When there are several, a GPU that is not among them is asked, for `CLASSIFY_S` at most, to
        learn whether the library as a whole is held up; so ask again with each round of probes.
        """
        return await self._blame.silences()

    async def receive_event(self) -> NvmlEvent:
        """Wait for the next event; for one reader."""
        return await self._inbox.receive()

    async def release(self, for_s: float) -> None:
        """Give the session up for a time, so that a GPU can be reset or the module unloaded.

        It is taken up again when the time is over, by `resume`, or when `notice` tells of a bind.

        Raises:
            HostError: Calls are out that do not come back; the session stays as it was.
        """
        async with self._lock:
            self._closing = True
            try:
                holders = await self._close()
            finally:
                self._closing = False
            if holders:
                if self._opened and self._hold:
                    self._hearing.begin()
                raise HostError(
                    "NVML",
                    f"cannot be given up: no answer from {', '.join(holders)}",
                    mend="reset that GPU by a reboot, or stop berthd first",
                )
            now_s = trio.current_time()
            self._set(released(self._session, for_s=for_s, now_s=now_s))

    def resume(self) -> None:
        """End a release before its time."""
        if self._session.state is SessionState.RELEASED:
            self._set(resumed(self._session, now_s=trio.current_time()))

    async def successor(self) -> str:
        """Give what only a new process could load, after a mismatch; empty when there is nothing.

        It is the same text for the same file and module, so that a restart is tried once for it.
        """
        answer = await self._registry.ask(
            "files", "files", partial(successor_of, self._path), deadline_s=WALK_S
        )
        return answer if isinstance(answer, str) else ""

    def statistics(self) -> NvmlStatistics:
        """Give figures for tests, metrics and the operator."""
        return NvmlStatistics(
            calls=self._registry.statistics(),
            sessions=self._sessions,
            events=self._inbox.heard,
            dropped=self._inbox.dropped,
            listening=tuple(sorted(self._hearing.addresses())),
        )

    async def _step(self) -> None:
        async with self._lock:
            if self._session.due(trio.current_time()):
                await self._try()
            if self._session.state is SessionState.NO_GPU and self._opened:
                await self._close()
            if self._session.state is SessionState.UP:
                await self._hearing.step()

    async def _try(self) -> None:
        if self._session.functions == 0:
            self._set(Session())
            return
        answer = await self._open()
        if self._session.functions == 0:
            return  # the last one went meanwhile
        self._set(tried(self._session, answer, now_s=trio.current_time()))
        if self._session.state is SessionState.UP and self._hold:
            self._hearing.begin()
        elif self._session.state is SessionState.UP:
            await self._close()

    async def _wait_due(self) -> None:
        times = [self._session.due_s]
        if self._session.state is SessionState.UP:
            times.append(self._hearing.due_s)
        due_s = min((time for time in times if time is not None), default=math.inf)
        with trio.move_on_at(due_s):
            await self._woken.wait()
        self._woken = trio.Event()

    @contextlib.asynccontextmanager
    async def _using(self) -> AsyncIterator[Driver | None]:
        """Give the driver while its session may be used; ``None`` where there is none."""
        if self._session.state is not SessionState.UP or self._closing:
            await trio.lowlevel.checkpoint()
            yield None
            return
        self._users += 1
        try:
            if self._hold:
                yield self._session.driver
            else:
                yield await self._reopened()
        finally:
            self._users -= 1
            self._unused.unpark_all()
            if not self._hold and self._users == 0:
                with trio.move_on_after(SHUTDOWN_S, shield=True):
                    async with self._lock:
                        await self._close()

    async def _reopened(self) -> Driver | None:
        """Open a session that is not held; a driver that went since the last time is told."""
        async with self._lock:
            answer = await self._open()
            if isinstance(answer, Driver):
                return answer
            if self._session.state is SessionState.UP:
                self._set(tried(self._session, answer, now_s=trio.current_time()))
            return None

    async def _open(self) -> Driver | Refusal | NoAnswer:
        answer = await self._registry.ask(LIBRARY, "init", self._library.open, deadline_s=WALK_S)
        if isinstance(answer, Driver):
            self._sessions += not self._opened
            self._opened = True
            if not self._hold and not self._sight.handles():
                await self._sight.identify()
        return answer

    async def _close(self) -> tuple[str, ...]:
        """End the session, unless a call is out that does not come back.

        Returns:
            Whose call that is.
        """
        await self._hearing.stop()
        with trio.move_on_after(SHUTDOWN_S):
            while self._users:
                await self._unused.park()
            await self._registry.wait_quiet()
        holders = tuple(call.key for call in self._registry.open_calls())
        if self._users and not holders:
            holders = ("a walk",)
        if holders or not self._opened:
            return holders
        answer = await self._registry.ask(
            LIBRARY, "shutdown", self._library.close, deadline_s=SHUTDOWN_S
        )
        if isinstance(answer, NoAnswer):
            return (LIBRARY,)
        self._opened = False
        self._sight.forget()
        return ()

    def _returned(self) -> None:
        """Try again at once when what held up init has come back."""
        if self._session.state is SessionState.STALLED and not self._registry.busy(LIBRARY):
            self._set(attrs.evolve(self._session, due_s=trio.current_time()))

    def _set(self, session: Session) -> None:
        changed = session != self._session
        self._session = session
        self._wake()
        if changed:
            self._tell_changed()

    def _tell_changed(self) -> None:
        self._version += 1
        self._lot.unpark_all()

    def _wake(self) -> None:
        self._woken.set()
