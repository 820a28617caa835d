"""The DRA door as plugins for the supervisor: claims served to kubelet, and slices published.

Two plugins, since an API server that fails must not end a claim that is being served.

The public sockets outlive the runs of the plugin (`berth.runtime.frontdoor`): while it restarts,
kubelet's calls wait in them. They are opened in the order that kubelet needs: claims can be served
before it is told that they are. Kubelet's root directory is kubelet's to make; until it is there
the plugin waits, and below it makes the driver's own folders.

Source: KC §1.2, §1.3, §1.8; cases.md 1, 2; daemon.md §3, §5.
"""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs
import trio

from berth.dra.health import HealthStatistics, HealthStreams
from berth.dra.publisher import Publisher
from berth.dra.registration import Places, Registration, RegistrationState
from berth.dra.service import VERSIONS, ClaimService, DraService, DraStatistics
from berth.runtime.asyncthread import AsyncioThread
from berth.runtime.files import make_folder
from berth.runtime.frontdoor import DoorStatistics, FrontDoor
from berth.runtime.grpcbridge import GrpcServer
from berth.runtime.inotify import Inotify
from berth.runtime.latest import Latest
from berth.runtime.listeners import FOLDER_MODE
from berth.runtime.logs import get_log
from berth.runtime.sockets import watch_inode
from berth.runtime.supervisor import Plugin
from berth.runtime.threads import run_in_thread

ANSWER_S: Final = 0.5
"""What a drain keeps of its time for answers to get out, in seconds."""

LOOK_EVERY_S: Final = 2.0
"""Between two looks for kubelet's root directory while it is missing, in seconds."""

_log = get_log(__name__)


@attrs.frozen(kw_only=True)
class DraPluginStatistics:
    """How the DRA door fares.

    Attributes:
        registration: What kubelet last said.
        claims: What was done with claims.
        door: Of the socket for claims; kubelet keeps one connection to it.
        health: Of the streams that tell of devices' health; ``None`` where none are offered.
        missing_root: Kubelet's root directory, while it is missing.
    """

    registration: RegistrationState
    claims: DraStatistics
    door: DoorStatistics
    health: HealthStatistics | None = None
    missing_root: Path | None = None

    def __str__(self) -> str:
        if self.missing_root is not None:
            return f"not registered, {self.missing_root} is missing ([kubelet] root)"
        if self.registration.registered and not self.door.connections:
            return "registered, kubelet is away"
        return str(self.registration)


