"""Keeps one event set over the GPUs of an open session, and makes it anew when it has to be.

A set in which a GPU is lost says so for ever and names none: each GPU is asked, the lost ones are
told of, and the next set is made without them. What comes between two sets is lost, so each GPU of
a new set is told as registered.

Source: GH §2.7, §2.8.
"""

from __future__ import annotations

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
"""No set is made sooner after the last for the sake of a GPU that is not in it."""

_LOST: Final = 15


class Hearing:
    """The set of now.

    Args:
        inbox: Where events go.
        wake: Called when `due_s` has changed.
    """

    def __init__(self, registry: Registry, sight: Sight, inbox: Inbox, wake: Any) -> None:
        self._registry = registry
        self._sight = sight
        self._inbox = inbox
        self._wake = wake
        self._listener: Listener | None = None
        self._began_s = float("-inf")
        self._lost = False
        self._without: set[str] = set()
        self.due_s: float | None = None

    def addresses(self) -> frozenset[str]:
        """Give the GPUs whose events are heard."""
        return self._listener.addresses if self._listener else frozenset()

    def begin(self) -> None:
        """Let a set be made now, for a new session."""
        self._without.clear()
        self._due(0)

    def answered(self, address: str) -> None:
        """Take note that a GPU answered: it gets its events, if it does not have them."""
        if self._listener is None or address in self._listener.addresses | self._without:
            return
        if trio.current_time() - self._began_s >= AGAIN_S and self.due_s is None:
            self._due(0)

    async def step(self) -> None:
        """Do what is due: ask who is lost, then make a set."""
        if self.due_s is None or self.due_s > trio.current_time():
            return
        self.due_s = None
        lost = await self._ask_lost() if self._lost else frozenset()
        self._lost = False
        await self.stop()
        await self._listen(lost)

    async def stop(self) -> None:
        """Give the set up; when its thread does not leave in time it is left to itself."""
        listener, self._listener = self._listener, None
        if listener is None:
            return
        with trio.move_on_after(SHUTDOWN_S):
            await listener.stop()
            await self._registry.ask(
                LIBRARY,
                "events",
                partial(calls.free_set, listener.events),
                deadline_s=SHUTDOWN_S,
            )

    async def _ask_lost(self) -> frozenset[str]:
        lost: set[str] = set()

        async def ask(address: str) -> None:
            answer = await self._sight.probe(address)
            if isinstance(answer, Refusal) and answer.code == _LOST:
                lost.add(address)
                self._inbox.put_nowait(NvmlEvent(kind=EventKind.LOST, address=address))

        async with trio.open_nursery() as nursery:
            for address in self.addresses():
                nursery.start_soon(ask, address)
        return frozenset(lost)

    async def _listen(self, lost: frozenset[str]) -> None:
        self._began_s = trio.current_time()
        if not self._sight.handles():
            await self._sight.identify()
        events: Any = await self._registry.ask(
            LIBRARY, "events", calls.create_set, deadline_s=PROBE_S
        )
        if isinstance(events, Refusal | NoAnswer):
            self._due(AGAIN_S)
            return
        wanted = {a: h for a, h in self._sight.handles().items() if a not in lost}
        registered: dict[int, str] = {}

        async def register(address: str, handle: Any) -> None:
            answer = await self._registry.ask(
                address, "register", partial(calls.register, handle, events), deadline_s=PROBE_S
            )
            if answer is None:
                registered[calls.pointer(handle)] = address
            elif isinstance(answer, Refusal) and answer.code in calls.NOT_SUPPORTED:
                self._without.add(address)

        async with trio.open_nursery() as nursery:
            for address, handle in wanted.items():
                nursery.start_soon(register, address, handle)
        self._listener = Listener(
            events,
            addresses=registered,
            uuids=self._sight.uuids,
            heard=self._inbox.put_nowait,
            ended=self._ended,
        )
        self._listener.start()
        for address in sorted(registered.values()):
            self._inbox.put_nowait(NvmlEvent(kind=EventKind.REGISTERED, address=address))

    def _ended(self, how: After) -> None:
        if self._listener is None:
            return
        self._lost = how is After.LOST
        # A set that ends as soon as it is made must not be made again without a pause.
        young = trio.current_time() - self._began_s < PAUSE_S
        self._due(PAUSE_S if young or how is After.BROKEN else 0)

    def _due(self, in_s: float) -> None:
        self.due_s = trio.current_time() + in_s
        self._wake()
