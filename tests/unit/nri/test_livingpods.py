"""Pods that asked for NICs as resources and started while we were away."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import attrs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from berth.errors import ClaimError
from berth.model.pod import Container, Sandbox
from berth.nic import execute
from berth.node.views.troubles import Troubles
from berth.nri.hooks import PodHooks
from berth.nri.livingpods import EVERY_S, LATE_MARK_S, MARK_LIVING_S
from tests.unit.node.plugin.test_resourcepods import Bench, marked
from tests.unit.nri.test_hooks import NETNS, Ending, FakeClaims, wait_until


@attrs.define
class Scene:
    """Five pods that run, each with a container that says that it has a NIC.

    Attributes:
        troubles: What the operator is told.
    """

    bench: Bench
    arrivals: FakeClaims
    troubles: Troubles
    hooks: PodHooks
    sandboxes: list[Sandbox]
    containers: list[Container]

    async def bind(self) -> None:
        """Let every pod be known with its NIC."""
        for sandbox in self.sandboxes:
            await self.bench.pods.learn(sandbox)


@pytest.fixture
async def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    """The hooks' tasks run, six NICs are given, and one of them waits for its pod."""
    monkeypatch.setattr(execute, "HOME", "/proc/self/ns/uts")
    bench, arrivals, troubles = Bench(tmp_path), FakeClaims(), Troubles()
    await bench.given.load()
    sandboxes, containers = [], []
    for number in range(6):
        await bench.give(number)
    for number in range(5):
        name = f"p{number}"
        sandbox = Sandbox(
            id=f"s{number}", name=name, namespace="team", uid=f"u{number}", netns_path=str(NETNS)
        )
        bench.has(name, f"modem-{number}")
        sandboxes.append(sandbox)
        containers.append(attrs.evolve(marked(sandbox, f"modem-{number}"), id=f"c{number}"))
    hooks = PodHooks(
        arrivals,
        arrivals=arrivals,
        troubles=troubles,
        is_ending=Ending(),
        resources=bench.pods,
    )
    async with trio.open_nursery() as nursery:
        await nursery.start(hooks.run)
        yield Scene(bench, arrivals, troubles, hooks, sandboxes, containers)
        nursery.cancel_scope.cancel()


async def test_synchronize_asks_nothing_about_pods_that_have_their_nics(
    scene: Scene, autojump_clock: trio.testing.MockClock
) -> None:
    """Though another NIC waits, and kubelet hangs."""

    await scene.bind()
    scene.bench.kubelet.hangs = True
    scene.bench.kubelet.asked.clear()
    began_s = trio.current_time()
    await scene.hooks.synchronize(scene.sandboxes, scene.containers)

    assert trio.current_time() == began_s
    await trio.sleep(200)
    assert scene.bench.kubelet.asked == []
    assert scene.troubles.all() == ()


async def test_synchronize_with_a_silent_kubelet_answers_in_time(
    scene: Scene, autojump_clock: trio.testing.MockClock
) -> None:
    """All questions share one limit; the pods have their NICs when kubelet speaks again."""

    scene.bench.kubelet.hangs = True
    began_s = trio.current_time()
    await scene.hooks.synchronize(scene.sandboxes, scene.containers)
    assert trio.current_time() - began_s <= MARK_LIVING_S
    assert scene.troubles.all() == ()

    scene.bench.kubelet.hangs = False
    await wait_all_tasks_blocked()
    # A namespace is looked at in a thread, for which that clock does not wait.
    autojump_clock.autojump_threshold = math.inf
    autojump_clock.jump(EVERY_S)
    await wait_until(lambda: len(scene.arrivals.attached) == len(scene.sandboxes))
    brought = {(uids, sandbox_id) for uids, sandbox_id, _ in scene.arrivals.attached}
    assert brought == {((f"g{number}",), f"s{number}") for number in range(5)}
    assert scene.troubles.all() == ()


async def test_pod_of_which_kubelet_stays_silent_is_told_of(
    scene: Scene, autojump_clock: trio.testing.MockClock
) -> None:
    """And asked about no more: its next container is."""

    scene.bench.kubelet.hangs = True
    # Each question takes its whole limit.
    many = [attrs.evolve(scene.sandboxes[0], id=f"many-{n}", uid=f"m{n}") for n in range(50)]
    scene.sandboxes += many
    scene.containers += [
        attrs.evolve(scene.containers[0], id=f"of-{one.id}", sandbox_id=one.id) for one in many
    ]
    await scene.hooks.synchronize(scene.sandboxes, scene.containers)
    await trio.sleep(LATE_MARK_S + EVERY_S)
    asked = len(scene.bench.kubelet.asked)
    await trio.sleep(200)

    assert len(scene.bench.kubelet.asked) == asked
    troubles = scene.troubles.all()
    assert {one.pod for one in troubles} == {str(sandbox) for sandbox in scene.sandboxes}
    assert all("kubelet does not say which" in one.text for one in troubles)


async def test_pod_that_ends_before_kubelet_speaks_is_asked_about_no_more(
    scene: Scene, autojump_clock: trio.testing.MockClock
) -> None:
    """Nobody waits for its NIC."""

    scene.bench.kubelet.fault = ClaimError("kubelet.sock", "is not there")
    await scene.hooks.synchronize(scene.sandboxes, scene.containers)
    asked = len(scene.bench.kubelet.asked)
    for sandbox in scene.sandboxes:
        await scene.hooks.stop_pod_sandbox(sandbox)

    await trio.sleep(200)
    assert len(scene.bench.kubelet.asked) == asked
    assert scene.troubles.all() == ()


class Counted(list[Container]):
    """Containers, and how often one walked through them."""

    walks = 0

    def __iter__(self) -> Iterator[Container]:
        self.walks += 1
        return super().__iter__()


async def test_synchronize_walks_through_the_containers_once_for_all_sandboxes(
    scene: Scene,
) -> None:
    """A session takes thousands of both; each with each would hold the daemon up for seconds."""

    walks = []
    for number in (2, 200):
        many = [
            attrs.evolve(scene.sandboxes[0], id=f"many-{n}", uid=f"m{n}") for n in range(number)
        ]
        bare = Counted(Container(id=f"c-{n}", sandbox_id=f"many-{n}") for n in range(number))
        await scene.bind()
        await scene.hooks.synchronize(many, bare)
        walks.append(bare.walks)

    assert walks[0] == walks[1] > 0
