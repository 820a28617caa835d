"""What the cluster can do is learned in one place, and followed without writing for ever."""

from __future__ import annotations

import logging

import attrs
import pytest
import trio
from trio.testing import MockClock

from berth.errors import KubeError
from berth.features.servers import HOLD_S
from berth.features.states import Verdict
from berth.kube.api import Node, ServerVersion
from tests.unit.dra.fakeapi import FakeApi
from tests.unit.dra.shelf import nics, part
from tests.unit.dra.test_countersthere import Open as OpenWithParts
from tests.unit.dra.test_countersthere import in_groups
from tests.unit.dra.test_countersthere import scene as scene_with_parts
from tests.unit.dra.test_publisher import Open, scene

__all__ = ["scene", "scene_with_parts"]

SKIP = "optional-node-operations"
SHARES = "consumable-capacity"
GROUPS = "compatibility-groups"
NODE = Node(name="worker-7", uid="node-uid", kubelet_version="v1.37.2")
DECLARED = frozenset({"DRAOptionalNodeOperations"})


def turn(api: FakeApi, minor: int) -> None:
    """Let a server of another version answer from now on."""
    api.cut_watches()
    api.version = ServerVersion(major=1, minor=minor, text=f"v1.{minor}.2")
    api.mend_watches()


async def test_servers_that_take_turns_cost_three_changes(
    autojump_clock: MockClock, scene_with_parts: OpenWithParts
) -> None:
    """A rolling upgrade of several servers: what both have is kept, and the new at its end."""

    api = FakeApi(NODE)
    async with scene_with_parts(api, in_groups(part(0), part(1))) as it:
        assert it.grouped() == [["mig"], ["mig"]]
        written = len(api.requests)
        for number in range(40):
            turn(api, (36, 37)[number % 2])
            await trio.sleep(7)

        assert it.grouped() == [None, None]
        assert len(api.requests) == written + 3
        # The one that answers now is the new one.
        await trio.sleep(HOLD_S)
        assert it.grouped() == [["mig"], ["mig"]]
        assert len(api.requests) == written + 4


async def test_watch_that_breaks_again_and_again_asks_seldom(
    autojump_clock: MockClock, scene: Open
) -> None:
    """A server is asked as often as a pool may be written, and the last word is heard."""

    api = FakeApi(NODE)
    async with scene(*nics(2), api=api) as it:
        for number in range(240):
            turn(api, (36, 37)[number % 2])
            await trio.sleep(0.25)

        assert api.versions_asked <= 1 + 8 + 60 / 5
        assert it.verbs() == ["create"]
        await trio.sleep(30)
        assert not api.version.text.startswith("v1.36")  # type: ignore[union-attr] # a version
        asked = api.versions_asked
        await trio.sleep(3600)
        assert api.versions_asked == asked


async def test_server_that_has_just_started_is_asked_until_it_knows(
    autojump_clock: MockClock, scene: Open
) -> None:
    """At first it refuses its version, and has no storage to show: seen on 1.37.2."""

    api = FakeApi(NODE)
    async with scene(*nics(2), api=api) as it:
        states = it.publisher.capabilities.states
        assert states.get().of(SHARES).is_on

        api.cut_watches()
        version, api.version = api.version, KubeError("/version", "forbidden", status=403)
        api.mend_watches()
        await trio.sleep(1)
        api.version = version
        busy = KubeError("POST", "wait for storage version registration", status=503)

        def refuse(verb: str, _slice: object) -> None:
            if verb == "try":
                raise busy

        api.refuse = refuse
        await trio.sleep(5)
        assert states.get().of(SHARES).is_on
        assert "wait for storage version registration" in it.state
        api.refuse = lambda _verb, _slice: None
        await trio.sleep(30)

        assert states.get().of(SHARES).is_on
        assert it.state == "published"


async def test_refusal_of_a_server_that_has_just_started_is_no_answer(
    autojump_clock: MockClock, scene: Open
) -> None:
    """It may not be asked to create anything before its roles are there; later it keeps all."""

    api = FakeApi(NODE)
    async with scene(*nics(2), api=api) as it:
        states = it.publisher.capabilities.states

        def refuse(verb: str, _slice: object) -> None:
            if verb == "try":
                raise KubeError("POST", "forbidden", status=403)

        turn(api, 38)
        api.refuse = refuse
        await trio.sleep(3)
        api.refuse = lambda _verb, _slice: None
        await trio.sleep(30)
        assert str(states.get().of(GROUPS)) == "on: kept by the server"

        turn(api, 39)
        api.refuse = refuse
        await trio.sleep(60)
        assert states.get().of(GROUPS).verdict is Verdict.UNKNOWN
        assert it.state == "published"


async def test_change_is_told_in_one_line(
    autojump_clock: MockClock, scene: Open, caplog: pytest.LogCaptureFixture
) -> None:
    """The whole at the start, and later what has changed."""

    caplog.set_level(logging.INFO)
    api = FakeApi(NODE)
    async with scene(*nics(2), api=api):
        turn(api, 37)
        await trio.sleep(10)
        turn(api, 36)
        await trio.sleep(10)

    lines = [one for one in caplog.messages if "features of the cluster" in one]
    assert len(lines) == 2


async def test_kubelet_that_came_again_declares_other_features(
    autojump_clock: MockClock, scene: Open
) -> None:
    """Its Node is read anew, and nothing is written for it."""

    api = FakeApi(NODE)
    async with scene(*nics(2), api=api) as it:
        states = it.publisher.capabilities.states
        assert str(states.get().of(SKIP)) == "off: the node does not declare it"

        api.nodes["worker-7"] = attrs.evolve(NODE, declared=DECLARED)
        it.publisher.look_at_node()
        await trio.sleep(1)
        assert str(states.get().of(SKIP)) == "on: kept by the server; declared by the node"
        assert it.verbs() == ["create"]
        reads = api.reads
        await trio.sleep(3600)
        assert api.reads == reads


async def test_slice_for_show_is_nowhere_afterwards(autojump_clock: MockClock, scene: Open) -> None:
    """What is tried is not stored, not watched and not counted as a write."""

    api = FakeApi(NODE)
    async with scene(*nics(1), api=api) as it:
        assert api.tries == 1
        assert api.devices() == ["nic-0000"]
        assert it.publisher.statistics().writes == 1


async def test_what_a_hook_hides_is_learned_from_writes(
    autojump_clock: MockClock, scene_with_parts: OpenWithParts
) -> None:
    """An admission hook that knows no dry run: groups are dropped once and then not sent."""

    api = FakeApi(NODE)
    api.hooked = True
    async with scene_with_parts(api, in_groups(part(0), part(1))) as it:
        states = it.publisher.capabilities.states
        assert str(states.get().of(GROUPS)).startswith("unknown: off by default in server 1.37")
        assert it.grouped() == [["mig"], ["mig"]]
        turn(api, 37)
        await trio.sleep(5)
        assert it.grouped() == [["mig"], ["mig"]]