class DraPlugin:
    """The DRA door of one driver; made once, its runs may be many.

    Args:
        thread: The loop on which grpcio runs.
        inotify: Tells when a socket is removed.
        places: Where kubelet looks.
        claims: Who prepares claims.
        publisher: Who publishes the devices; ``None`` where somebody else runs it.
        health: Who tells kubelet of devices' health; ``None`` where nobody does.
        private: Folder for grpcio's own sockets, which nobody else writes.
        inherited: Listening sockets handed in, by path; those of other paths are left alone.
        versions: Versions of kubelet's DRA service that are offered.
    """

    def __init__(
        self,
        *,
        thread: AsyncioThread,
        inotify: Inotify,
        places: Places,
        claims: ClaimService,
        publisher: Publisher | None = None,
        health: HealthStreams | None = None,
        private: Path,
        inherited: Mapping[Path, socket.socket] | None = None,
        versions: Sequence[str] = VERSIONS,
    ) -> None:
        handed = inherited or {}
        self._thread = thread
        self._inotify = inotify
        self._places = places
        self._publisher = publisher
        self._private = private
        self._service = DraService(claims, versions=versions)
        self._health = health
        self._services = self._service.services()
        tokens = self._service.tokens
        if health is not None:
            # Behind those of claims: that is the order of kubelet's own helper, KC §1.3.
            self._services += health.services()
            tokens += health.tokens
        self._registration = Registration(places, tokens=tokens)
        self._dra_door = FrontDoor(path=places.dra_socket, inherited=handed.get(places.dra_socket))
        self._registration_door = FrontDoor(
            path=places.registration_socket, inherited=handed.get(places.registration_socket)
        )
        self._opened: set[FrontDoor] = set()
        self._numbers = itertools.count(1)
        self._server: GrpcServer | None = None
        self._missing_root = False

    def plugins(self) -> tuple[Plugin, ...]:
        """What the supervisor is to run."""
        dra = Plugin(name="dra", run=self.run, drain=self.drain)
        if self._publisher is None:
            return (dra,)
        return (dra, Plugin(name="slices", run=self._publisher.run))

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve claims until cancelled; ``started()`` when serving, or waiting for kubelet's root.

        Raises:
            HostError: A socket cannot be bound, for instance because another process serves it.
        """
        waits = not self._places.root.is_dir()
        if waits:
            task_status.started()
        await self._make_folders()
        # A name of its own for each run: grpcio removes what lies at its path when it stops.
        private = self._private / f"{os.getpid()}-dra{next(self._numbers)}.sock"
        server = GrpcServer(
            self._thread, path=private, services=(*self._services, self._registration.service())
        )
        async with trio.open_nursery() as nursery:
            await nursery.start(server.run)
            self._server = server
            for door in (self._dra_door, self._registration_door):
                self._open(door)
                await nursery.start(door.serve, private)
                nursery.start_soon(door.keep, self._inotify)
            nursery.start_soon(self._keep_folders)
            nursery.start_soon(self._registration.remind, self.wait_kubelet)
            if not waits:
                task_status.started()
            # After a drain everything above has returned; the run ends when it is told to.
            await trio.sleep_forever()

    async def drain(self) -> None:
        """Take no further call and wait for those under way; clients wait in the kept sockets.

        A claim that still waits when the caller's time is nearly over is answered by an error.
        """
        doors = (self._registration_door, self._dra_door)
        self._service.end_by(trio.current_effective_deadline() - 2 * ANSWER_S)
        if self._server is not None:
            self._server.end_streams()
        async with trio.open_nursery() as nursery:
            for door in doors:
                nursery.start_soon(door.dismiss)
        if self._server is not None:
            await self._server.drain()
        # The last answers are still on their way through the doors.
        with trio.move_on_after(ANSWER_S):
            for door in doors:
                await door.connections.wait_value(lambda count: not count)

    async def probe(self) -> None:
        """Return once a new client of the private socket is greeted; at once between two runs.

        Raises:
            HostError: It is not.
        """
        if self._server is not None:
            await self._server.probe()

    def close(self) -> None:
        """Give the public sockets up; those that were handed in stay for their owner's use."""
        for door in self._opened:
            door.close()
        self._opened.clear()

    @property
    def registered(self) -> Latest[RegistrationState]:
        """What kubelet last said; it changes each time that kubelet comes."""
        return self._registration.state

    async def wait_kubelet(self) -> None:
        """Wait until kubelet would send claims here.

        A pod that is scheduled before pays 60 to 90 s (KC §3.2). Behind kept sockets kubelet does
        not register anew, it connects at once and speaks; who looks whether somebody listens, as
        `FrontDoor.open` does, says nothing. Where the sockets are new ones a connection proves
        nothing: it belongs to an earlier registration that kubelet is about to end (KC §1.4).
        """
        async with trio.open_nursery() as nursery:

            async def first(wait: Callable[[], Awaitable[object]]) -> None:
                await wait()
                nursery.cancel_scope.cancel()

            state, door = self._registration.state, self._dra_door
            nursery.start_soon(first, lambda: state.wait_value(lambda now: now.registered))
            if door.statistics().inherited:
                nursery.start_soon(
                    first,
                    lambda: door.heard.wait_value(lambda heard: heard and not door.bound.get()),
                )

    def statistics(self) -> DraPluginStatistics:
        """Give the state of now."""
        return DraPluginStatistics(
            registration=self._registration.state.get(),
            claims=self._service.statistics(),
            door=self._dra_door.statistics(),
            health=self._health.statistics() if self._health is not None else None,
            missing_root=self._places.root if self._missing_root else None,
        )

    def _open(self, door: FrontDoor) -> None:
        if door not in self._opened:
            door.open()
            self._opened.add(door)

    async def _make_folders(self) -> None:
        """Make the driver's folders below kubelet's root, once that is there.

        Raises:
            HostError: They cannot be made.
        """
        root = self._places.root
        while not root.is_dir():
            if not self._missing_root:
                _log.warning(
                    "kubelet's root directory is missing, waiting for it",
                    path=root,
                    mend="is kubelet installed, and is [kubelet] root what its --root-dir says?",
                )
            self._missing_root = True
            await trio.sleep(LOOK_EVERY_S)
        self._missing_root = False
        for folder in (self._places.dra_socket.parent, self._places.registry):
            await run_in_thread("files", make_folder, folder, mode=FOLDER_MODE)

    async def _keep_folders(self) -> None:
        """Make the folders again when kubelet's root was emptied, so that the doors find them."""
        with watch_inode(self._inotify, self._places.dra_socket) as changes:
            async for found in changes:
                if found is None:
                    await self._make_folders()
