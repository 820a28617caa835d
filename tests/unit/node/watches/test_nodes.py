"""Device nodes are looked at in turn, and at once when the inventory shows another device."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping, Sequence

import attrs
import pytest
import trio
from trio.testing import MockClock

from berth.config.schema import Config
from berth.errors import HostError
from berth.health.finding import Finding, Severity
from berth.health.watching import Watching
from berth.host.nodefacts import AtPath
from berth.model.device import Exclusion
from berth.model.edits import NodeType
from berth.model.inventory import Inventory
from berth.model.peripheral import Peripheral
from berth.node.health import judge as health
from berth.node.watches import nodes as genericwatch
from berth.node.watches.nodes import SHARED_S, GenericWatch, SharedLook, look_aside
from berth.runtime.latest import Latest
from tests.unit.node.peripherals import modem
from tests.unit.node.reported import Reported


class Folder:
    """What lies at paths.

    Attributes:
        nodes: Minor numbers of serial adapters, by path.
        hanging: Paths on a file system that does not answer.
    """

    def __init__(self) -> None:
        self.nodes = {f"/dev/ttyUSB{number}": number for number in range(3)}
        self.hanging: set[str] = set()

    async def look(self, paths: Sequence[str]) -> Mapping[str, AtPath]:
        """Look."""
        await trio.lowlevel.checkpoint()
        if self.hanging.intersection(paths):
            await trio.sleep_forever()
        return {path: self._at(path) for path in paths}

    def _at(self, path: str) -> AtPath:
        if path not in self.nodes:
            return AtPath(exists=False)
        return AtPath(type=NodeType.CHAR, major=188, minor=self.nodes[path])


@pytest.fixture
def folder() -> Folder:
    """Three serial adapters."""
    return Folder()


@pytest.fixture
def inventory() -> Latest[Inventory]:
    """The same, as they were seen."""
    return Latest(holding(modem(0), modem(1), modem(2)))


@pytest.fixture
async def reports(
    folder: Folder, inventory: Latest[Inventory], nursery: trio.Nursery, autojump_clock: MockClock
) -> Reported:
    """What the watch over them tells."""
    told = Reported()
    terms: Latest[health.Watching] = Latest(Watching.of(Config()))
    watch = GenericWatch(told, inventory=inventory, terms=terms, look=folder.look)
    await nursery.start(watch.run)
    await trio.sleep(1)
    return told


def holding(*peripherals: Peripheral) -> Inventory:
    """An inventory."""
    return Inventory(peripherals=peripherals)


async def test_nodes_are_looked_at_in_turn(reports: Reported, autojump_clock: MockClock) -> None:
    """All at one moment, at the interval of the kind."""
    await trio.sleep(60)

    assert sorted((each.at_s, each.subject, each.codes) for each in reports.told) == [
        (at_s, modem(number).identity, ()) for at_s in (0, 30, 60) for number in range(3)
    ]


async def test_node_that_is_gone_is_told_without_any_event(
    reports: Reported, folder: Folder, autojump_clock: MockClock
) -> None:
    """At the next look; the others are as they were."""
    del folder.nodes["/dev/ttyUSB1"]
    folder.nodes["/dev/ttyUSB2"] = 7

    await trio.sleep(30)

    last = [reports.of(modem(number).identity)[-1] for number in range(3)]
    assert [(each.at_s, each.codes) for each in last] == [
        (30, ()),
        (30, ("absent",)),
        (30, ("absent",)),
    ]
    assert last[1].message.startswith("/dev/ttyUSB1 is not there: ")
    assert "188:7 now, and was 188:2" in last[2].message


async def test_change_of_the_inventory_is_told_at_once(
    reports: Reported, folder: Folder, inventory: Latest[Inventory], autojump_clock: MockClock
) -> None:
    """Pulled while it is held, pulled while it is free, and plugged in as another number."""
    held = attrs.evolve(modem(0).absent(), held_by=("team/user",))
    folder.nodes["/dev/ttyUSB2"] = 9
    inventory.set(holding(held, modem(2, minor=9)))
    await trio.sleep(0.01)

    assert {(each.subject, each.codes) for each in reports.told[3:]} == {
        (modem(1).identity, ("retired",)),
        (modem(0).identity, ("absent",)),
        (modem(2).identity, ()),
    }
    inventory.set(holding(modem(0), modem(2, minor=9)))
    await trio.sleep(0.01)
    assert [(each.subject, each.codes) for each in reports.told[6:]] == [(modem(0).identity, ())]


async def test_what_is_not_offered_is_not_watched(
    reports: Reported, inventory: Latest[Inventory], autojump_clock: MockClock
) -> None:
    """Neither what is excluded, nor what is no generic device."""
    excluded = attrs.evolve(modem(0), exclusion=Exclusion(reason="overlap"))
    inventory.set(holding(excluded, attrs.evolve(modem(1), kind="gpu")))
    await trio.sleep(100)

    assert {each.codes for each in reports.told[3:]} == {("retired",)}


async def test_file_system_that_hangs_keeps_no_other_device_waiting(
    reports: Reported, folder: Folder, autojump_clock: MockClock
) -> None:
    """Its own devices do not answer."""
    folder.hanging = {"/dev/ttyUSB1"}

    await trio.sleep(50)

    assert [each.codes for each in reports.of(modem(1).identity)][1:] == [("no-answer",)]
    assert [each.codes for each in reports.of(modem(0).identity)] == [(), ()]


async def test_paths_of_this_machine_are_looked_at_aside() -> None:
    """In a thread."""

    assert await look_aside(["/dev/null"]) == {
        "/dev/null": AtPath(type=NodeType.CHAR, major=1, minor=3)
    }


async def test_cancel_does_not_wait_for_a_file_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that looks is left behind."""
    go = threading.Event()
    monkeypatch.setattr(genericwatch, "look_at_paths", lambda _paths: go.wait(60))

    with trio.move_on_after(0.05) as scope:
        await look_aside(["/mnt/dead"])

    assert scope.cancelled_caught
    go.set()


