"""The device plugin door on real sockets, with kubelets that come and go, and units in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio

from berth.deviceplugin.plugin import PluginDoor
from berth.deviceplugin.podresources import PodResources
from berth.deviceplugin.service import Counter
from berth.model.edits import DeviceNode, Edits, NodeType
from berth.model.resource import Grant, Resource, Unit
from berth.rehearsal.kubelet import Act, KubeletDevices, Note
from berth.runtime.asyncthread import AsyncioThread
from berth.runtime.inotify import Inotify
from berth.runtime.latest import Latest
from berth.runtime.supervisor import Supervisor

DRIVER = "berth.dev"
GPU = "nvidia.com/gpu"
MODEM = "berth.dev/modem"
LIMIT_S = 30.0
"""After which a test has failed; on a busy machine everything takes its time."""


def units(count: int, *, ill: int = 0, prefix: str = "GPU-") -> tuple[Unit, ...]:
    """Give units, the last of them ill."""
    return tuple(
        Unit(
            id=f"{prefix}{number}",
            device=f"gpu-{number}",
            healthy=number < count - ill,
            numa=(number % 2,),
            pcie_root=f"pci{number % 4:04x}:00",
        )
        for number in range(count)
    )


def gpus(count: int, *, ill: int = 0) -> Resource:
    """Give a resource of so many GPUs."""
    return Resource(name=GPU, units=units(count, ill=ill))


class Desk:
    """Gives out whatever it is asked for, unless a test sets `act`."""

    def __init__(self, *resources: Resource) -> None:
        self.resources: Latest[tuple[Resource, ...]] = Latest(resources)
        self.asked: list[tuple[str, tuple[str, ...]]] = []
        self.act: Callable[[str, tuple[str, ...]], Awaitable[object]] = self._nothing

    async def _nothing(self, _resource: str, _ids: tuple[str, ...]) -> None:
        await trio.lowlevel.checkpoint()

    async def allocate(self, resource: str, ids: tuple[str, ...]) -> Grant:
        """Give a node for each id, and their names in the environment."""
        self.asked.append((resource, ids))
        await self.act(resource, ids)
        nodes = tuple(
            DeviceNode(
                path=f"/dev/{name}", host_path=f"/dev/{name}", type=NodeType.CHAR, major=1, minor=3
            )
            for name in ids
        )
        return Grant(edits=Edits(env=(f"IDS={','.join(ids)}",), nodes=nodes))


@attrs.define
class Bed:
    """One daemon's plugin door under a supervisor, and what is around it."""

    thread: AsyncioThread
    root: Path
    private: Path
    desk: Desk
    door: PluginDoor
    supervisor: Supervisor
    notes: list[Note] = attrs.field(factory=list)

    @property
    def folder(self) -> Path:
        """Kubelet's folder of device plugins."""
        return self.root / "device-plugins"

    @property
    def pods(self) -> PodResources:
        """Who asks kubelet what its pods have."""
        return PodResources(self.thread, root=self.root)

    def sockets(self) -> list[str]:
        """Names of the sockets of plugins that lie in the folder."""
        return sorted(path.name for path in self.folder.glob("berth-*.sock"))

    def kubelet(self) -> KubeletDevices:
        """Give a new life of kubelet's device manager."""
        return KubeletDevices(
            self.thread, root=self.root, private=self.private, report=self.notes.append
        )

    @asynccontextmanager
    async def kubelet_running(self) -> AsyncIterator[KubeletDevices]:
        """Let a kubelet live while the block runs."""
        async with trio.open_nursery() as nursery:
            kubelet = self.kubelet()
            await nursery.start(kubelet.run)
            yield kubelet
            nursery.cancel_scope.cancel()

    async def wait_registered(self, times: int) -> None:
        """Wait until kubelets took the GPUs so often."""
        await until(lambda: len(self.acts(Act.REGISTERED)) == times)

    def acts(self, act: Act, subject: str = GPU) -> list[str]:
        """Give what kubelets noted of one kind."""
        return [note.detail for note in self.notes if (note.act, note.subject) == (act, subject)]


OpenBed = Callable[..., AbstractAsyncContextManager[Bed]]


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what nobody reports, such as a file."""
    while True:
        if condition():
            return
        await trio.sleep(0.01)


@pytest.fixture
def open_bed(thread: AsyncioThread, inotify: Inotify, folder: Path) -> OpenBed:
    """Give a way to open the door of a daemon, several times if need be."""

    @asynccontextmanager
    async def begin(
        *resources: Resource, driver: str = DRIVER, counter: Counter | None = None
    ) -> AsyncIterator[Bed]:
        private = folder / "run"
        private.mkdir(exist_ok=True)
        root = folder / "kubelet"
        desk = Desk(*resources)
        door = PluginDoor(
            thread=thread,
            inotify=inotify,
            driver=driver,
            counter=counter or desk,
            private=private,
            folder=root / "device-plugins",
            pods=PodResources(thread, root=root),
        )
        supervisor = Supervisor(door.plugins())
        async with trio.open_nursery() as nursery:
            with trio.fail_after(LIMIT_S):
                await nursery.start(supervisor.run)
            try:
                yield Bed(
                    thread=thread,
                    root=root,
                    private=private,
                    desk=desk,
                    door=door,
                    supervisor=supervisor,
                )
            finally:
                with trio.move_on_after(10, shield=True):
                    await supervisor.stop(grace_s=5)

    return begin
