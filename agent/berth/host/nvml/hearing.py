"""Keeps one event set over the GPUs of an open session, and makes it anew when it has to be.

A set in which a GPU is lost says so for ever and names none: each GPU is asked, the lost ones are
told of, and the next set is made without them. What comes between two sets is lost, so each GPU of
a new set is told as registered.

Each GPU comes into the set on its own, and from the first on the set is listened to: one that hangs
leaves the others to be heard, and comes in when it answers again.

Source: GH §2.7, §2.8.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any, Final

import trio

from berth.host.nvml import calls
from berth.host.nvml.inbox import Inbox
from berth.host.nvml.listener import Listener
from berth.host.nvml.pace import PAUSE_S, After
from berth.host.nvml.registry import PROBE_S, SHUTDOWN_S, Registry
from berth.host.nvml.sight import Sight
from berth.host.nvml.silence import LIBRARY
from berth.host.nvml.values import EventKind, NoAnswer, NvmlEvent, Refusal

AGAIN_S: Final = 60.0
"""No set is made sooner after the last for the sake of a GPU that could not come into it."""

_LOST: Final = 15
_REGISTER: Final = "register"


class Hearing:
    """The set of now.

    Args:
        inbox: Where events go.
        wake: Called when `due_s` has changed.

    Attributes:
        due_s: When `step` has something to do; ``None`` when it has not.
    """

    def __init__(self, registry: Registry, sight: Sight, inbox: Inbox, wake: Any) -> None:
        self.due_s: float | None = None
        self._registry = registry
        self._sight = sight
        self._inbox = inbox
        self._wake = wake
        self._listener: Listener | None = None
        self._began_s = float("-inf")
        self._anew = False
        self._doubted = False
        self._refused: set[str] = set()
        self._without: set[str] = set()
        self._late: set[str] = set()
        self._joining = trio.CancelScope()

    def addresses(self) -> frozenset[str]:
        """Give the GPUs whose events are heard."""
        return self._listener.addresses if self._listener else frozenset()

    def begin(self) -> None:
        """Let a set be made now, for a new session."""
        self._without.clear()
        self._renew(0)

    def answered(self, address: str) -> None:
        """Take note that a GPU answered: it gets its events, if it does not have them."""
        if self._listener is None or address in self._listener.addresses | self._without:
            return
        if self._anew:
            return  # the next set is for all
        if address not in self._refused:
            self._late.add(address)
            self._due(0)
        elif trio.current_time() - self._began_s >= AGAIN_S:
            self._renew(0)

    async def step(self) -> None:
        """Do what is due: make a set, and let GPUs into it; returns when each had its time.

        What ends the set meanwhile ends that too, so that the next is not kept waiting.
        """
        if self.due_s is None or self.due_s > trio.current_time():
            return
        self.due_s = None
        with trio.CancelScope() as self._joining:
            if self._anew:
                await self._make()
            else:
                late, self._late = self._late, set()
                await self._let_in(late)

    async def stop(self) -> None:
        """Give the set up; when its thread does not leave in time it is left to itself."""
        listener, self._listener = self._listener, None
        self._late.clear()
        if listener is None:
            return
        with trio.move_on_after(SHUTDOWN_S):
            await listener.stop()
            if self._is_entered():
                return  # NVML may still look at it
            await self._registry.ask(
                LIBRARY,
                "events",
                partial(calls.free_set, listener.events),
                deadline_s=SHUTDOWN_S,
            )

    def _is_entered(self) -> bool:
        """Whether a GPU that hangs is about to come into the set of now."""
        return any(
            call.purpose == _REGISTER and call.began_s >= self._began_s
            for call in self._registry.open_calls()
        )

    async def _make(self) -> None:
        """Make a set with all but the lost; of the last one, if it says so, each is asked first."""
        doubted = self.addresses() if self._doubted else frozenset()
        await self.stop()
        self._anew = self._doubted = False
        self._refused.clear()
        self._began_s = trio.current_time()
        events: Any = await self._registry.ask(
            LIBRARY, "events", calls.create_set, deadline_s=PROBE_S
        )
        if isinstance(events, Refusal | NoAnswer):
            self._renew(AGAIN_S)
            return
        self._listener = Listener(
            events, uuids=self._sight.uuids, heard=self._inbox.put_nowait, ended=self._ended
        )
        if self._sight.handles():
            await self._let_in(self._sight.handles(), doubted=doubted)
        else:
            await self._sight.identify(then=lambda address: self._let_in((address,)))

    async def _let_in(self, addresses: Collection[str], *, doubted: Collection[str] = ()) -> None:
        """Let GPUs into the set, each as soon as it answers.

        Args:
            doubted: Those of which one is lost.
        """
        handles = self._sight.handles()
        async with trio.open_nursery() as nursery:
            for address in handles.keys() & set(addresses):
                nursery.start_soon(self._let_one_in, address, handles[address], address in doubted)

    async def _let_one_in(self, address: str, handle: Any, is_doubted: bool) -> None:
        listener = self._listener
        if listener is None or (is_doubted and not await self._is_there(address)):
            return
        answer = await self._registry.ask(
            address, _REGISTER, partial(calls.register, handle, listener.events), deadline_s=PROBE_S
        )
        if answer is None:
            listener.let_in(calls.pointer(handle), address)
            self._inbox.put_nowait(NvmlEvent(kind=EventKind.REGISTERED, address=address))
        elif isinstance(answer, Refusal):
            hopeless = answer.code in calls.NOT_SUPPORTED
            (self._without if hopeless else self._refused).add(address)

    async def _is_there(self, address: str) -> bool:
        answer = await self._sight.probe(address)
        lost = isinstance(answer, Refusal) and answer.code == _LOST
        if lost:
            self._refused.add(address)
            self._inbox.put_nowait(NvmlEvent(kind=EventKind.LOST, address=address))
        return not lost and not isinstance(answer, NoAnswer)

    def _ended(self, listener: Listener, how: After) -> None:
        if self._listener is not listener:
            return
        self._doubted = how is After.LOST
        # A set that ends as soon as it is made must not be made again without a pause.
        young = trio.current_time() - self._began_s < PAUSE_S
        self._renew(PAUSE_S if young or how is After.BROKEN else 0)

    def _renew(self, in_s: float) -> None:
        self._anew = True
        self._joining.cancel()
        self._due(in_s)

    def _due(self, in_s: float) -> None:
        self.due_s = trio.current_time() + in_s
        self._wake()
