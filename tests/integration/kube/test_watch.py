"""A watch over everything that servers and networks do to it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from berth.errors import KubeError
from berth.kube.api import (
    SliceEvent,
    SliceGone,
    SliceQuery,
    SliceSeen,
    SlicesListed,
    WatchInterrupted,
    WatchResumed,
)
from berth.kube.server import KubeServer
from berth.kube.watcher import LARGE_PAGE, PAGES_LIMIT
from berth.rehearsal.apiserver.faults import Break, Cut, Fault, Refuse
from berth.rehearsal.apiserver.resources import NODES, SLICES
from tests.integration.kube.conftest import Bench
from tests.integration.kube.test_client import raw_server

QUERY = SliceQuery(driver="berth.dev", node_name="n")


class Ear:
    """Hears a watch, and waits for what it is to hear."""

    def __init__(self) -> None:
        self.events: list[SliceEvent] = []
        self._changed = trio.Event()

    def report(self, event: SliceEvent) -> None:
        """Take an event."""
        self.events.append(event)
        self._changed.set()
        self._changed = trio.Event()

    def told(self) -> list[str]:
        """Kind and slice of each event."""
        return [_shown(event) for event in self.events]

    async def wait(self, condition: Callable[[list[str]], object]) -> list[str]:
        """Wait until what was told fulfils a condition."""
        with trio.fail_after(10):
            while not condition(self.told()):
                await self._changed.wait()
        return self.told()


def has(text: str, *, times: int = 1) -> Callable[[list[str]], bool]:
    """The condition that something was told so often."""
    return lambda told: told.count(text) == times


def _shown(event: SliceEvent) -> str:
    if isinstance(event, SlicesListed):
        return "listed " + ",".join(item.name for item in event.slices)
    if isinstance(event, SliceSeen | SliceGone):
        return f"{type(event).__name__} {event.slice.name} {event.slice.generation}"
    return type(event).__name__


def put(bench: Bench, name: str, *, generation: int = 1, node: str = "n") -> None:
    """Have a slice there."""
    spec: dict[str, Any] = {
        "driver": "berth.dev",
        "pool": {"name": node, "generation": generation, "resourceSliceCount": 1},
        "nodeName": node,
    }
    bench.server.put(SLICES, {"metadata": {"name": name}, "spec": spec})


@contextlib.asynccontextmanager
async def watching(bench: Bench) -> AsyncIterator[Ear]:
    """An ear at the slices, once the watch behind the first list is up."""
    ear = Ear()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.api.watch_slices, QUERY, ear.report)
        await ear.wait(bool)
        await until(lambda: bench.server.watching == 1)
        yield ear
        nursery.cancel_scope.cancel()


async def until(condition: Callable[[], object]) -> None:
    """Wait for something of the server's that tells nobody."""
    with trio.fail_after(10):
        for _ in range(10_000):
            if condition():
                return
            await trio.sleep(0.001)


async def test_list_comes_first_and_then_every_change(bench: Bench) -> None:
    """Of the node's slices alone, in their order."""

    put(bench, "b")
    put(bench, "a")
    put(bench, "foreign", node="elsewhere")

    async with watching(bench) as ear:
        put(bench, "c")
        put(bench, "foreign", node="elsewhere", generation=2)
        put(bench, "a", generation=2)
        bench.server.delete(SLICES, "b")
        told = await ear.wait(lambda told: len(told) == 4)

    assert told == ["listed a,b", "SliceSeen c 1", "SliceSeen a 2", "SliceGone b 1"]
    assert bench.requests(watch=True)[0]["fieldSelector"] == "spec.driver=berth.dev,spec.nodeName=n"
    assert bench.requests(watch=True)[0]["timeoutSeconds"] == "300"


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("how", list(Cut))
async def test_watch_that_is_cut_goes_on_where_it_was(how: Cut, bench: Bench) -> None:
    """Nothing is missed, nothing comes twice, and nothing is listed again."""

    put(bench, "a")
    async with watching(bench) as ear:
        for round_ in range(3):
            put(bench, f"before-{round_}")
            await ear.wait(has(f"SliceSeen before-{round_} 1"))
            bench.server.cut_watches(how)
            put(bench, f"after-{round_}")
            await ear.wait(has(f"SliceSeen after-{round_} 1"))

    seen = [item for item in ear.told() if item.startswith("SliceSeen")]
    assert seen == [f"SliceSeen {word}-{n} 1" for n in range(3) for word in ("before", "after")]
    assert len(bench.requests(watch=False)) == 1
    assert len(bench.requests(watch=True)) == 4


@pytest.mark.usefixtures("quick")
async def test_forgotten_version_is_listed_again_once(bench: Bench) -> None:
    """410 costs one list, at once, and no wait."""

    put(bench, "a")
    async with watching(bench) as ear:
        bench.server.delete(SLICES, "a")
        put(bench, "b")
        bench.server.forget_versions()
        bench.server.cut_watches(Cut.RST)
        told = await ear.wait(has("listed b"))
        await until(lambda: bench.server.watching == 1)
        put(bench, "c")
        await ear.wait(has("SliceSeen c 1"))

    assert "listed b" in told
    assert len(bench.requests(watch=False)) == 2


