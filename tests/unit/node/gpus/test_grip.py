"""The session with the GPUs' driver: let go of for a claim, and by whom it is taken up again."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from berth.errors import ClaimError, HostError
from berth.host.nvml.session import Session, SessionState
from berth.host.nvml.values import NoAnswer, Refusal
from berth.node.gpus.grip import LET_GO_S, Grip
from tests.unit.node.gpus.test_gpus import ADDRESSES, UP, Driven

ADDRESS = ADDRESSES[0]
RELEASED = Session(state=SessionState.RELEASED, functions=2)


def grip_of(driven: Driven) -> Grip:
    """A grip on what was opened."""
    grip = Grip(lambda: driven)
    grip.take()
    return grip


async def test_claims_that_let_go_at_once_share_it() -> None:
    """The driver is taken up when the last of them is done."""

    driven = Driven(UP)
    grip = grip_of(driven)
    async with grip.let_go():
        driven.be(RELEASED)
        async with grip.let_go():
            assert driven.released == [LET_GO_S, LET_GO_S]
        assert driven.released

    assert driven.released == []


async def test_release_of_an_operator_is_his() -> None:
    """He ends it, or its time does."""

    driven = Driven(UP)
    grip = grip_of(driven)
    await grip.release(600.0)
    driven.be(RELEASED)

    async with grip.let_go():
        pass

    assert driven.released == [600.0]


async def test_events_of_the_bus_take_nothing_up_while_a_claim_lets_go() -> None:
    """A driver that lets go of a GPU would wait for us."""

    driven = Driven(UP)
    grip = grip_of(driven)
    grip.heard_bus()
    async with grip.let_go():
        grip.heard_bus()
    grip.heard_bus()

    assert [bind for _, bind in driven.told] == [True, False, True]


async def test_failure_while_let_go_takes_the_driver_up_again() -> None:
    """Whatever ends the block."""

    driven = Driven(UP)
    with pytest.raises(HostError, match="broken"):
        async with grip_of(driven).let_go():
            raise HostError("bind", "broken")

    assert driven.released == []


async def test_node_without_gpus_has_nothing_to_let_go_of() -> None:
    """And nobody to ask."""

    grip = Grip(lambda: Driven(UP))

    async with grip.let_go():
        await grip.require_idle(ADDRESS)
    grip.heard_bus()
    assert await grip.processes(ADDRESS) == ()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((7, 9), "is in use by process 7, 9"),
        (NoAnswer(purpose="processes", open_s=4), "is not known to be free"),
        (Refusal.of(1), "is not known to be free"),
        (Refusal.of(15), "is not known to be free"),
    ],
)
async def test_gpu_that_may_be_in_use_is_refused(
    answer: tuple[int, ...] | Refusal | NoAnswer, said: str
) -> None:
    """By its processes, or for want of an answer."""

    driven = Driven(UP)
    driven.running = answer

    with pytest.raises(ClaimError, match=said):
        await grip_of(driven).require_idle(ADDRESS)


@pytest.mark.parametrize("answer", [(), Refusal.of(3), Refusal.of(13)])
async def test_gpu_that_is_idle_or_cannot_say_is_let_through(answer: object) -> None:
    """A driver that has no such question keeps a busy GPU by itself."""

    driven = Driven(UP)
    driven.running = answer  # type: ignore[assignment]  # as the test says

    await grip_of(driven).require_idle(ADDRESS)


async def test_session_that_another_claim_let_go_of_is_waited_for(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """It comes back in seconds."""

    driven = Driven(RELEASED)
    driven.running = (7,)

    async def come_back() -> None:
        await trio.sleep(3)
        driven.be(UP)

    nursery.start_soon(come_back)

    with pytest.raises(ClaimError, match="process 7"):
        await grip_of(driven).require_idle(ADDRESS)
    assert trio.current_time() > 0