async def test_what_another_life_found_is_void_of_what_is_not_watched(
    folder: Folder, inventory: Latest[Inventory], nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """A device that no group takes any more is asked by nobody."""
    told = Reported()
    for number in range(2):
        lost = Finding(code="absent", severity=Severity.LOST, message="it was away")
        told.report(modem(number).identity, genericwatch.SOURCE, [lost])
    closed = Exclusion(reason="not-selected", detail="no group takes it")
    inventory.set(holding(attrs.evolve(modem(0), exclusion=closed), modem(1)))
    terms: Latest[health.Watching] = Latest(Watching.of(Config()))
    watch = GenericWatch(told, inventory=inventory, terms=terms, look=folder.look)

    await nursery.start(watch.run)
    await trio.sleep(1)

    assert [each.codes for each in told.of(modem(0).identity)] == [("absent",), ("retired",)]
    assert [each.codes for each in told.of(modem(1).identity)] == [("absent",), ()]


async def test_looks_of_one_moment_are_one(autojump_clock: MockClock, folder: Folder) -> None:
    """Those of the next moment are another."""
    asked: list[list[str]] = []

    async def look(paths: Sequence[str]) -> Mapping[str, AtPath]:
        asked.append(sorted(paths))
        return await folder.look(paths)

    shared = SharedLook(look)
    seen: dict[str, AtPath] = {}

    async def want(path: str) -> None:
        seen.update(await shared([path]))

    for _ in range(2):
        async with trio.open_nursery() as nursery:
            for path in folder.nodes:
                nursery.start_soon(want, path)

    assert asked == [sorted(folder.nodes)] * 2
    assert {path: at.minor for path, at in seen.items()} == folder.nodes


@pytest.mark.parametrize("how", ["hangs", "refuses", "is cancelled"])
async def test_one_that_has_no_answer_costs_the_others_none(
    autojump_clock: MockClock, folder: Folder, how: str
) -> None:
    """They look alone after a moment, and get theirs; nobody waits for who asked first."""
    bad = "/mnt/dead/node"

    async def look(paths: Sequence[str]) -> Mapping[str, AtPath]:
        await trio.lowlevel.checkpoint()
        if bad in paths and how == "refuses":
            raise HostError(bad, "cannot be looked at")
        if bad in paths:
            await trio.sleep_forever()
        return await folder.look(paths)

    shared = SharedLook(look)
    seen: dict[str, AtPath] = {}
    scope = trio.CancelScope()

    async def want(path: str) -> None:
        with contextlib.suppress(HostError), scope if path == bad else contextlib.nullcontext():
            if path == bad and how == "is cancelled":
                scope.cancel()
            seen.update(await shared([path]))

    async with trio.open_nursery() as nursery:
        for path in (bad, *folder.nodes):
            nursery.start_soon(want, path)
        await trio.sleep(2 * SHARED_S)
        assert {path: at.minor for path, at in seen.items()} == folder.nodes
        scope.cancel()
