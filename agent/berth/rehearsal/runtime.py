"""The container runtime: NRI's side of the socket, and pods in the order of containerd's steps.

A sandbox gets its namespace and ``eth0``, then plugins hear RunPodSandbox. A container gets its CDI
edits, then plugins hear CreateContainer; its mounts are made at its start. At the stop plugins hear
StopPodSandbox while the namespace lives. A plugin that does not answer in time is dropped and the
pod goes on without it; a refusal is undone as containerd undoes it.

Source: NC §3, §5.1 to 5.4; containerd 2.4 ``internal/cri/server/{sandbox_run,container_create,
container_start,sandbox_stop,sandbox_remove}.go``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs
import trio

from berth.errors import HostError, RemoteProtocolError
from berth.model.edits import Edits
from berth.model.pod import Adjustment, Container, ContainerState, Sandbox
from berth.nri.events import Event
from berth.nri.runtime_peer import Outcome, RuntimePeer
from berth.nri.runtime_role import NRI_0_12, Manner, RuntimeRole
from berth.nri.versions import Runtime as RuntimeName
from berth.rehearsal.cdiedits import applied
from berth.rehearsal.cdispecs import FOLDERS, resolve
from berth.rehearsal.sandbox import ContainerBox, PodName, end_sandbox, make_sandbox
from berth.runtime.listeners import bind_listener, release_path
from berth.runtime.methods import RpcError, Status
from berth.runtime.threads import run_in_thread

NOTHING: Final = Edits()

NRI_SOCKET: Final = Path("/var/run/nri/nri.sock")

CONTAINERD_2_4: Final = RuntimeName(
    name="containerd", version="2.4.2", nri_version="v0.12.3", request_timeout_s=2.0
)


@attrs.define(kw_only=True)
class _Held:
    """A sandbox with what belongs to it.

    Attributes:
        told: Whether plugins are told of its end: not for one from before a restart.
    """

    sandbox: Sandbox
    boxes: dict[str, ContainerBox] = attrs.field(factory=dict)
    told: bool = True
    stopped: bool = False


class Runtime:
    """One container runtime.

    Args:
        socket: Its NRI socket.
        name: What it says of itself.
        manner: The NRI version that it behaves like.
        cdi_folders: Where it looks for CDI files.
    """

    def __init__(
        self,
        *,
        socket: Path = NRI_SOCKET,
        name: RuntimeName = CONTAINERD_2_4,
        manner: Manner = NRI_0_12,
        cdi_folders: Sequence[Path] = FOLDERS,
    ) -> None:
        self.connections = 0
        self._socket = socket
        self._name = name
        self._manner = manner
        self._cdi_folders = tuple(cdi_folders)
        self._peers: list[RuntimePeer] = []
        self._held: dict[str, _Held] = {}
        self._numbers = 1
        # Plugins join between two whole operations only, as since containerd 1.7.26.
        self._operation = trio.Lock()
        self._scope = trio.CancelScope()
        self._down = trio.Event()
        self._news = trio.lowlevel.ParkingLot()

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Have NRI switched on until `go_down` or a cancel, which plugins see as a crash.

        Pods outlive it. Of those there are, the next serving tells plugins no stop, as containerd
        does not after a restart.

        Raises:
            HostError: The socket cannot be made.
        """
        for held in self._held.values():
            held.told = False
        bound, identity = bind_listener(self._socket, make_parent=True)
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(bound))
        self._down = trio.Event()
        try:
            async with trio.open_nursery() as nursery:
                self._scope = nursery.cancel_scope
                nursery.start_soon(self._accept, listener, nursery)
                task_status.started()
        finally:
            self._peers.clear()
            release_path(self._socket, identity)
            self._down.set()
            self._news.unpark_all()

    async def go_down(self) -> None:
        """End `serve`, and wait until its socket is gone."""
        self._scope.cancel()
        await self._down.wait()

    @property
    def plugins(self) -> int:
        """How many plugins hear of events now."""
        return sum(not peer.gone for peer in self._peers)

    async def wait_plugins(self, count: int = 1) -> None:
        """Wait until so many plugins hear of events."""
        while self.plugins != count:
            await self._news.park()

    def sandboxes(self) -> tuple[Sandbox, ...]:
        """Every sandbox that was not removed."""
        return tuple(held.sandbox for held in self._held.values())

    def box(self, container_id: str) -> ContainerBox:
        """One container.

        Raises:
            RpcError: There is none.
        """
        for held in self._held.values():
            if container_id in held.boxes:
                return held.boxes[container_id]
        raise RpcError("container", f"{container_id} not found", code=Status.NOT_FOUND)

    async def run_sandbox(self, pod: PodName, *, host_network: bool = False) -> Sandbox:
        """Make a pod's sandbox.

        Raises:
            RpcError: A plugin refused it, in containerd's words; nothing of it is left.
            HostError: The kernel gave no namespace.
        """
        self._numbers = self._numbers % 250 + 1
        sandbox = await make_sandbox(pod, number=self._numbers + 1, host_network=host_network)
        async with self._operation:
            outcome = await self._relay(Event.RUN_POD_SANDBOX, sandbox)
            if not outcome.error:
                self._held[sandbox.id] = _Held(sandbox=sandbox)
                return sandbox
            await self._relay(Event.STOP_POD_SANDBOX, sandbox)
            await self._relay(Event.REMOVE_POD_SANDBOX, sandbox)
        await end_sandbox(sandbox)
        raise _refused("RunPodSandbox", "NRI RunPodSandbox failed", outcome)

    async def create_container(
        self,
        sandbox: Sandbox,
        name: str,
        *,
        cdi_devices: Sequence[str] = (),
        given: Edits = NOTHING,
    ) -> Container:
        """Make a container, with what kubelet gives it and the edits of its CDI devices.

        Raises:
            RpcError: A CDI device is not to be found, or a plugin refused the container.
        """
        held = self._of(sandbox)
        try:
            edits = await run_in_thread("cdi", resolve, cdi_devices, self._cdi_folders)
        except RemoteProtocolError as error:
            raise RpcError("CreateContainer", str(error), code=Status.UNKNOWN) from error
        box = ContainerBox(sandbox, name, applied((given, edits)))
        box.container = attrs.evolve(box.container, cdi_devices=tuple(cdi_devices))
        async with self._operation:
            outcome = await self._relay(Event.CREATE_CONTAINER, sandbox, box.container)
            if not outcome.error:
                held.boxes[box.container.id] = box
                box.set_state(ContainerState.CREATED, outcome.adjustment.env)
                await self._relay(Event.POST_CREATE_CONTAINER, sandbox, box.container)
                return box.container
            await self._relay(Event.STOP_CONTAINER, sandbox, box.container)
            await self._relay(Event.REMOVE_CONTAINER, sandbox, box.container)
        text = "failed to create containerd container: failed to get NRI adjustment for container"
        raise _refused("CreateContainer", text, outcome)

    async def start_container(self, sandbox: Sandbox, container_id: str) -> ContainerBox:
        """Make the container's mounts, and start it.

        Raises:
            RpcError: A plugin refused.
            HostError: A file that is to be mounted is not there.
        """
        box = self._of(sandbox).boxes[container_id]
        await run_in_thread("mounts", box.make_mounts)
        async with self._operation:
            outcome = await self._relay(Event.START_CONTAINER, sandbox, box.container)
            if outcome.error:
                raise _refused("StartContainer", "NRI container start failed", outcome)
            box.set_state(ContainerState.RUNNING)
            await self._relay(Event.POST_START_CONTAINER, sandbox, box.container)
        return box

    async def stop_sandbox(self, sandbox: Sandbox) -> None:
        """Stop a pod: its containers, then, with the plugins told, its network.

        Raises:
            HostError: The kernel refused.
        """
        held = self._of(sandbox)
        if held.stopped:
            return
        held.stopped = True
        async with self._operation:
            for box in held.boxes.values():
                if box.container.state is not ContainerState.STOPPED:
                    box.set_state(ContainerState.STOPPED)
                    await self._relay(Event.STOP_CONTAINER, sandbox, box.container)
            if held.told:
                await self._relay(Event.STOP_POD_SANDBOX, sandbox)
        await end_sandbox(sandbox)

    async def remove_sandbox(self, sandbox: Sandbox) -> None:
        """Forget a pod, which is stopped first if it was not.

        Raises:
            HostError: The kernel refused.
        """
        await self.stop_sandbox(sandbox)
        held = self._of(sandbox)
        async with self._operation:
            gone = attrs.evolve(sandbox, netns_path=None)
            for box in held.boxes.values():
                await self._relay(Event.REMOVE_CONTAINER, gone, box.container)
                await run_in_thread("mounts", box.remove)
            if held.told:
                await self._relay(Event.REMOVE_POD_SANDBOX, gone)
            del self._held[sandbox.id]

    def forget_all(self) -> None:
        """Note that the machine was rebooted: sandboxes are known, dead, without containers."""
        for held in self._held.values():
            held.sandbox = attrs.evolve(held.sandbox, netns_path=None)
            held.boxes.clear()
            held.stopped = True

    async def _accept(self, listener: trio.SocketListener, nursery: trio.Nursery) -> None:
        """Let plugins in, one after the other, as NRI does."""
        async with listener:
            while True:
                stream = await listener.accept()
                self.connections += 1
                role = RuntimeRole(self._name, self._manner)
                peer = RuntimePeer(stream, role, request_timeout_s=self._name.request_timeout_s)
                nursery.start_soon(self._serve, peer)
                async with self._operation:
                    containers = [
                        box.container
                        for held in self._held.values()
                        for box in held.boxes.values()
                        if box.container.state is not ContainerState.STOPPED
                    ]
                    if await peer.admit(self.sandboxes(), containers):
                        self._peers.append(peer)
                        self._news.unpark_all()

    async def _serve(self, peer: RuntimePeer) -> None:
        try:
            await peer.run()
        finally:
            if peer in self._peers:
                self._peers.remove(peer)
            self._news.unpark_all()

    async def _relay(
        self, kind: Event, sandbox: Sandbox, container: Container | None = None
    ) -> Outcome:
        """Tell all plugins; the first refusal ends it."""
        adjustment = Adjustment()
        for peer in tuple(self._peers):
            outcome = await peer.relay(kind, sandbox, container)
            if outcome.error:
                return outcome
            env = {**adjustment.env, **outcome.adjustment.env}
            adjustment = attrs.evolve(adjustment, env=env)
        return Outcome(adjustment=adjustment)

    def _of(self, sandbox: Sandbox) -> _Held:
        held = self._held.get(sandbox.id)
        if held is None:
            raise HostError(f"sandbox {sandbox.id}", "is not known to the runtime")
        return held


def _refused(call: str, text: str, outcome: Outcome) -> RpcError:
    code = Status(outcome.code).name.title().replace("_", "")
    found = f"{text}: rpc error: code = {code} desc = {outcome.error}"
    return RpcError(call, found, code=Status.UNKNOWN)
