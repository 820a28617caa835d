"""A GPU that is taken from the driver, and comes back, over the stand-in for its library."""

from __future__ import annotations

import attrs
import pytest

from berth.errors import ClaimError
from berth.host.nvml.session import SessionState
from berth.node.gpus.grip import Grip
from berth.rehearsal.nvml.world import Process
from tests.nvml import cards
from tests.unit.host.nvml.conftest import FULL, OTHER, PARTED, Opened, Show, settled


async def test_session_sees_a_gpu_go_and_come_back(opened: Opened, show: Show) -> None:
    """The library has no session while the driver changes, and the next one sees what is there."""

    async with opened() as owner:
        grip = Grip(lambda: owner)
        grip.take()
        async with grip.let_go():
            closed = not owner._library._ready
            show(cards(PARTED, OTHER))
            grip.heard_bus()
            during = owner.session.state
        await settled(owner)
        away = [gpu.address for gpu in (await owner.walk()).gpus]
        async with grip.let_go():
            show(cards(FULL, PARTED, OTHER))
        await settled(owner)
        back = [gpu.address for gpu in (await owner.walk()).gpus]
        sessions = owner.statistics().sessions

    assert (closed, during, sessions) == (True, SessionState.RELEASED, 3)
    assert away == sorted([PARTED.address, OTHER.address])
    assert back == sorted([FULL.address, PARTED.address, OTHER.address])


async def test_gpu_with_a_process_is_refused_by_its_number(opened: Opened, show: Show) -> None:
    """As the library tells it; one without is let through."""

    show(cards(attrs.evolve(FULL, processes=(Process(pid=4711),)), PARTED, OTHER))
    async with opened() as owner:
        grip = Grip(lambda: owner)
        grip.take()
        with pytest.raises(ClaimError, match="is in use by process 4711"):
            await grip.require_idle(FULL.address)
        await grip.require_idle(OTHER.address)
