"""Stands before whoever answers the runtime's events, and counts how long that takes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Final

import trio

from berth.metrics.words import ERROR, LATE, OK, reason_of
from berth.model.meter import Tally, Timing
from berth.model.pod import Adjustment, Container, Sandbox
from berth.nri.handlers import Hooks, Turn

_GATES: Final = frozenset({"run_pod_sandbox", "create_container", "start_container"})
# Hooks by which a pod or container is let through, or is not.


class MeteredHooks:
    """`Hooks` that count.

    Args:
        hooks: Who answers.

    Attributes:
        seconds: How long each hook took, by hook and result.
        refusals: What was not let through, by reason.
    """

    def __init__(self, hooks: Hooks) -> None:
        self.seconds = Timing("hook", "result")
        self.refusals = Tally("reason")
        self._hooks = hooks

    async def synchronize(
        self, sandboxes: Sequence[Sandbox], containers: Sequence[Container]
    ) -> None:
        """See `Hooks`."""
        with self._timed("synchronize"):
            await self._hooks.synchronize(sandboxes, containers)

    async def run_pod_sandbox(self, sandbox: Sandbox, turn: Turn) -> None:
        """See `Hooks`."""
        with self._timed("run_pod_sandbox"):
            await self._hooks.run_pod_sandbox(sandbox, turn)

    async def stop_pod_sandbox(self, sandbox: Sandbox) -> None:
        """See `Hooks`."""
        with self._timed("stop_pod_sandbox"):
            await self._hooks.stop_pod_sandbox(sandbox)

    async def remove_pod_sandbox(self, sandbox: Sandbox) -> None:
        """See `Hooks`."""
        with self._timed("remove_pod_sandbox"):
            await self._hooks.remove_pod_sandbox(sandbox)

    async def create_container(
        self, sandbox: Sandbox, container: Container, turn: Turn
    ) -> Adjustment | None:
        """See `Hooks`."""
        with self._timed("create_container"):
            return await self._hooks.create_container(sandbox, container, turn)

    async def start_container(self, sandbox: Sandbox, container: Container, turn: Turn) -> None:
        """See `Hooks`."""
        with self._timed("start_container"):
            await self._hooks.start_container(sandbox, container, turn)

    async def stop_container(self, sandbox: Sandbox, container: Container) -> None:
        """See `Hooks`."""
        with self._timed("stop_container"):
            await self._hooks.stop_container(sandbox, container)

    async def remove_container(self, sandbox: Sandbox, container: Container) -> None:
        """See `Hooks`."""
        with self._timed("remove_container"):
            await self._hooks.remove_container(sandbox, container)

    @contextlib.contextmanager
    def _timed(self, hook: str) -> Iterator[None]:
        # What is neither well nor an error was cut off; a nursery gives several such as a group.
        began, result, reason = trio.current_time(), LATE, LATE
        try:
            yield
            result, reason = OK, ""
        except Exception as error:
            result, reason = ERROR, reason_of(error)
            raise
        finally:
            self.seconds.observe(trio.current_time() - began, hook, result)
            if reason and hook in _GATES:
                self.refusals.add(reason)
