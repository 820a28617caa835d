"""A device that is sick and well a thousand times a minute: what everybody makes of it together."""

from __future__ import annotations

import gc
from typing import Any, Final

import attrs
import pytest
import trio
from trio.testing import MockClock

from berth.dra.health import HealthStreams
from berth.dra.healthreport import Place
from berth.health.taints import Rules
from berth.health.verdict import Status
from berth.model.inventory import Inventory
from berth.node.health.offered import judged
from tests.unit.daemon.conftest import journal
from tests.unit.dra.shelf import nic
from tests.unit.dra.test_publisher import Open, Scene, scene
from tests.unit.node.health.test_judge import MODEM, SICK, Bed, begun

__all__ = ["scene"]

CHANGES: Final = 1000
MINUTES: Final = 10
GAP_S: Final = 60 / CHANGES
DEVICE: Final = attrs.evolve(nic(0), name=MODEM.name)
RULES: Final = Rules(driver="berth.dev")
OBJECTS: Final = 2000
"""What may be more after nine minutes of it than after one: nothing is kept of 9000 changes."""


async def publish(bed: Bed, it: Scene) -> None:
    """Have the publisher follow the verdicts."""
    async for state in bed.health.state.changes():
        it.inventory.set(judged(Inventory(devices=(DEVICE,)), state, RULES))


class Stream:
    """Kubelet's stream of health."""

    def __init__(self, bed: Bed) -> None:
        self.last: tuple[str, ...] = ()
        self.times: list[float] = []
        self._streams = HealthStreams(
            bed.health.state, places=lambda: [Place(pool="n", device=MODEM.name)]
        )

    async def read(self) -> None:
        """Read it until cancelled."""
        (method,) = self._streams.services()[0].methods

        async def take(answer: Any) -> None:
            await trio.lowlevel.checkpoint()
            self.last = tuple(one.message for one in answer.devices)
            self.times.append(trio.current_time())

        await method.handler(method.request(), None, take)  # type: ignore[arg-type, call-arg]


async def minute(bed: Bed) -> None:
    """Let the device change so often, evenly; it ends well."""
    for turn in range(CHANGES):
        if turn % 2:
            bed.health.retire(MODEM.identity, "nvml")
            bed.ask()
        else:
            bed.ask(SICK)
        await trio.sleep(GAP_S)


def per_minute(times: list[float]) -> int:
    """The most of these in any minute."""
    return max(sum(begin <= at < begin + 60 for at in times) for begin in times)


@pytest.mark.slow
async def test_storm_costs_no_memory_and_few_writes_and_ends_with_the_truth(
    nursery: trio.Nursery,
    autojump_clock: MockClock,
    scene: Open,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Ten minutes of it: the server is written to 20 times a minute at most, the log twice."""

    caplog.set_level("INFO")
    bed = await begun(nursery, Bed())
    stream = Stream(bed)
    async with scene(DEVICE) as it:
        nursery.start_soon(publish, bed, it)
        nursery.start_soon(stream.read)
        await minute(bed)
        gc.collect()
        before = len(gc.get_objects())
        for _ in range(MINUTES - 1):
            await minute(bed)
        gc.collect()
        grown = len(gc.get_objects()) - before
        told = dict(bed.health.changes.count.series())
        bed.ask(SICK)
        await trio.sleep(30)

        assert sum(told.values()) == pytest.approx(CHANGES * MINUTES, rel=0.01)
        assert grown < OBJECTS
        assert per_minute([at for _, at in it.api.requests]) <= 20
        lines = [line for line in journal(caplog) if line.startswith("device health ")]
        assert 2 <= len(lines) <= 2 * (MINUTES + 1)
        assert bed.verdict.status is Status.UNHEALTHY
        assert stream.last[0].startswith(SICK.message)
        (device,) = it.api.owned()[0].devices
        assert [taint["value"] for taint in device["taints"]] == [SICK.code]
        assert len(bed.health.courses) == 1
