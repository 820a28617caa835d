"""Links of GPUs are asked aside, once for each layout, each GPU for itself."""

from __future__ import annotations

import attrs
import pytest
import trio
import trio.testing
from trio.testing import MockClock

from berth.host.nvml.values import NoAnswer, Refusal
from berth.model.gpu import Gpu
from berth.node.gpus.gpulinks import AGAIN_S, GpuLinks
from tests.unit.gpu.machine import DRIVER, address_of, gpu

SWITCH = "0000:05:00.0"
GPUS = (gpu(0), gpu(1), gpu(2))


class Answering:
    """NVML, as far as links are concerned.

    Attributes:
        answers: What each GPU says; one without waits for ever.
        asked: Addresses in the order in which they were asked.
        slow_s: How long an answer takes.
    """

    def __init__(self) -> None:
        self.answers: dict[str, tuple[str, ...] | Refusal | NoAnswer] = {}
        self.asked: list[str] = []
        self.slow_s = 0.0

    async def links(self, address: str) -> tuple[str, ...] | Refusal | NoAnswer:
        """Answer, or not."""
        self.asked.append(address)
        answer = self.answers.get(address)
        await trio.sleep(self.slow_s)
        return answer if answer is not None else await trio.sleep_forever()


class Bed:
    """The links of three GPUs, and how often more was known."""

    def __init__(self) -> None:
        self.nvml = Answering()
        self.nvml.answers = {address_of(number): (SWITCH,) for number in range(3)}
        self.changes = 0
        self.links = GpuLinks(changed=self._changed)

    def _changed(self) -> None:
        self.changes += 1

    async def see(self, *gpus: Gpu, driver: str = DRIVER.version) -> None:
        """A look found these; let what follows happen."""
        found = attrs.evolve(DRIVER, version=driver)
        self.links.see(self.nvml, gpus, found)  # type: ignore[arg-type]
        await trio.sleep(1)

    @property
    def known(self) -> set[str]:
        """Addresses of those that told."""
        return set(self.links.remotes)


@pytest.fixture
async def bed(nursery: trio.Nursery) -> Bed:
    """Three GPUs on a switch, not looked at yet."""
    made = Bed()
    nursery.start_soon(made.links.run)
    return made


async def test_links_are_asked_once_for_a_layout(bed: Bed, autojump_clock: MockClock) -> None:
    """Looks that find the same ask nobody; another card or driver has all asked anew."""

    await bed.see(*GPUS)
    await bed.see(*GPUS)
    assert len(bed.nvml.asked) == 3
    assert bed.links.remotes == {address_of(number): (SWITCH,) for number in range(3)}

    await bed.see(*GPUS[:2])
    assert bed.known == {address_of(0), address_of(1)}
    await bed.see(*GPUS[:2], driver="590.10")

    assert len(bed.nvml.asked) == 7


async def test_gpu_that_does_not_answer_keeps_nothing_from_the_others(
    bed: Bed, autojump_clock: MockClock
) -> None:
    """Neither what they said, nor the next layout."""

    del bed.nvml.answers[address_of(1)]
    await bed.see(*GPUS)
    assert bed.known == {address_of(0), address_of(2)}
    assert bed.changes >= 1

    await bed.see(*GPUS[:2])

    assert bed.known == {address_of(0)}


async def test_gpu_that_stays_keeps_its_links_until_it_is_heard(
    bed: Bed, autojump_clock: MockClock
) -> None:
    """A card that goes takes nothing from the others, not even for a moment."""

    await bed.see(*GPUS)
    bed.nvml.answers = {}
    await bed.see(*GPUS[:2])
    assert bed.known == {address_of(0), address_of(1)}

    await bed.see(*GPUS[:2], driver="590.10")

    assert bed.known == set()


@pytest.mark.parametrize("answer", [Refusal.of(15), NoAnswer(purpose="links", open_s=4)])
async def test_gpu_that_refused_is_asked_again_later(
    bed: Bed, answer: Refusal | NoAnswer, autojump_clock: MockClock
) -> None:
    """Not with each look."""

    bed.nvml.answers[address_of(1)] = answer
    await bed.see(*GPUS)
    bed.nvml.answers[address_of(1)] = (SWITCH,)
    await bed.see(*GPUS)
    assert bed.known == {address_of(0), address_of(2)}

    await trio.sleep(AGAIN_S)
    await bed.see(*GPUS)

    assert bed.known == {address_of(0), address_of(1), address_of(2)}


async def test_answer_about_a_former_layout_is_not_taken(
    bed: Bed, autojump_clock: MockClock
) -> None:
    """It may be of a card that is gone."""

    bed.nvml.slow_s = 5
    await bed.see(*GPUS)
    bed.nvml.answers = {}
    await bed.see(gpu(0, uuid="GPU-another"), gpu(1))
    await trio.sleep(10)

    assert bed.known == set()


async def test_nobody_is_asked_for_the_sake_of_one_gpu(bed: Bed, autojump_clock: MockClock) -> None:
    """Nor are divided ones, whose links are off."""

    await bed.see(GPUS[0], gpu(1, mig_current=True))

    assert bed.nvml.asked == []


async def test_machine_without_links_is_looked_at_once(bed: Bed, autojump_clock: MockClock) -> None:
    """Nothing is new when nobody has one."""

    bed.nvml.answers = {address_of(number): () for number in range(3)}
    await bed.see(*GPUS)
    await bed.see(*GPUS, driver="590.10")

    assert bed.changes == 0
    assert len(bed.nvml.asked) == 6
