"""The thread that waits for the events of one set.

It waits in slices: a wait cannot be called off, a set cannot be freed under it, and giving up the
session must not take longer than anyone is willing to wait.

Source: GH §2.7 to §2.9; that a slice is shorter than the 30 s there is for the sake of §2.6.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs
import trio

from berth.host.nvml import calls
from berth.host.nvml.pace import After, Pace, after
from berth.host.nvml.values import NvmlEvent, Refusal

SLICE_MS: Final = 500


class Listener:
    """One event set and its thread; made and used in the trio thread.

    Args:
        events: The set.
        uuids: Gives the addresses by UUID, for a handle that points elsewhere; called in trio.
        heard: Called in the trio thread with each event.
        ended: Called there with this listener when the set is of no further use.

    Attributes:
        addresses: The GPUs whose events are heard.
    """

    def __init__(
        self,
        events: Any,
        *,
        uuids: Callable[[], Mapping[str, str]],
        heard: Callable[[NvmlEvent], None],
        ended: Callable[[Listener, After], None],
    ) -> None:
        self.addresses: frozenset[str] = frozenset()
        self._events = events
        self._addresses: dict[int, str] = {}
        self._uuids = uuids
        self._heard = heard
        self._ended = ended
        self._stopping = threading.Event()
        self._left = trio.Event()
        self._token = trio.lowlevel.current_trio_token()

    def let_in(self, pointer: int, address: str) -> None:
        """Hear a GPU that was registered; from the first on there is a thread, a daemon.

        Args:
            pointer: What its handle points to.
        """
        is_first = not self._addresses
        self._addresses[pointer] = address
        self.addresses |= {address}
        if is_first:
            threading.Thread(target=self._listen, name="nvml events", daemon=True).start()

    async def stop(self) -> None:
        """Let the thread leave its wait, at most a slice and a pause away.

        When the caller is cancelled first, the thread still leaves.
        """
        self._stopping.set()
        if self.addresses:
            await self._left.wait()
        else:
            await trio.lowlevel.checkpoint()

    @property
    def events(self) -> Any:
        """The set."""
        return self._events

    def _listen(self) -> None:
        try:
            ended = self._turns()
        finally:
            self._enter(self._left.set)
        if ended is not None:
            self._enter(lambda: self._ended(self, ended))

    def _turns(self) -> After | None:
        pace = Pace()
        while not self._stopping.is_set():
            answer = calls.wait(self._events, most_ms=SLICE_MS)
            if not isinstance(answer, Refusal):
                self._tell(answer)
                continue
            result = after(answer.code)
            if result is not After.GO_ON:
                return result
            pace, pause_s = pace.counted(time.monotonic())
            self._stopping.wait(pause_s)
        return None

    def _tell(self, data: Any) -> None:
        address = self._addresses.get(calls.pointer(data.device), "")
        uuid = "" if address else calls.uuid_of(data.device)
        event = calls.event_at(address, data)

        def tell() -> None:
            known = address or self._uuids().get(uuid, "")
            self._heard(attrs.evolve(event, address=known))

        self._enter(tell)

    def _enter(self, function: Callable[[], object]) -> None:
        with contextlib.suppress(trio.RunFinishedError):
            self._token.run_sync_soon(function)
