"""Where NVLinks lead, over the stand-in: what fails is one GPU's, and keeps no probe waiting."""

from __future__ import annotations

import attrs
import pytest
import trio
import trio.testing

from berth.host.nvml import calls
from berth.host.nvml.owner import CLOSED, Nvml
from berth.host.nvml.registry import WALK_S
from berth.host.nvml.values import NoAnswer, Probe, Refusal
from berth.rehearsal.nvml.world import FOR_EVER, LOST, CallFault
from tests.nvml import cards
from tests.unit.host.nvml.conftest import FULL, OTHER, PARTED, Opened, Show

SWITCH = "0000:05:00.0"
LINKED = attrs.evolve(FULL, links={0: OTHER.address, 2: SWITCH, 3: "", 17: SWITCH})


@pytest.mark.parametrize("hold", [True, False])
async def test_links_that_are_up_are_told(opened: Opened, show: Show, *, hold: bool) -> None:
    """One address for each; a GPU without any has none, whatever it says of their numbers."""

    show(cards(LINKED, PARTED, OTHER))
    async with opened(hold=hold) as owner:
        await owner.walk()

        assert await owner.links(FULL.address) == (OTHER.address, SWITCH, SWITCH)
        assert await owner.links(OTHER.address) == ()


async def test_refusals_of_links_are_of_that_gpu(opened: Opened, show: Show) -> None:
    """One that is lost says so, as does one whose link does not tell; others are not concerned."""

    mute = CallFault(call="nvmlDeviceGetNvLinkRemotePciInfo_v2", result=999)
    async with opened() as owner:
        await owner.walk()
        show(cards(attrs.evolve(LINKED, faults=(mute,)), attrs.evolve(PARTED, error=LOST), OTHER))

        assert await owner.links(FULL.address) == Refusal.of(999)
        assert await owner.links(PARTED.address) == Refusal.of(LOST)
        assert await owner.links(OTHER.address) == ()
        assert await owner.links("0000:01:00.0") == Refusal(code=28, text="NVML does not list it")


async def test_gpu_that_does_not_tell_its_links_stands_alone(
    opened: Opened, show: Show, mock_clock: trio.testing.MockClock
) -> None:
    """The asker goes on without, and another GPU is asked meanwhile."""

    hung = CallFault(call="nvmlDeviceGetNvLinkState", hang_ms=FOR_EVER)
    answers: list[object] = []
    async with opened() as owner:
        await owner.walk()
        show(cards(attrs.evolve(LINKED, faults=(hung,)), PARTED, OTHER))

        async def ask() -> None:
            answers.append(await owner.links(FULL.address))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await out(owner, FULL.address)
            assert await owner.links(OTHER.address) == ()
            mock_clock.jump(5)

        show(cards(LINKED, PARTED, OTHER))
        while owner.statistics().calls.open:
            await trio.testing.wait_all_tasks_blocked(0.01)
        after = await owner.links(FULL.address)

    assert isinstance(answers[0], NoAnswer)
    assert isinstance(after, tuple)


async def test_slow_links_let_probes_between_them(
    opened: Opened, show: Show, mock_clock: trio.testing.MockClock
) -> None:
    """Each link is a call of its own, and together they take no longer than a walk may."""

    slow = CallFault(call="nvmlDeviceGetNvLinkState", hang_ms=20)
    probes: list[object] = []
    answers: list[object] = []
    async with opened() as owner:
        await owner.walk()
        show(cards(attrs.evolve(LINKED, faults=(slow,)), PARTED, OTHER))

        async def ask() -> None:
            answers.append(await owner.links(FULL.address))

        async def probe() -> None:
            probes.append(await owner.probe(FULL.address))
            mock_clock.jump(WALK_S)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await out(owner, FULL.address)
            nursery.start_soon(probe)
        calls_out = owner.statistics().calls.calls["links"]

    assert isinstance(probes[0], Probe)
    assert isinstance(answers[0], NoAnswer)
    assert calls_out < calls.LINKS


async def test_without_a_session_links_are_not_known() -> None:
    """The answer says nothing of the GPU."""

    assert await Nvml(library="/nowhere").links(FULL.address) == CLOSED


async def out(owner: Nvml, key: str) -> None:
    """Wait until a call of this key is out."""
    while key not in {call.key for call in owner.statistics().calls.open}:
        await trio.testing.wait_all_tasks_blocked(0.001)
