"""The pump between one NRI socket and the session: reads, feeds, dispatches, writes under one lock.

Silence is the one answer that must never be: a runtime that waits in vain drops the plugin and
starts the pod as if nothing had been asked. So beside each hook runs a watch that answers by an
error before the runtime's patience ends (`answer_limit_s`).

Hooks run in a nursery that outlives the connection: a thread that is late with undoing does not
hold up the next connection.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import attrs
import trio

from berth.errors import BerthError, HostError, RemoteProtocolError
from berth.model.pod import Adjustment
from berth.nri.events import Event
from berth.nri.handlers import Hooks, Turn
from berth.nri.session import Configured, Item, Session, Synchronize, Told
from berth.nri.ttrpc import Code
from berth.nri.versions import Runtime
from berth.runtime.logs import get_log
from berth.runtime.threads import Decision

REGISTRATION_LIMIT_S = 30.0
"""From our registration to Configure: runtimes serve one new plugin after another, 5 s each."""

SYNCHRONIZE_LIMIT_S = 10.0
"""From Configure to Synchronize answered; beyond it NRI 0.6 has forgotten us without a word."""

RESERVE_S = 0.5
"""What is kept of the runtime's patience for the way back."""

SETTLED_GRACE_S = 0.3
"""How long a hook whose thread was in time may take to return beyond the limit."""

WRITE_LIMIT_S = 5.0
"""How long the runtime may leave our bytes unread."""

_RECEIVE_BYTES = 65536
_log = get_log(__name__)


def answer_limit_s(timeout_s: float, patience_s: float | None) -> float:
    """Gives the seconds in which a question is answered, by an error at the latest.

    Args:
        timeout_s: The operator's limit.
        patience_s: What the runtime told with the question; ``None`` when it waits for ever.
    """
    if patience_s is None:
        return timeout_s
    return min(timeout_s, max(patience_s - RESERVE_S, patience_s / 2))


@attrs.define(kw_only=True, eq=False)
class _Work:
    """A question that a hook works on."""

    item: Synchronize | Told
    turn: Turn
    received: float
    scope: trio.CancelScope = attrs.field(factory=lambda: trio.CancelScope(shield=True))

    @property
    def name(self) -> str:
        return self.item.kind.method if isinstance(self.item, Told) else "Synchronize"

    @property
    def pod(self) -> str:
        return str(self.item.sandbox) if isinstance(self.item, Told) else "all"


