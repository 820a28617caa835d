"""The daemon is killed in every state that the health of a device can be in.

After each start nobody may be told better of the device than before: not a person who asks, not
kubelet by its list or its stream, and no slice that is written between. The daemon, its disk and
its sockets are real, NVML is the stand-in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import attrs
import pytest
import trio

from berth.control import ControlClient
from berth.errors import BerthError
from berth.rehearsal.apiserver.resources import SLICES
from berth.rehearsal.gpuworld import CARDS, GpuWorld, plug_in, pull_out
from berth.rehearsal.kubelet import Act
from berth.rehearsal.nvml import world as worlds
from berth.rehearsal.nvml.cards import hung, needing, struck
from berth.rehearsal.nvml.world import LOST, Card
from berth.rehearsal.stage import Stage
from berth.rehearsal.world import World
from berth.runtime.threads import run_in_thread
from tests.integration.rehearsal.conftest import Stages
from tests.integration.rehearsal.players import until
from tests.nvml import need_compiler

pytestmark = pytest.mark.slow

WELL: Final = CARDS[0]
NAME: Final = "gpu-0000-1b-00-0"
SUBJECT: Final = "pci:0000:1b:00.0"
CAUSES: Final = World.state / "health" / "causes.json"
TIMES: Final = {"interval_s": 1, "deadline_s": 1, "timeout_s": 30}
HOLD_S: Final = 6
WATCH_S: Final = 3.0
"""How long everybody is watched from a start on: shorter than anything heals."""

_RESET: Final = 1


class Ward:
    """A stage with two GPUs, of which the first falls ill.

    Args:
        stage: Where the daemon serves.
        told: Where the stand-in for NVML reads its world.
    """

    def __init__(self, stage: Stage, told: Path) -> None:
        self.stage = stage
        self._told = told

    def show(self, card: Card) -> None:
        """Let the first GPU be like this."""
        worlds.write(self._told, worlds.World(cards=(card, *CARDS[1:])))

    async def ask(self, verb: str, **fields: Any) -> Mapping[str, Any]:
        """What the daemon answers a person."""

        def answer() -> Mapping[str, Any]:
            client = ControlClient(self.stage.world.runtime)
            try:
                return client.ask(verb, **fields)
            finally:
                client.close()

        return await run_in_thread("control", answer)

    async def verdict(self) -> Mapping[str, Any]:
        """What it says of the first GPU; nothing while it does not know it yet."""
        devices = (await self.ask("health.list"))["devices"]
        return next((each for each in devices if each["name"] == NAME), {})

    async def until(self, status: str, words: str = "") -> None:
        """Wait until it says this."""

        async def is_so() -> bool:
            verdict = await self.verdict()
            return verdict.get("status") == status and words in verdict["message"]

        await until(is_so, 60)

    async def kill_and_watch(self) -> bool:
        """Kill the daemon, start it again, and see that nobody is told that the GPU is well.

        Returns:
            Whether something against it was written down when it was killed.
        """
        await self.stage.berthd.kill()
        noted = SUBJECT in CAUSES.read_text() if CAUSES.exists() else False
        version, notes = self.stage.api._store.version, len(self.stage.notes)
        await self.stage.berthd.start()
        seen: set[str] = set()
        with trio.move_on_after(WATCH_S):
            while True:
                with suppress(BerthError):  # it does not answer yet
                    seen.add((await self.verdict()).get("status", "unknown"))
                await trio.sleep(0.05)
        await self.stage.berthd.wait_ready()

        assert "healthy" not in seen
        told = self.stage.notes[notes:]
        by_stream = [one.detail for one in told if one.act is Act.HEALTH_TOLD]
        assert not [text for text in by_stream if f"/{NAME} Healthy" in text]
        # Of what nobody has told yet a list says nothing: it has no word for unknown.
        assert not noted or f"{len(CARDS)}/{len(CARDS)}" not in {one.detail for one in told}
        assert frozenset() not in self._taints(version)
        return noted

    def _taints(self, since: int) -> set[frozenset[str]]:
        """Keys of the GPU's taints, in each slice with it that was written since then."""
        return {
            frozenset(taint["key"] for taint in device.get("taints", ()))
            for change in self.stage.api._store.changes_since(since, SLICES.plural)
            for device in change.object["spec"]["devices"]
            if device["name"] == NAME
        }


