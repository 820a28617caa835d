"""An owner of NVML over the stand-in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol

import pynvml
import pytest
import trio

from berth.host.nvml import listener
from berth.host.nvml.owner import Nvml
from berth.rehearsal.nvml.cards import divided, divisible, whole
from berth.rehearsal.nvml.world import World
from tests import nvml

FULL = whole(0, "0000:3b:00.0")
"""The first GPU."""

PARTED = divided(divisible(1, "0000:af:00.0"), ((9, 7, 4), (19, 9, 0)))
"""The second, with two GPU instances."""

OTHER = whole(2, "0000:d8:00.0")
"""The third."""

Show = Callable[[World], None]


class Opened(Protocol):
    """Runs an owner for a block, with the session open."""

    def __call__(
        self, *, hold: bool = ..., settle: bool = ...
    ) -> AbstractAsyncContextManager[Nvml]:
        """Begin; unless told otherwise, when every GPU is heard."""


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """End of each session waits for the listener, which waits for events in slices."""
    monkeypatch.setattr(listener, "SLICE_MS", 20)


@pytest.fixture
def show(tmp_path: Any) -> Iterator[Show]:
    """Show the three; another world can be put in their place. Ends every session left open."""
    nvml.library()
    with nvml.shown(tmp_path / "world", nvml.cards(FULL, PARTED, OTHER)) as put:
        yield put
        put(World())  # whatever hangs, returns
        while pynvml.nvmlLib is not None:
            try:
                pynvml.nvmlShutdown()
            except pynvml.NVMLError:
                break


@pytest.fixture
def opened(show: Show) -> Opened:
    """Run an owner whose session is up."""

    @asynccontextmanager
    async def run(*, hold: bool = True, settle: bool = True) -> Any:
        owner = Nvml(library=str(nvml.library()), hold=hold)
        async with trio.open_nursery() as nursery:
            await nursery.start(owner.run)
            owner.notice(functions=3)
            if settle:
                await settled(owner)
            yield owner
            nursery.cancel_scope.cancel()

    return run


async def settled(owner: Nvml) -> None:
    """Wait until the session is tried and its events, if any, are heard."""
    while owner.session.due_s is not None and owner.session.driver is None:
        if owner.session.detail and owner.session.due_s > trio.current_time():
            return
        await trio.testing.wait_all_tasks_blocked(0.01)
    while owner._hold and owner.session.driver is not None:
        if owner.statistics().listening and not owner._lock.locked():
            return
        await trio.testing.wait_all_tasks_blocked(0.01)
