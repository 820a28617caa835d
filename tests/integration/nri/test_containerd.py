"""The plugin at real containerds, pods made by CRI: what each version tells, and how each fails."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import attrs
import pytest
import trio

from berth.errors import ClaimError
from berth.model.pod import Container, Sandbox
from berth.nri.handlers import Turn
from berth.nri.plugin import Plugin, PluginState
from berth.nri.versions import Version, known_events, leaks_failed_sandboxes, parse_version
from berth.runtime.inotify import Inotify
from berth.runtime.latest import Latest
from tests.cluster import bed, cache
from tests.cluster.boxes import Box
from tests.cluster.parts import CONTAINERD, KINDS
from tests.cluster.rundir import RunFolder
from tests.integration.nri.cri import Containerd, CriError, Pod, compile_messages
from tests.unit.nri.scripted import ScriptedHooks

pytestmark = pytest.mark.cluster

REFUSED = "pod ns/p: NIC eth1 is not at home; wait"


@pytest.fixture(scope="module", params=sorted(KINDS))
def containerd(request: pytest.FixtureRequest) -> Iterator[Containerd]:
    """A containerd of each version, where its parts have been built already."""
    kind = KINDS[request.param]
    release = kind.containerd_release
    entry = f"debian-{release}-containerd" if release else CONTAINERD.key()
    lacks = [*bed.missing(), *([] if (cache.root() / entry).is_dir() else [f"{entry} (built)"])]
    lacks += [tool for tool in ("/usr/sbin/runc", "/usr/lib/cni/ptp") if not Path(tool).exists()]
    if lacks:
        pytest.skip(f"no containerd can run here: it lacks {', '.join(lacks)}")
    folder = RunFolder()
    made = Containerd(
        box=Box("nri", folder.path / "nri", node=True),
        kind=kind,
        version=kind.containerd_version(),
        cgroup=f"{folder.cgroup}/nri",
        messages=compile_messages(folder.path),
    )
    try:
        made.start()
        yield made
    finally:
        made.stop()
        folder.close()


@attrs.define(eq=False)
class Desk:
    """A plugin with scripted hooks at a containerd."""

    containerd: Containerd
    hooks: ScriptedHooks
    state: Latest[PluginState | None]

    def names(self) -> list[object]:
        """Gives the hooks called since the last look, by name."""
        told = [entry[0] for entry in self.hooks.told]
        self.hooks.told.clear()
        return told

    def sandbox(self, name: str) -> Sandbox:
        """Gives the sandbox that a hook of that name was told last."""
        found = next(entry[1] for entry in reversed(self.hooks.told) if entry[0] == name)
        assert isinstance(found, Sandbox)
        return found

    async def wait_synchronized(self) -> PluginState:
        """Waits until the plugin is in place."""
        state = await self.state.wait_value(lambda state: state is not None and state.synchronized)
        assert state is not None
        return state


@pytest.fixture
async def desk(
    containerd: Containerd, inotify: Inotify, nursery: trio.Nursery
) -> AsyncIterator[Desk]:
    """A plugin that is in place and agrees to everything."""
    made = Desk(containerd, ScriptedHooks(), Latest(None))
    plugin = Plugin(
        socket=containerd.nri_socket,
        inotify=inotify,
        name="berth",
        index="10",
        timeout_s=1.5,
        hooks=made.hooks,
        tell=made.state.set,
    )
    with trio.fail_after(60):
        await nursery.start(plugin.run)
        await made.wait_synchronized()
        made.hooks.told.clear()
        yield made
    nursery.cancel_scope.cancel()


async def _refuse(_: Turn | None) -> None:
    await trio.lowlevel.checkpoint()
    raise ClaimError("pod ns/p", "NIC eth1 is not at home", mend="wait")


async def test_runtime_is_known(desk: Desk) -> None:
    """Name and version decide which events are asked for, and where a sandbox may be refused."""
    runtime = (await desk.wait_synchronized()).runtime
    assert runtime is not None
    version = parse_version(runtime.version)
    assert version is not None

    assert (runtime.name, version[:2]) == ("containerd", desk.containerd.version)
    assert bool(known_events(runtime) & 0x2000) == (version >= Version(2, 2))
    assert leaks_failed_sandboxes(runtime) == (version[:2] == (2, 1))


async def test_life_of_a_pod_is_told(desk: Desk) -> None:
    """Each step once and in order, with what the hooks decide by."""
    pod = Pod(desk.containerd, "life")
    await pod.run()
    run = desk.sandbox("run_pod_sandbox")
    assert (run.id, run.uid, run.name, run.namespace) == (pod.sandbox_id, pod.uid, "life", "ns")
    assert run.annotations["berth.dev/test"] == "yes"
    assert run.netns_path is not None
    # An absolute link leads out of the box: /var/run is /run.
    assert desk.containerd.box.path(run.netns_path.removeprefix("/var")).exists()
    assert bool(run.ips) == (desk.containerd.version >= (2, 1))

    await pod.start(await pod.create())
    container = desk.hooks.told[1][2]
    assert isinstance(container, Container)
    assert (container.name, container.sandbox_id) == ("main", pod.sandbox_id)
    assert container.env["BERTH_CLAIM_1"] == "nic0"
    assert desk.names() == ["run_pod_sandbox", "create_container", "start_container"]

    await pod.stop()
    stopped = desk.sandbox("stop_pod_sandbox")
    expected = run.netns_path if desk.containerd.version >= (2, 1) else None
    assert (stopped.id, stopped.netns_path) == (pod.sandbox_id, expected)
    await pod.remove()
    assert sorted(map(str, desk.names())) == [
        "remove_container",
        "remove_pod_sandbox",
        "stop_container",
        "stop_pod_sandbox",
    ]


async def test_refused_sandbox_is_undone(desk: Desk) -> None:
    """Our words reach whoever asked; Stop and Remove follow at once."""
    desk.hooks.act = _refuse
    with pytest.raises(CriError, match=f"NRI RunPodSandbox failed.*{REFUSED}"):
        await Pod(desk.containerd, "refused").run()

    assert desk.names() == ["run_pod_sandbox", "stop_pod_sandbox", "remove_pod_sandbox"]


async def test_late_hook_refuses_the_sandbox(desk: Desk) -> None:
    """The runtime hears an error in time, so it neither drops us nor starts the pod bare."""

    async def sleep(turn: Turn | None) -> None:
        if turn is not None:
            await trio.sleep_forever()

    desk.hooks.act = sleep
    with pytest.raises(CriError, match=r"not done within 1\.50 s"):
        await Pod(desk.containerd, "late").run()

    assert desk.hooks.cancelled == ["run_pod_sandbox"]
    assert (await desk.wait_synchronized()).synchronized
    assert "synchronize" not in desk.names()


async def test_refused_container_is_tried_again_in_its_sandbox(desk: Desk) -> None:
    """This is the place to refuse on every version."""
    pod = Pod(desk.containerd, "container")
    await pod.run()
    desk.hooks.act = _refuse
    with pytest.raises(CriError, match=f"failed to get NRI adjustment.*{REFUSED}"):
        await pod.create()
    desk.hooks.act = None
    container = await pod.create()
    desk.hooks.act = _refuse
    with pytest.raises(CriError, match=f"NRI container start failed.*{REFUSED}"):
        await pod.start(container)

    desk.hooks.act = None
    await pod.stop()
    await pod.remove()


async def test_standing_still_in_creation(desk: Desk) -> None:
    """A daemon that answers nothing at all lets the container pass, unless it also validates."""

    def stand_still() -> None:
        time.sleep(2.5)

    async def block(turn: Turn | None) -> None:
        await trio.lowlevel.checkpoint()
        stand_still()

    pod = Pod(desk.containerd, "still")
    await pod.run()
    desk.hooks.act = block
    if desk.containerd.version >= (2, 2):
        with pytest.raises(CriError, match="validator plugin 10-berth failed"):
            await pod.create()
    else:
        await pod.create()

    desk.hooks.act = None
    await desk.state.wait_value(lambda state: state is not None and not state.synchronized)
    await desk.wait_synchronized()
    await pod.stop()
    await pod.remove()


async def test_restarted_runtime_is_followed(desk: Desk) -> None:
    """The pod that went on running is told by Synchronize, with its namespace."""
    pod = Pod(desk.containerd, "restart")
    await pod.run()
    await pod.start(await pod.create())
    desk.names()
    await trio.to_thread.run_sync(desk.containerd.restart)
    await desk.state.wait_value(lambda state: state is not None and not state.synchronized)
    await desk.wait_synchronized()

    _, sandboxes, containers = desk.hooks.told[0]
    assert isinstance(sandboxes, tuple)
    assert isinstance(containers, tuple)
    [found] = [sandbox for sandbox in sandboxes if sandbox.id == pod.sandbox_id]
    assert found.netns_path is not None
    assert [each.sandbox_id for each in containers] == [pod.sandbox_id]
    desk.containerd._wait_serving()
    desk.names()
    await pod.stop()
    await pod.remove()
    # Of a pod from before its restart, containerd tells the containers' end and no more.
    assert set(desk.names()) == {"stop_container", "remove_container"}