@pytest.fixture
def gpus(stages: Stages) -> Iterator[GpuWorld]:
    """Two GPUs, which are pulled out again: sysfs is the world's, not the stage's."""
    need_compiler()
    yield plug_in()
    pull_out()


@pytest.fixture
async def ward(stages: Stages, gpus: GpuWorld) -> Ward:
    """All is well, and was told."""
    library = {"library": str(gpus.library), "cdi": {"source": "builtin"}, "door": "both"}
    health = {"recover_after_s": HOLD_S, "gpu": TIMES}
    config = {"gpu": library, "health": health}
    stage = await stages(0, config=config, environment=gpus.environment, start=False)
    it = Ward(stage, Path(gpus.environment[worlds.VARIABLE]))
    await stage.start()
    await it.until("healthy")
    await stage.devices.wait_allocatable("nvidia.com/gpu", len(CARDS))
    return it


async def test_killed_while_a_device_is_sick(ward: Ward) -> None:
    """It is as sick as before, and heals when it is mended."""

    ward.show(needing(WELL, _RESET))
    await ward.until("unhealthy")
    assert await ward.kill_and_watch()
    assert (await ward.verdict())["reason"] == "reset-required"

    ward.show(WELL)
    await ward.until("healthy")


async def test_killed_while_a_device_heals(ward: Ward) -> None:
    """The time for which it must be well begins anew: nobody has seen how it was meanwhile."""

    ward.show(needing(WELL, _RESET))
    await ward.until("unhealthy")
    ward.show(WELL)

    async def heals() -> bool:
        return any(one["healing"] for one in (await ward.verdict())["findings"])

    await until(heals)
    assert await ward.kill_and_watch()
    assert (await ward.verdict())["status"] == "unhealthy"
    await ward.until("healthy")


async def test_killed_while_a_device_is_held_for_flapping(ward: Ward) -> None:
    """It is held for as long as before."""

    for _ in range(3):
        ward.show(needing(WELL, _RESET))
        await ward.until("unhealthy")
        ward.show(WELL)
        if "flapping" in (await ward.verdict())["message"]:
            break
        await ward.until("healthy")
    assert "flapping" in (await ward.verdict())["message"]
    assert await ward.kill_and_watch()
    verdict = await ward.verdict()
    assert (verdict["status"], "flapping" in verdict["message"]) == ("unhealthy", True)


async def test_killed_while_a_probe_hangs(ward: Ward) -> None:
    """It hangs in the next life too, and is well again when it answers."""

    ward.show(hung(WELL))
    await ward.until("unhealthy", "did not answer")
    assert await ward.kill_and_watch()
    assert (await ward.verdict())["status"] == "unhealthy"

    ward.show(WELL)
    await ward.until("healthy")


async def test_killed_while_a_person_has_a_device_out_of_service(ward: Ward) -> None:
    """What was said is said until it is taken back."""

    await ward.ask("health.set", device=NAME, reason="bench", message="being measured")
    await ward.until("unhealthy", "being measured")
    assert await ward.kill_and_watch()
    assert (await ward.verdict())["reason"] == "bench"

    await ward.ask("health.clear", device=NAME, reason="bench")
    await ward.until("healthy")


@pytest.mark.parametrize("delay_s", [0.0, 0.02])
async def test_killed_right_after_an_event(ward: Ward, delay_s: float) -> None:
    """Whether it was heard, written or told by then: the evidence is asked for again."""

    ward.show(attrs.evolve(struck(WELL, 79), error=LOST))
    await trio.sleep(delay_s)
    await ward.kill_and_watch()
    await ward.until("unhealthy")
