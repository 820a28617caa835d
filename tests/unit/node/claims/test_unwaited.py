"""Claims whose pods were bound though their devices were not waited for: the prepare waits."""

from __future__ import annotations

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from berth.errors import ClaimError
from berth.model.claim import Claim
from berth.node.claims.unwaited import Unwaited
from berth.runtime.latest import Latest
from tests.unit.node.claims.waiting import DEMANDS, DOWN, UP, Asks
from tests.unit.node.conftest import Node
from tests.unit.node.machine import FAST, PARENT, claim, look, result

NEW = claim(name="new")


def waiting_node() -> tuple[Node, Asks]:
    """A node whose NICs are asked at a prepare."""
    asks = Asks()
    unwaited = Unwaited(asks, inventory=Latest(look().inventory), demands=Latest(DEMANDS))
    return Node(unwaited=unwaited), asks


async def test_prepare_waits_until_the_device_is_ready(autojump_clock: MockClock) -> None:
    """It is asked for as long as that, and no longer."""

    node, asks = waiting_node()
    done = trio.Event()

    async def prepare() -> None:
        await node.prepare(NEW)
        done.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(prepare)
        await wait_all_tasks_blocked()
        assert asks.wanted == {f"prepare {NEW.ref.uid}": {FAST}}
        asks.tell(nic_fast_0=DOWN)
        await trio.sleep(5)
        (trouble,) = node.troubles.all()
        assert (done.is_set(), node.ledger.holds()) == (False, ())
        assert trouble.text == f"{FAST} is not ready: ens1 has no carrier"
        asks.tell(nic_fast_0=UP)
        with trio.fail_after(1):
            await done.wait()
    assert asks.wanted == {f"prepare {NEW.ref.uid}": frozenset()}


async def test_prepare_ends_with_what_it_waited_for(autojump_clock: MockClock) -> None:
    """Kubelet asks again; nothing is held meanwhile."""

    node, asks = waiting_node()
    asks.tell(nic_fast_0=DOWN)

    with pytest.raises(ClaimError, match="is not ready: ens1 has no carrier"):
        await node.prepare(NEW)

    assert (node.ledger.holds(), asks.wanted) == ((), {f"prepare {NEW.ref.uid}": frozenset()})


@pytest.mark.parametrize(
    "wanted",
    [attrs.evolve(NEW, awaited=frozenset({FAST})), claim(result(PARENT, share_id="s"))],
)
def test_nobody_waits_twice_or_for_others(wanted: Claim) -> None:
    """The scheduler has waited for the one, and the other's group asks for nothing."""

    unwaited = Unwaited(Asks(), inventory=Latest(look().inventory), demands=Latest(DEMANDS))

    assert unwaited.unready(wanted) == ""