@pytest.mark.usefixtures("quick")
async def test_server_that_forgets_for_ever_makes_no_hot_loop(bench: Bench) -> None:
    """The second 410 without an event between waits like any other failure."""

    bench.server.faults.append(
        Fault(action=Refuse(status=410, reason="Expired"), watch=True, times=6)
    )
    async with watching(bench) as ear:
        await ear.wait(has("WatchResumed"))

    waits = [item for item in ear.events if isinstance(item, WatchInterrupted)]
    assert [item.attempts for item in waits] == [1, 2, 3, 4, 5]
    assert {item.error.status for item in waits} == {410}


@pytest.mark.usefixtures("quick")
async def test_bookmark_moves_the_version_from_which_a_watch_goes_on(bench: Bench) -> None:
    """Changes elsewhere must not make our version old."""

    put(bench, "a")
    async with watching(bench) as ear:
        first = bench.requests(watch=True)[0]["resourceVersion"]
        for index in range(5):
            bench.server.put(NODES, {"metadata": {"name": f"n-{index}"}})
        await until(lambda: bench.server.bookmarks)
        bench.server.cut_watches(Cut.FIN)
        await until(lambda: len(bench.requests(watch=True)) == 2)

    assert ear.told()[0] == "listed a"
    assert int(bench.requests(watch=True)[-1]["resourceVersion"]) >= int(first) + 5


@pytest.mark.usefixtures("quick")
async def test_trouble_is_told_with_its_wait_and_its_end(bench: Bench) -> None:
    """Whoever listens can tell an operator, once."""

    async with watching(bench) as ear:
        refuse = Refuse(status=500, message="etcd has no leader")
        bench.server.faults.append(Fault(action=refuse, watch=True, times=2))
        bench.server.faults.append(Fault(action=Break(cut=Cut.RST), watch=True, times=1))
        bench.server.cut_watches(Cut.RST)
        await ear.wait(lambda told: told[-1] == "WatchResumed")

    trouble = [item for item in ear.events if isinstance(item, WatchInterrupted)]
    resumed = [item for item in ear.events if isinstance(item, WatchResumed)]
    assert [item.attempts for item in trouble] == [1, 2, 3, 4]
    assert "etcd has no leader (500)" in str(trouble[1].error)
    assert all(item.retry_s > 0 for item in trouble)
    assert [item.attempts for item in resumed] == [4]


@pytest.mark.usefixtures("quick")
async def test_server_that_ends_each_watch_at_once_is_given_pauses(bench: Bench) -> None:
    """An answer of 200 alone is no success."""

    async with watching(bench) as ear:
        for count in range(1, 4):
            await until(lambda: bench.server.watching == 1)
            bench.server.cut_watches(Cut.ENDED)
            await ear.wait(has("WatchInterrupted", times=count))

    assert [item.attempts for item in ear.events if isinstance(item, WatchInterrupted)] == [1, 2, 3]


@pytest.mark.usefixtures("quick")
async def test_list_that_fails_is_tried_again(bench: Bench) -> None:
    """A server that comes later is waited for."""

    bench.server.faults.append(Fault(action=Refuse(status=503), watch=False, times=2))

    async with watching(bench) as ear:
        pass

    assert ear.told()[:3] == ["WatchInterrupted", "WatchInterrupted", "listed "]


@pytest.mark.usefixtures("quick")
async def test_slice_that_is_not_understood_is_asked_for_again(bench: Bench) -> None:
    """Somebody's odd object ends no daemon: it is told, and the rest comes when it is gone."""

    async with watching(bench) as ear:
        put(bench, "a")
        await ear.wait(has("SliceSeen a 1"))
        bench.server.patch(SLICES, "a", {"metadata": {"ownerReferences": "odd"}})
        await ear.wait(lambda told: told.count("WatchInterrupted") >= 3)
        with pytest.raises(KubeError, match=r"ownerReferences.*must be list"):
            await bench.api.list_slices(QUERY)
        bench.server.delete(SLICES, "a")
        put(bench, "b")
        await ear.wait(has("listed b"))


@pytest.mark.usefixtures("quick")
async def test_long_lists_are_read_page_by_page(bench: Bench) -> None:
    """No page is lost; a page of the fullest slices is far from what an answer may have."""

    names = [f"slice-{number:02}" for number in range(2 * LARGE_PAGE + 1)]
    for name in names:
        put(bench, name)

    found = await bench.api.list_slices(QUERY)

    assert [item.name for item in found] == names
    assert len(bench.requests()) == 3
    async with watching(bench) as ear:
        assert ear.told()[0] == f"listed {','.join(names)}"
    pages = bench.requests(watch=False)
    assert [page["limit"] for page in pages] == [str(LARGE_PAGE)] * 6


async def test_list_without_end_is_given_up(tmp_path: Path) -> None:
    """A server that names a next page on each one fills no memory and is not asked for ever."""

    page = b'{"metadata": {"continue": "more"}, "items": [{}]}'
    asked = 0

    async def behave(stream: trio.SocketStream) -> None:
        nonlocal asked
        while await stream.receive_some():
            asked += 1
            head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(page)}\r\n\r\n"
            await stream.send_all(head.encode() + page)

    async with raw_server(tmp_path, behave) as client:
        with trio.fail_after(20), pytest.raises(KubeError, match="more than 20 pages"):
            await KubeServer(client).list_slices(QUERY)

    assert asked == PAGES_LIMIT
