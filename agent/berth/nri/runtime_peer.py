"""The runtime's side over a stream: with its timeouts, its one lock, and its failing open.

For the rehearsal and the tests; see `berth.nri.runtime_role` for what each version does.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import trio

from berth.errors import RemoteProtocolError
from berth.model.pod import Adjustment, Container, Sandbox
from berth.nri.events import Event, Happening
from berth.nri.runtime_role import (
    Answered,
    Item,
    Refused,
    Registered,
    RuntimeRole,
    Subscribed,
    Synchronized,
)

_RECEIVE_BYTES = 65536


@attrs.frozen(kw_only=True)
class Outcome:
    """What became of one event, as the runtime's own call sees it.

    Attributes:
        asked: Whether the plugin answered. If not, the runtime went on without it.
        error: The text with which the pod or container is refused; empty when it goes on.
        code: The status code of a refusal.
    """

    asked: bool = False
    error: str = ""
    code: int = 0
    adjustment: Adjustment = attrs.field(factory=Adjustment)


class RuntimePeer:
    """One plugin as the runtime holds it.

    Args:
        stream: The accepted connection; closed when `run` ends.
        role: A new role.
        registration_timeout_s: How long the plugin may take to register.
        request_timeout_s: How long it may take for each answer.
    """

    def __init__(
        self,
        stream: trio.abc.Stream,
        role: RuntimeRole,
        *,
        registration_timeout_s: float = 5.0,
        request_timeout_s: float = 2.0,
    ) -> None:
        self._stream = stream
        self._role = role
        self._registration_timeout_s = registration_timeout_s
        self._request_timeout_s = request_timeout_s
        self._relaying = trio.Lock()
        self._items: list[Item] = []
        self._news = trio.lowlevel.ParkingLot()
        self._gone = False

    @property
    def gone(self) -> bool:
        """Whether the plugin is connected no more."""
        return self._gone

    async def run(self) -> None:
        """Reads until the plugin is gone or dropped, and closes the connection."""
        async with self._stream:
            try:
                while not self._role.closed and (data := await self._read()):
                    self._items += self._role.receive(data)
                    await self._flush()
                    self._news.unpark_all()
            except RemoteProtocolError:
                pass  # A runtime drops such a plugin, and the pod's start goes on without it.
            finally:
                self._gone = True
                self._news.unpark_all()

    async def admit(
        self, sandboxes: Sequence[Sandbox] = (), containers: Sequence[Container] = ()
    ) -> bool:
        """Waits for the registration, then configures and synchronizes the plugin.

        Returns:
            Whether it hears of events now.
        """
        if not await self._admit_step(Registered, self._registration_timeout_s):
            return False
        if not await self._admit_step(Subscribed, self._request_timeout_s):
            return False
        self._role.synchronize(sandboxes, containers)
        await self._flush()
        return await self._admit_step(Synchronized, self._request_timeout_s)

    async def relay(
        self, kind: Event, sandbox: Sandbox, container: Container | None = None
    ) -> Outcome:
        """Tells the plugin an event and waits for what it says, no longer than the timeout.

        A container that the plugin agreed to create is shown to it once more if it wants to
        validate; there, its silence counts as a no.
        """
        async with self._relaying:
            validates = self._role.is_subscribed(Event.VALIDATE_CONTAINER_ADJUSTMENT)
            outcome = await self._relay(Happening(kind=kind, sandbox=sandbox, container=container))
            if kind is not Event.CREATE_CONTAINER or outcome.error or not validates:
                return outcome
            validate = Event.VALIDATE_CONTAINER_ADJUSTMENT
            verdict = await self._relay(
                Happening(kind=validate, sandbox=sandbox, container=container)
            )
            if not verdict.asked:
                return Outcome(error="validator plugin failed: ttrpc: closed")
            return attrs.evolve(outcome, error=verdict.error, code=verdict.code)

    async def _relay(self, happening: Happening) -> Outcome:
        ticket = None if self._gone else self._role.relay(happening)
        if ticket is None:
            return Outcome()
        await self._flush()
        with trio.move_on_after(self._request_timeout_s) as limit:
            while not self._gone:
                for item in self._items:
                    if isinstance(item, (Answered, Refused)) and item.ticket == ticket:
                        self._items.remove(item)
                        return _outcome(item)
                await self._news.park()
        if limit.cancelled_caught:
            await self._drop()
        return Outcome()

    async def _admit_step(
        self, step: type[Registered | Subscribed | Synchronized], limit_s: float
    ) -> bool:
        with trio.move_on_after(limit_s) as limit:
            while not self._gone:
                for item in self._items:
                    if isinstance(item, step):
                        self._items.remove(item)
                        return True
                await self._news.park()
        if limit.cancelled_caught:
            await self._drop()
        return False

    async def _drop(self) -> None:
        self._role.expire()
        if self._role.closed:
            await self._stream.aclose()

    async def _read(self) -> bytes:
        try:
            return bytes(await self._stream.receive_some(_RECEIVE_BYTES))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return b""

    async def _flush(self) -> None:
        data = self._role.data_to_send()
        try:
            if data:
                await self._stream.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return


def _outcome(item: Answered | Refused) -> Outcome:
    if isinstance(item, Refused):
        return Outcome(asked=True, error=item.message, code=item.code)
    return Outcome(asked=True, error=item.objection, adjustment=item.adjustment)
