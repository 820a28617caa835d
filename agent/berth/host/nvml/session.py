"""In which state the session with NVML is, and when it is tried next.

    no-gpu ──function seen──▶ (due) ──init──▶ up ──release──▶ released ──bind, time over──▶ (due)
                                │                                                    │
                                └─▶ library-absent, driver-absent, mismatch, failed, stalled
                                          └──uevent, every RETRY_S──▶ (due)

A session that is up stays so until it is released, or until the last function is gone: a driver
cannot be unloaded beneath it. Whether several GPUs of a session that is up are silent is not kept
here: `silence` derives it from the calls that are out.

Source: GH §2.3 and §2.6; ``failed`` is ours, for errors of init that have no state there.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

import attrs

from berth.host.nvml.values import NoAnswer, Refusal
from berth.model.gpu import Driver

RETRY_S: Final = 60.0
"""Between two tries without an event."""


class SessionState(Enum):
    """The states; their values are what status and metrics show."""

    NO_GPU = "no-gpu"
    UP = "up"
    STALLED = "stalled"
    RELEASED = "released"
    LIBRARY_ABSENT = "library-absent"
    DRIVER_ABSENT = "driver-absent"
    MISMATCH = "mismatch"
    FAILED = "failed"


_BY_CODE: Final = {
    9: SessionState.DRIVER_ABSENT,
    12: SessionState.LIBRARY_ABSENT,
    18: SessionState.MISMATCH,
}


@attrs.frozen(kw_only=True)
class Session:
    """The state, and when init is due.

    Attributes:
        detail: For people: what NVML said; empty when there is nothing to say.
        driver: While the session is up.
        due_s: When init is tried; ``None`` for no timer at all.
        functions: How many GPUs the PCI inventory has.
    """

    state: SessionState = SessionState.NO_GPU
    detail: str = ""
    driver: Driver | None = None
    due_s: float | None = None
    functions: int = 0

    def due(self, now_s: float) -> bool:
        """Whether init is to be tried now."""
        return self.due_s is not None and self.due_s <= now_s


def noticed(session: Session, *, functions: int, bind: bool, now_s: float) -> Session:
    """Give the session after a look at the PCI inventory.

    Args:
        functions: How many GPUs the inventory has.
        bind: A driver was bound to one, or a module loaded: what ends a release early.
    """
    due_s: float | None = now_s
    if session.state is SessionState.RELEASED:
        due_s = now_s if bind and functions else session.due_s
    elif functions == 0:
        return Session()
    elif session.state is SessionState.UP:
        due_s = session.due_s
    return attrs.evolve(session, functions=functions, due_s=due_s)


def tried(session: Session, answer: Driver | Refusal | NoAnswer, *, now_s: float) -> Session:
    """Give the session after init."""
    if isinstance(answer, Driver):
        return Session(state=SessionState.UP, driver=answer, functions=session.functions)
    state = (
        _BY_CODE.get(answer.code, SessionState.FAILED)
        if isinstance(answer, Refusal)
        else SessionState.STALLED
    )
    return Session(
        state=state, detail=answer.text, due_s=now_s + RETRY_S, functions=session.functions
    )


def released(session: Session, *, for_s: float, now_s: float) -> Session:
    """Give the session after it was given up for a time."""
    return Session(
        state=SessionState.RELEASED,
        detail=f"given up for {for_s:.0f} s",
        due_s=now_s + for_s,
        functions=session.functions,
    )


def resumed(session: Session, *, now_s: float) -> Session:
    """Give the session at the end of a release, or when its keeper begins again."""
    if session.functions == 0:
        return Session()
    return attrs.evolve(session, due_s=now_s)
