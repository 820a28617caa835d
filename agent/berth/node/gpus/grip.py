"""The grip that berth has on NVIDIA's driver: a session with its library, let go of when it is due.

An operator lets go to replace the driver or to reset a GPU; a claim lets go while its GPU is taken
from the driver, which waits until nobody has it open. What pods have is not touched by either.

Source: GH §2.6, §1.6.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Final

import trio

from berth.errors import ClaimError
from berth.host.nvml.session import Session, SessionState
from berth.host.nvml.values import NoAnswer
from berth.node.gpus.nvml import Nvml
from berth.runtime.logs import get_log

LET_GO_S: Final = 60.0
"""How long a claim's letting go may last if nobody ends it; binding takes some seconds."""

SESSION_S: Final = 10.0
"""How long a session is waited for that another claim let go of."""

_NO_SUCH_QUESTION: Final = frozenset({3, 13})
# Codes by which a driver says that it cannot be asked this at all; any other may mean anything.

_RULE: Final = "a GPU is taken from its driver while nobody uses it"
_log = get_log(__name__)


class Grip:
    """The session of one node, once a GPU was seen.

    Args:
        open_nvml: Makes the owner of the session.

    Attributes:
        nvml: The owner; ``None`` before.
    """

    def __init__(self, open_nvml: Callable[[], Nvml]) -> None:
        self._open_nvml = open_nvml
        self.nvml: Nvml | None = None
        self._letting_go = 0

    @property
    def session(self) -> Session:
        """The session's state, for the operator."""
        return self.nvml.session if self.nvml is not None else Session()

    def take(self) -> Nvml:
        """Make the owner; whoever asks has it run."""
        self.nvml = self._open_nvml()
        return self.nvml

    def forget(self) -> None:
        """The owner's run is over."""
        self.nvml = None

    async def release(self, for_s: float) -> None:
        """Let go of the driver for a time, or until one is bound; GPUs stay as last known.

        Raises:
            HostError: Calls are out that do not come back.
        """
        if self.nvml is not None:
            await self.nvml.release(for_s)
            _log.info("driver let go of", for_s=for_s)

    def resume(self) -> None:
        """Take the driver up again before that time."""
        if self.nvml is not None:
            self.nvml.resume()

    @contextlib.asynccontextmanager
    async def let_go(self) -> AsyncIterator[None]:
        """Let go of the driver for the block, unless an operator has done so: then it is his.

        Raises:
            HostError: Calls are out that do not come back.
        """
        nvml = self.nvml
        by_operator = self.session.state is SessionState.RELEASED and not self._letting_go
        if nvml is None or by_operator:
            yield
            return
        self._letting_go += 1
        try:
            await nvml.release(LET_GO_S)
            yield
        finally:
            self._letting_go -= 1
            if not self._letting_go:
                nvml.resume()

    def heard_bus(self) -> None:
        """A device or a module came or went: who waits for the driver looks, unless a claim does.

        Taking the session up while a GPU is taken from the driver would keep that from its end.
        """
        if self.nvml is not None:
            bind = not self._letting_go
            self.nvml.notice(functions=self.nvml.session.functions, bind=bind)

    async def processes(self, address: str) -> tuple[int, ...]:
        """Which processes compute on a GPU; none where the driver does not say."""
        if self.nvml is None:
            return ()
        found = await self.nvml.processes(address)
        return found if isinstance(found, tuple) else ()

    async def require_idle(self, address: str) -> None:
        """Refuse a GPU on which somebody computes, or of which the driver says nothing.

        Raises:
            ClaimError: The same.
        """
        nvml = self.nvml
        if nvml is None:
            return
        with trio.move_on_after(SESSION_S):
            while nvml.session.state is not SessionState.UP:
                await nvml.wait_session_changed(nvml.version)
        found = await nvml.processes(address)
        if isinstance(found, tuple):
            _require_none(address, found)
        elif isinstance(found, NoAnswer) or found.code not in _NO_SUCH_QUESTION:
            raise ClaimError(
                f"GPU {address}",
                f"is not known to be free: {found.text} (session {nvml.session.state.value})",
                rule=_RULE,
                mend="`berth status` shows the session; `berth gpu resume` ends a release",
            )


def _require_none(address: str, processes: tuple[int, ...]) -> None:
    if processes:
        raise ClaimError(
            f"GPU {address}",
            f"is in use by process {', '.join(map(str, processes))}",
            rule=_RULE,
            mend="end it; `berth gpu holders` tells what it is",
        )
