"""Finds out what the silence of GPUs means: who hangs by itself, and who is held up by another.

Source: GH §2.5, §6.6; `silence` for what is concluded from what.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping

import trio

from berth.host.nvml import calls
from berth.host.nvml.registry import CLASSIFY_S, PROBE_S, Registry
from berth.host.nvml.silence import LIBRARY, NEVER, Silence, overdue, silences
from berth.host.nvml.values import NoAnswer, Probe, Refusal


class Blame:
    """Judges by the calls that are out, and makes one where these prove nothing.

    Args:
        handles: Gives the GPUs of the session.
        probe: Asks whether a GPU is well, for so many seconds at most.
    """

    def __init__(
        self,
        registry: Registry,
        *,
        handles: Callable[[], Collection[str]],
        probe: Callable[[str, float], Awaitable[Probe | Refusal | NoAnswer]],
    ) -> None:
        self._registry = registry
        self._handles = handles
        self._probe = probe
        self._proof_s = NEVER

    async def silences(self) -> Mapping[str, Silence]:
        """See `Nvml.silences`."""
        await trio.lowlevel.checkpoint()
        known = self._known()
        if Silence.STALLED not in known.values():
            return known
        with trio.move_on_after(CLASSIFY_S):
            await self._seek_proof()
        return self._known()

    def _known(self) -> Mapping[str, Silence]:
        now_s = trio.current_time()
        return silences(self._registry.open_calls(), now_s, proof_s=self._proof_s)

    async def _seek_proof(self) -> None:
        """Ask one GPU after the other until one answers, or, where none is free, the library.

        What the library answers without any GPU is the weaker proof: it may come from its memory.
        """
        began_s = trio.current_time()
        late = overdue(self._registry.open_calls(), began_s)
        # It has to be overdue itself before the patience with the others is over.
        deadline_s = min(PROBE_S, *(call.deadline_s for call in late))
        for address in [each for each in self._handles() if not self._registry.busy(each)]:
            if isinstance(await self._probe(address, deadline_s), Probe):
                self._proof_s = began_s
                return
        count = await self._registry.ask(LIBRARY, "count", calls.count, deadline_s=deadline_s)
        if isinstance(count, int):
            self._proof_s = began_s
