"""The DRA door on real sockets, with claims that do as they are told and a server in memory."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio

from berth.dra.health import HealthStreams
from berth.dra.history import node_history
from berth.dra.nodename import NodeChoice
from berth.dra.plugin import DraPlugin
from berth.dra.publisher import Publisher
from berth.dra.registration import Places
from berth.kube.api import Node
from berth.model.claim import ClaimRef, PreparedClaim, PreparedDevice
from berth.model.inventory import Inventory
from berth.rehearsal.kubelet import Act, Kubelet, Note
from berth.rehearsal.kubelet.health import TOKENS
from berth.runtime.asyncthread import AsyncioThread
from berth.runtime.files import Folder
from berth.runtime.inotify import Inotify
from berth.runtime.latest import Latest
from berth.runtime.supervisor import Supervisor
from tests.unit.dra.fakeapi import FakeApi
from tests.unit.dra.shelf import nics

DRIVER = "berth.dev"
LIMIT_S = 20.0
"""After which a test has failed; on a busy machine everything takes its time."""


class Claims:
    """Prepares at once, unless a test sets `act`."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.beside: Sequence[ClaimRef] = ()
        self.act: Callable[[ClaimRef], Awaitable[object]] = self._nothing
        self._changed = trio.lowlevel.ParkingLot()

    async def _nothing(self, _ref: ClaimRef) -> None:
        await trio.lowlevel.checkpoint()

    async def wait_begun(self, uid: str) -> None:
        """Wait until a claim is being worked on."""
        while uid not in self.begun:
            await self._changed.park()

    async def prepare(self, ref: ClaimRef, *, beside: Sequence[ClaimRef] = ()) -> PreparedClaim:
        """Prepare one device."""
        self.beside = beside
        await self.unprepare(ref)
        device = PreparedDevice(
            requests=("nic",),
            pool="worker-7/nic",
            device="nic-0000",
            cdi_ids=(f"{DRIVER}/nic={ref.uid}",),
            share_id="share-1",
        )
        return PreparedClaim(ref=ref, devices=(device,))

    async def unprepare(self, ref: ClaimRef) -> None:
        """Undo it."""
        self.begun.append(ref.uid)
        self._changed.unpark_all()
        await self.act(ref)


@attrs.define
class Door:
    """One daemon's DRA door under a supervisor, and what is around it."""

    thread: AsyncioThread
    root: Path
    api: FakeApi
    claims: Claims
    plugin: DraPlugin
    supervisor: Supervisor
    notes: list[Note] = attrs.field(factory=list)

    @property
    def places(self) -> Places:
        """Where kubelet looks."""
        return Places(root=self.root, driver=DRIVER)

    def kubelet(self, *, health: Iterable[str] = TOKENS) -> Kubelet:
        """Give a new life of kubelet, which knows these versions of the health service."""

        async def wipe(driver: str | None) -> None:
            await trio.lowlevel.checkpoint()
            for item in self.api.owned(driver or DRIVER):
                self.api.drop(item.name)

        return Kubelet(
            self.thread, root=self.root, wipe=wipe, report=self.notes.append, health=health
        )

    @asynccontextmanager
    async def kubelet_running(self, *, health: Iterable[str] = TOKENS) -> AsyncIterator[Kubelet]:
        """Let a kubelet live while the block runs."""
        async with trio.open_nursery() as nursery:
            kubelet = self.kubelet(health=health)
            await nursery.start(kubelet.run)
            yield kubelet
            nursery.cancel_scope.cancel()

    def acts(self, act: Act) -> list[Note]:
        """Give what kubelets noted of one kind."""
        return [note for note in self.notes if note.act is act]


OpenDoor = Callable[..., AbstractAsyncContextManager[Door]]


def ref(uid: str = "uid-1") -> ClaimRef:
    """Give a claim."""
    return ClaimRef(namespace="ns", name=f"claim-{uid}", uid=uid)


@pytest.fixture
def open_door(thread: AsyncioThread, inotify: Inotify, folder: Path) -> OpenDoor:
    """Give a way to open the door of a daemon, several times if need be."""

    @asynccontextmanager
    async def begin(
        *,
        root: Path | None = None,
        inherited: dict[Path, socket.socket] | None = None,
        versions: tuple[str, ...] = ("v1", "v1beta1"),
        api: FakeApi | None = None,
        health: HealthStreams | None = None,
    ) -> AsyncIterator[Door]:
        if root is None:
            root = folder / "kubelet"
            root.mkdir(exist_ok=True)
        private = folder / "run"
        private.mkdir(exist_ok=True)
        api = api or FakeApi(Node(name="worker-7", uid="node-uid"))
        claims = Claims()
        inventory: Latest[Inventory | None] = Latest(Inventory(devices=nics(3)))
        publisher = Publisher(
            api=api,
            driver=DRIVER,
            inventory=inventory,
            choice=NodeChoice(name="worker-7"),
            history=node_history(Folder(folder / "state")),
        )
        plugin = DraPlugin(
            thread=thread,
            inotify=inotify,
            places=Places(root=root, driver=DRIVER),
            claims=claims,
            publisher=publisher,
            health=health,
            private=private,
            inherited=inherited,
            versions=versions,
        )
        supervisor = Supervisor(plugin.plugins())
        async with trio.open_nursery() as nursery:
            with trio.fail_after(LIMIT_S):
                await nursery.start(supervisor.run)
            try:
                yield Door(
                    thread=thread,
                    root=root,
                    api=api,
                    claims=claims,
                    plugin=plugin,
                    supervisor=supervisor,
                )
            finally:
                with trio.move_on_after(10, shield=True):
                    await supervisor.stop(grace_s=5)
                plugin.close()

    return begin
