"""What pods have that started while we were away, as their containers say.

The runtime waits for our answer to its lists and gives up on us if it does not come. So all
questions to kubelet share one short limit; what it did not say by then is asked for again in a
task for which nobody waits.

Source: NC §5.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from collections.abc import Container as Ids
from typing import Final

import attrs
import trio

from berth.errors import BerthError
from berth.model.pod import Container, Sandbox
from berth.nri.sources import ResourcePods
from berth.runtime.logs import get_log

MARK_LIVING_S: Final = 0.5
"""Time for all that kubelet is asked while the runtime waits."""

EVERY_S: Final = 2.0
"""How long after that it is asked again, and again; and the limit of each such question."""

LATE_MARK_S: Final = 20.0
"""How long that is done, however many they are: what is not known then is learnt by the pod's next
container."""

_log = get_log(__name__)


@attrs.frozen
class _Unmarked:
    """A pod of which kubelet did not say what it has, and what it said instead."""

    sandbox: Sandbox
    containers: Sequence[Container]
    error: BerthError


class LivingPods:
    """Learns it.

    Args:
        resources: Pods that asked for resources; ``None`` where there are none.
        note: Remembers a refusal for the operator.
        there: The sandboxes that are there, by their ids; asked each time.
        attach: Brings a pod its NICs, late.
    """

    def __init__(
        self,
        resources: ResourcePods | None,
        *,
        note: Callable[[Sandbox, BerthError], None],
        there: Callable[[], Ids[str]],
        attach: Callable[[Sandbox], Awaitable[None]],
    ) -> None:
        self._resources = resources
        self._note = note
        self._there = there
        self._attach = attach
        self._unmarked: list[_Unmarked] = []

    async def mark(self, sandboxes: Sequence[Sandbox], containers: Sequence[Container]) -> None:
        """Learn what can be learnt now; what fails is left for `mark_late`."""
        self._unmarked = []
        if self._resources is None:
            return
        ends_at = trio.current_time() + MARK_LIVING_S
        by_sandbox: dict[str, list[Container]] = {sandbox.id: [] for sandbox in sandboxes}
        for container in containers:
            by_sandbox.get(container.sandbox_id, []).append(container)
        for sandbox in sandboxes:
            own = by_sandbox[sandbox.id]
            try:
                limit_s = max(0.0, ends_at - trio.current_time())
                await self._resources.mark(sandbox, own, limit_s=limit_s)
            except BerthError as error:
                self._unmarked.append(_Unmarked(sandbox, own, error))

    async def mark_late(self) -> None:
        """Learn the rest, one pod after the other; what fails to the end is told."""
        unmarked, self._unmarked = self._unmarked, []
        ends_at = trio.current_time() + LATE_MARK_S
        while unmarked and trio.current_time() < ends_at:
            await trio.sleep(EVERY_S)
            tried = [await self._mark_late(one, ends_at) for one in unmarked]
            unmarked = [one for one in tried if one is not None]
        for one in unmarked:
            if one.sandbox.id in self._there():
                self._note(one.sandbox, one.error)
                reason = one.error
                _log.warning("not known what a running pod has", pod=one.sandbox, reason=reason)

    async def _mark_late(self, one: _Unmarked, ends_at: float) -> _Unmarked | None:
        """Try it once more while there is time; ``None`` when nothing is left to do."""
        if self._resources is None or one.sandbox.id not in self._there():
            return None
        limit_s = min(EVERY_S, ends_at - trio.current_time())
        if limit_s <= 0:
            return one
        try:
            await self._resources.mark(one.sandbox, one.containers, limit_s=limit_s)
        except BerthError as error:
            return attrs.evolve(one, error=error)
        await self._attach(one.sandbox)
        return None
