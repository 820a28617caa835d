"""What slices say of calls that kubelet leaves out: only where all who must know of it do."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import attrs
import pytest
import trio
from trio.testing import MockClock

from berth.kube.api import Node, ServerVersion
from berth.kube.slices import Slice
from berth.model.inventory import Inventory
from berth.runtime.latest import Latest
from tests.unit.dra.fakeapi import FakeApi
from tests.unit.dra.shelf import nics
from tests.unit.dra.test_countersthere import Scene, scene

__all__ = ["scene"]

GATE = "DRAOptionalNodeOperations"
NODE = Node(name="worker-7", uid="node-uid", declared=frozenset({GATE}))
SKIPPED = Inventory(devices=tuple(attrs.evolve(one, skips=("*",)) for one in nics(2)))
SEEN: str | None = None
Open = Callable[..., AbstractAsyncContextManager[Scene]]


def server(minor: int = 37, *, declared: bool = True) -> FakeApi:
    """A server of some version, whose node declares it or not."""
    api = FakeApi(NODE if declared else attrs.evolve(NODE, declared=frozenset()))
    api.version = ServerVersion(major=1, minor=minor, text=f"v1.{minor}.0")
    return api


def drop(item: Slice) -> Slice:
    """What a server whose gate is off makes of a slice."""
    return attrs.evolve(item, skips=())


@pytest.mark.parametrize(
    ("api", "unseen", "words"),
    [
        (server(), SEEN, ""),
        (server(36), SEEN, f"feature gate {GATE} is off: server 1.36"),
        (server(declared=False), SEEN, f"feature gate {GATE} is off: the node does not declare it"),
        (server(), "these credentials may not list", "claims are not seen: these credentials"),
    ],
)
async def test_slices_say_it_only_where_all_know_of_it(
    scene: Open, autojump_clock: MockClock, api: FakeApi, unseen: str | None, words: str
) -> None:
    """Else a pod would wait for ever, or the other door would not know that a device is taken."""

    async with scene(api, SKIPPED, unseen=Latest(unseen)) as found:
        told = found.publisher.not_in_force

        assert [one.skips for one in api.owned()] == [() if words else ("*",)]
        assert [words in one for one in told] == ([True] if words else [])
        assert set(told) <= set(found.publisher.statistics().remarks)


async def test_nothing_is_told_where_no_group_asks(scene: Open, autojump_clock: MockClock) -> None:
    """Most nodes have no use for it."""

    async with scene(server(36), Inventory(devices=nics(2))) as found:
        assert found.publisher.not_in_force == ()


async def test_slices_follow_what_is_in_force(scene: Open, autojump_clock: MockClock) -> None:
    """One write each way: the devices stay where they are, and only the field changes."""

    state: Latest[str | None] = Latest("not listed yet")
    async with scene(server(), SKIPPED, unseen=state) as found:
        assert [one.skips for one in found.api.owned()] == [()]
        for unseen, skips in ((None, ("*",)), ("the watch is gone", ())):
            before = len(found.api.requests)
            state.set(unseen)
            await trio.sleep(30)

            assert [one.skips for one in found.api.owned()] == [skips]
            assert len(found.api.requests) == before + 1


async def test_kubelet_that_comes_back_with_another_gate_is_looked_at(
    scene: Open, autojump_clock: MockClock
) -> None:
    """Its node declares something else then."""

    async with scene(server(), SKIPPED, unseen=Latest(SEEN)) as found:
        found.api.nodes["worker-7"] = attrs.evolve(NODE, declared=frozenset())
        found.publisher.look_at_node()
        await trio.sleep(30)

        assert [one.skips for one in found.api.owned()] == [()]
        assert found.publisher.not_in_force


async def test_server_that_drops_it_is_asked_once(scene: Open, autojump_clock: MockClock) -> None:
    """Kubelet is to ask for everything then, and the slices are as they should be."""

    api = server()
    api.hooked = True
    api.store = drop
    async with scene(api, SKIPPED, unseen=Latest(SEEN)) as found:
        await trio.sleep(120)

        assert len(api.requests) <= 2
        assert "dropped by the server" in found.publisher.not_in_force[0]
        assert found.publisher.statistics().state == "published"
