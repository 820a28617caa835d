"""Free NICs are offered while a hook would move them, and slices are left alone over short gaps."""

from __future__ import annotations

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from berth.daemon.offering import PATIENCE_S, Offering
from berth.errors import HostError
from berth.model.device import Exclusion
from berth.nri.plugin import CONNECTING, PluginState
from berth.nri.versions import Runtime
from berth.runtime.latest import Latest

RUNTIME = Runtime(name="containerd", version="2.4.2")
THERE = PluginState(synchronized=True, runtime=RUNTIME)
GONE = PluginState(synchronized=False, runtime=RUNTIME, reason="the runtime closed the connection")
MISSING = PluginState(synchronized=False, reason="no such file")


class Inventory:
    """Remembers what it was told, and when it looked.

    Attributes:
        told: Reason and time of each call.
        fault: What a look ends with.
    """

    def __init__(self) -> None:
        self.told: list[tuple[str, float]] = []
        self.looks = 0
        self.fault: HostError | None = None

    def close(self, reason: Exclusion | None) -> None:
        """Remember it."""
        self.told.append((str(reason or "open"), trio.current_time()))

    async def look(self) -> None:
        """Remember that too."""
        await trio.lowlevel.checkpoint()
        self.looks += 1
        if self.fault is not None:
            raise self.fault

    @property
    def last(self) -> str:
        """What holds now."""
        return self.told[-1][0]


class Scene:
    """A connection, an inventory, and who joins them."""

    def __init__(self, first: PluginState) -> None:
        self.nri: Latest[PluginState] = Latest(first)
        self.inventory = Inventory()
        self.offering = Offering(self.nri, self.inventory)

    async def turn(self, state: PluginState) -> None:
        """Let the connection be like this."""
        self.nri.set(state)
        await wait_all_tasks_blocked()


async def play(nursery: trio.Nursery, first: PluginState = CONNECTING) -> Scene:
    """A scene that runs."""
    scene = Scene(first)
    nursery.start_soon(scene.offering.run)
    await wait_all_tasks_blocked()
    return scene


async def test_connection_at_start_is_waited_for(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """A restart takes nothing out of the slices for the moment until NRI is there again."""

    scene = await play(nursery)
    await trio.sleep(PATIENCE_S - 1)
    assert scene.inventory.told == []
    assert not scene.offering.settled.is_set()

    await scene.turn(THERE)

    assert scene.inventory.told == [("open", PATIENCE_S - 1)]
    assert scene.offering.settled.is_set()
    nursery.cancel_scope.cancel()


async def test_missing_socket_closes_at_once(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Nothing says that the runtime will be there soon; the look comes before anybody publishes."""

    scene = await play(nursery)
    await scene.turn(MISSING)

    assert scene.inventory.told == [("not-connected: NRI is not connected: no such file", 0)]
    assert scene.inventory.looks == 1
    assert scene.offering.settled.is_set()
    nursery.cancel_scope.cancel()


async def test_connecting_for_too_long_closes(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """A runtime that accepts and says nothing is away as well."""

    scene = await play(nursery)
    await trio.sleep(PATIENCE_S + 1)

    assert [at for _, at in scene.inventory.told] == [PATIENCE_S]
    nursery.cancel_scope.cancel()


async def test_short_gap_changes_nothing(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    """A runtime that restarts is back in a moment, whatever is met until then."""

    scene = await play(nursery, THERE)
    await scene.turn(GONE)
    await trio.sleep(2)
    await scene.turn(attrs.evolve(GONE, reason="connection refused"))
    await trio.sleep(2)
    await scene.turn(THERE)
    await trio.sleep(60)

    assert {reason for reason, _ in scene.inventory.told} == {"open"}
    assert scene.inventory.looks == 0
    nursery.cancel_scope.cancel()


async def test_long_gap_closes_with_the_newest_reason(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """What is told is what is the matter now; back again, the NICs are offered at once."""

    scene = await play(nursery, THERE)
    await scene.turn(GONE)
    await trio.sleep(1)
    await scene.turn(attrs.evolve(GONE, reason="connection refused"))
    await trio.sleep(PATIENCE_S)
    assert scene.inventory.told[-1] == (
        "not-connected: NRI is not connected: connection refused",
        PATIENCE_S,
    )

    await scene.turn(THERE)

    assert scene.inventory.last == "open"
    nursery.cancel_scope.cancel()


async def test_failed_look_is_no_end(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    """The machine cannot be read just now: that is told elsewhere."""

    scene = await play(nursery)
    scene.inventory.fault = HostError("rtnetlink", "no buffer space")
    await scene.turn(MISSING)
    assert scene.offering.settled.is_set()

    await scene.turn(THERE)

    assert scene.inventory.last == "open"
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("state", [MISSING, THERE])
async def test_settled_comes_after_the_inventory_was_told(
    nursery: trio.Nursery, autojump_clock: MockClock, state: PluginState
) -> None:
    """Whoever waits for it finds an inventory that knows of the connection."""

    scene = Scene(state)
    seen: list[int] = []

    async def wait() -> None:
        await scene.offering.settled.wait()
        seen.append(len(scene.inventory.told))

    nursery.start_soon(wait)
    nursery.start_soon(scene.offering.run)
    await wait_all_tasks_blocked()

    assert seen == [1]
    nursery.cancel_scope.cancel()