class Connection:
    """One connection to the runtime, from registration to its end.

    Args:
        stream: The connected socket; closed when `run` ends.
        session: A new session.
        hooks: What each event does.
        timeout_s: The operator's limit for an answer.
        nursery: Where hooks run.
        on_synchronized: Called when Synchronize has been answered and events come from now on.
    """

    def __init__(
        self,
        stream: trio.abc.Stream,
        *,
        session: Session,
        hooks: Hooks,
        timeout_s: float,
        nursery: trio.Nursery,
        on_synchronized: Callable[[Runtime], None],
    ) -> None:
        self._stream = stream
        self._session = session
        self._hooks = hooks
        self._timeout_s = timeout_s
        self._nursery = nursery
        self._on_synchronized = on_synchronized
        self._sending = trio.Lock()
        self._scope = trio.CancelScope()
        self._fault: BerthError | None = None
        self._open: dict[int, _Work] = {}
        self._ended = trio.lowlevel.ParkingLot()

    async def run(self) -> None:
        """Registers and serves until the runtime closes the connection.

        A cancel lets the hooks that run finish within their limits, so that no pod starts for want
        of an answer, and closes the connection then.

        Raises:
            BerthError: We closed the connection: the registration, Configure or Synchronize
                failed, or the runtime broke the protocol or does not read.
        """
        async with self._stream:
            try:
                with self._scope:
                    self._scope.deadline = trio.current_time() + REGISTRATION_LIMIT_S
                    await self._serve()
            except trio.Cancelled:
                with trio.move_on_after(self._longest_wait_s(), shield=True):
                    await self._wait_answered()
                raise
            finally:
                self._abandon()
        self._raise_fault()

    async def _serve(self) -> None:
        self._session.register()
        await self._flush()
        while self._fault is None and (data := await self._read()):
            for item in self._receive(data):
                self._take(item)
            await self._flush()

    def _receive(self, data: bytes) -> Sequence[Item]:
        try:
            return self._session.receive(data)
        except RemoteProtocolError as fault:
            self._fault = fault
            return ()

    async def _read(self) -> bytes:
        try:
            return bytes(await self._stream.receive_some(_RECEIVE_BYTES))
        except trio.BrokenResourceError:
            return b""

    def _take(self, item: Item) -> None:
        if isinstance(item, Configured):
            self._scope.deadline = trio.current_time() + SYNCHRONIZE_LIMIT_S
            return
        turn = Turn(
            limit_s=answer_limit_s(self._timeout_s, item.timeout_s),
            decision=Decision(),
            runtime=self._session.runtime,
        )
        work = _Work(item=item, turn=turn, received=trio.current_time())
        self._open[item.call] = work
        self._nursery.start_soon(self._work, work)

    async def _work(self, work: _Work) -> None:
        """Runs the hook and its watch; neither an outer cancel nor a fault gets out of here."""
        try:
            with work.scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._watch, work)
                    await self._handle(work)
                    nursery.cancel_scope.cancel()
        finally:
            self._open.pop(work.item.call, None)
            self._ended.unpark_all()

    async def _watch(self, work: _Work) -> None:
        await trio.sleep(work.turn.limit_s)
        if not work.turn.decision.claim_late():
            await trio.sleep(SETTLED_GRACE_S)
        text = f"not done within {work.turn.limit_s:.2f} s; kubelet tries again"
        fault = HostError(f"berth {work.name}", text)
        await self._refuse(work, Code.UNAVAILABLE, fault)
        work.scope.cancel()

    async def _handle(self, work: _Work) -> None:
        try:
            adjustment = await self._call_hook(work.item, work.turn)
            await self._answer(work, adjustment)
        except BerthError as fault:
            await self._refuse(work, Code.FAILED_PRECONDITION, fault)
        except Exception as error:  # noqa: BLE001 - whatever a hook raises must become an answer
            _log.exception("NRI hook failed", event=work.name, pod=work.pod)
            internal = HostError(f"berth {work.name}", f"internal fault: {error!r}")
            await self._refuse(work, Code.INTERNAL, internal)

    async def _call_hook(self, item: Synchronize | Told, turn: Turn) -> Adjustment | None:
        hooks = self._hooks
        if isinstance(item, Synchronize):
            await hooks.synchronize(item.sandboxes, item.containers)
            return None
        if item.container is None:
            await self._call_pod_hook(item, turn)
            return None
        if item.kind is Event.CREATE_CONTAINER:
            return await hooks.create_container(item.sandbox, item.container, turn)
        if item.kind is Event.START_CONTAINER:
            await hooks.start_container(item.sandbox, item.container, turn)
        elif item.kind is Event.STOP_CONTAINER:
            await hooks.stop_container(item.sandbox, item.container)
        elif item.kind is Event.REMOVE_CONTAINER:
            await hooks.remove_container(item.sandbox, item.container)
        return None

    async def _call_pod_hook(self, item: Told, turn: Turn) -> None:
        if item.kind is Event.RUN_POD_SANDBOX:
            await self._hooks.run_pod_sandbox(item.sandbox, turn)
        elif item.kind is Event.STOP_POD_SANDBOX:
            await self._hooks.stop_pod_sandbox(item.sandbox)
        elif item.kind is Event.REMOVE_POD_SANDBOX:
            await self._hooks.remove_pod_sandbox(item.sandbox)

    async def _answer(self, work: _Work, adjustment: Adjustment | None) -> None:
        if not work.turn.decision.claim_done():
            return
        answered = self._session.answer(work.item.call, adjustment)
        await self._flush()
        if answered and isinstance(work.item, Synchronize):
            self._synchronized(work.item, work.received)

    def _synchronized(self, item: Synchronize, received: float) -> None:
        if item.timeout_s is not None and trio.current_time() - received >= item.timeout_s:
            self._fail(HostError("NRI Synchronize", "answered after the runtime's time was over"))
            return
        self._scope.deadline = math.inf
        self._on_synchronized(self._session.runtime)

    async def _refuse(self, work: _Work, code: Code, fault: BerthError) -> None:
        if not self._session.refuse(work.item.call, code, str(fault)):
            return
        _log.warning("NRI event refused", event=work.name, pod=work.pod, reason=fault)
        await self._flush()
        if isinstance(work.item, Synchronize):
            self._fail(fault)

    async def _flush(self) -> None:
        """Writes what the session has to say; never half of it, whoever is cancelled."""
        with trio.move_on_after(WRITE_LIMIT_S, shield=True) as scope:
            async with self._sending:
                data = self._session.data_to_send()
                try:
                    if data:
                        await self._stream.send_all(data)
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    return  # The reader meets the same end and tells it.
        if scope.cancelled_caught:
            text = f"the runtime has read nothing for {WRITE_LIMIT_S:.0f} s"
            self._fail(RemoteProtocolError("NRI", text))

    def _fail(self, fault: BerthError) -> None:
        self._fault = self._fault or fault
        self._scope.cancel()

    def _raise_fault(self) -> None:
        if self._fault is not None:
            raise self._fault
        if self._scope.cancelled_caught:
            stage = self._session.reached.value
            raise RemoteProtocolError("NRI", f"the runtime left us {stage} for too long")

    def _longest_wait_s(self) -> float:
        longest = max((work.turn.limit_s for work in self._open.values()), default=0.0)
        return longest + SETTLED_GRACE_S

    async def _wait_answered(self) -> None:
        while self._open:
            await self._ended.park()

    def _abandon(self) -> None:
        self._session.end()
        for work in self._open.values():
            work.turn.decision.claim_late()
            work.scope.cancel()
