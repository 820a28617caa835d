"""One resource's server in kubelet's folder, and its registration, kept whatever kubelet does.

Theory. Nobody tells a plugin that kubelet restarted, that its socket was removed or that another
plugin took its resource. It is seen from outside: `watch_inode` tells of kubelet's socket, the
front door of our own, and the end of the list's stream of everything else. Each of them leads to a
new registration; there is nothing else to do about any of them.

A *session* lasts as long as the folder is there. In it our socket is bound, and `_keep_registered`
begins anew with each `_Situation`, that is, with each new socket of kubelet's or of ours. Kubelet
dials our socket while it answers Register, so the door serves before.

A stream that ends while kubelet is there, on the same socket, may mean that another plugin has
registered the resource: kubelet keeps the last one. That is told, with the sockets that came after
ours, and the resource is registered again, more slowly each time.

Source: KC §1.6, §1.7, §2.2; cases.md 1.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import attrs
import trio

from berth.deviceplugin.messages import REGISTER, register_request
from berth.deviceplugin.places import places_for
from berth.deviceplugin.service import Counter, DevicePluginService, ServiceStatistics
from berth.errors import BerthError, HostError
from berth.model.resource import Resource
from berth.pb import deviceplugin_v1beta1_pb2 as pb
from berth.runtime.asyncthread import AsyncioThread
from berth.runtime.backoff import BackOff
from berth.runtime.frontdoor import FrontDoor
from berth.runtime.grpcbridge import GrpcServer, open_channel
from berth.runtime.latest import Latest
from berth.runtime.listeners import private_path
from berth.runtime.logs import get_log
from berth.runtime.sockets import SocketId, wait_socket, watch_inode

REGISTER_S: Final = 15.0
"""Longest that a registration may take, in seconds: kubelet dials us for up to 10 meanwhile."""

STREAM_S: Final = 10.0
"""After a registration kubelet must have asked for the list, in seconds."""

GRACE_S: Final = 1.0
"""What kubelet has for coming back after it dropped the list, in seconds."""

ANSWER_S: Final = 0.5
"""What a drain waits for answers to get out, in seconds, at most."""

TRY_AGAIN: Final = BackOff(first_s=0.25, most_s=30.0)
"""Pauses between tries to register; a new socket of kubelet's begins them anew."""

BIND_AGAIN: Final = BackOff(first_s=1.0, most_s=30.0)
"""Pauses between tries to bind our socket."""

_RIVAL: Final = "another plugin may have registered"

_log = get_log(__name__)


@attrs.frozen(kw_only=True)
class EndpointState:
    """How one resource fares.

    Attributes:
        registered: Whether kubelet took it, and still listens to its list.
        reason: Why not; empty when it did.
        times: How often kubelet took it.
        rivals: Sockets of other plugins that may have taken the resource; empty while none has.
    """

    registered: bool = False
    reason: str = ""
    times: int = 0
    rivals: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "registered" if self.registered else f"not registered, {self.reason}"


@attrs.frozen(kw_only=True)
class _Situation:
    """What a registration is good for.

    Attributes:
        kubelet: Kubelet's socket; ``None`` while it is missing.
        looks: Counts what was told of it: made anew within a millisecond it may look the same.
        bound: Counts the sockets that we made.
    """

    kubelet: SocketId | None = None
    looks: int = 0
    bound: int = 0


class Endpoint:
    """One resource at kubelet; runs once.

    Args:
        thread: The loop on which grpcio runs.
        folder: Kubelet's folder of device plugins; kubelet makes it.
        driver: Ours, so that two daemons with other drivers do not meet.
        resource: What to offer at first; `feed` takes what comes later.
        counter: Who gives its units out.
        private: Folder for grpcio's own sockets, which nobody else writes.
    """

    def __init__(
        self,
        *,
        thread: AsyncioThread,
        folder: Path,
        driver: str,
        resource: Resource,
        counter: Counter,
        private: Path,
    ) -> None:
        self.name = resource.name
        self.feed: Latest[Resource] = Latest(resource)
        """The resource, as kubelet is to see it."""
        self.state: Latest[EndpointState] = Latest(EndpointState())
        """How it fares."""
        self._thread = thread
        self._places = places_for(folder, driver=driver, resource=resource.name)
        self._service = DevicePluginService(self.feed, counter)
        self._server = GrpcServer(
            thread,
            path=private_path(private, self._places.kin.rstrip("-")),
            services=(self._service.service(),),
        )
        self._situation: Latest[_Situation] = Latest(_Situation())
        self._registering: trio.CancelScope | None = None
        self._ending = False
        self._door: FrontDoor | None = None

    @property
    def socket(self) -> Path:
        """Where kubelet calls."""
        return self._places.own

    def statistics(self) -> ServiceStatistics:
        """Give figures for tests and for the operator."""
        return self._service.statistics()

    async def run(self) -> None:
        """Offer the resource until cancelled.

        Raises:
            HostError: The private socket cannot be bound; in an exception group.
        """
        async with trio.open_nursery() as nursery:
            await nursery.start(self._server.run)
            nursery.start_soon(self._keep_sessions)
            # After a drain the server has returned; the run ends when it is told to.
            await trio.sleep_forever()

    async def drain(self) -> None:
        """Take no further call, end the list, and wait for the calls under way.

        Kubelet takes the resource's units for ill from then on, until somebody registers it.
        """
        self._ending = True
        if self._registering is not None:
            self._registering.cancel()
        door = self._door
        if door is not None:
            door.stop_accepting()
        await self._server.drain()
        if door is not None:
            with trio.move_on_after(ANSWER_S):
                await door.connections.wait_value(lambda count: not count)

    async def _keep_sessions(self) -> None:
        back_off = BIND_AGAIN
        while True:
            self._tell(reason=f"kubelet's {self._places.kubelet} is missing")
            await wait_socket(self._places.kubelet)
            began = trio.current_time()
            try:
                await self._session()
            except HostError as error:
                ran_s = trio.current_time() - began
                back_off, retry_s = back_off.next_delay(ran_s=ran_s)
                reason = error
            else:
                continue
            _log.warning(
                "no socket for an extended resource",
                resource=self.name,
                reason=reason,
                retry_s=retry_s,
            )
            self._tell(reason=str(reason))
            await trio.sleep(retry_s)

    async def _session(self) -> None:
        """Be at kubelet's disposal as long as its folder is there.

        Raises:
            HostError: Our socket cannot be bound.
        """
        self._places.remove_dead()
        door = FrontDoor(path=self._places.own)
        door.open()
        self._door = door
        try:
            async with trio.open_nursery() as nursery:
                await nursery.start(door.serve, self._server.path)
                nursery.start_soon(door.keep)
                nursery.start_soon(self._watch_bound, door)
                nursery.start_soon(self._watch_kubelet, nursery.cancel_scope)
                nursery.start_soon(self._keep_registered)
        finally:
            self._door = None
            door.close()

    async def _watch_bound(self, door: FrontDoor) -> None:
        async for bound in door.bound.changes():
            self._situation.set(attrs.evolve(self._situation.get(), bound=bound))

    async def _watch_kubelet(self, session: trio.CancelScope) -> None:
        """Follow kubelet's socket; end the session when the folder goes with it."""
        with watch_inode(self._places.kubelet) as changes:
            async for found in changes:
                if found is None and not self._places.folder.is_dir():
                    session.cancel()
                now = self._situation.get()
                self._situation.set(attrs.evolve(now, kubelet=found, looks=now.looks + 1))

    async def _keep_registered(self) -> None:
        """Register in each situation anew, until a drain."""
        with trio.CancelScope() as self._registering:
            while not self._ending:
                version = self._situation.version
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._hold_registration)
                    await self._situation.wait_changed(version)
                    nursery.cancel_scope.cancel()

    async def _hold_registration(self) -> None:
        """Register until it works, and again whenever kubelet lets go of it."""
        if self._situation.get().kubelet is None:
            self._tell(reason=f"kubelet's {self._places.kubelet} is missing")
            return
        self._tell(reason="registering with kubelet")
        back_off = TRY_AGAIN
        while True:
            began = trio.current_time()
            reason, rivals = await self._register_once()
            ran_s = trio.current_time() - began
            back_off, retry_s = back_off.next_delay(ran_s=ran_s)
            _log.warning(
                "extended resource is not registered",
                resource=self.name,
                reason=reason,
                retry_s=retry_s,
            )
            self._tell(reason=reason, rivals=rivals)
            await trio.sleep(retry_s)

    async def _register_once(self) -> tuple[str, tuple[str, ...]]:
        """Register and stay so; gives why it ended, and who may have taken the resource."""
        try:
            with trio.fail_after(REGISTER_S):
                await self._ask()
            self._tell(registered=True, times=self.state.get().times + 1)
            _log.info("extended resource registered", resource=self.name, socket=self.socket.name)
            await self._wait_dropped()
            rivals = self._places.rivals()
        except trio.TooSlowError:
            return f"kubelet did not answer within {REGISTER_S:.0f} s", ()
        except BerthError as error:
            return str(error), ()
        others = f"; newer sockets: {', '.join(rivals)}" if rivals else ""
        return f"kubelet runs but dropped its list: {_RIVAL} {self.name}{others}", rivals

    async def _ask(self) -> None:
        """Tell kubelet of the resource; it calls us before it answers.

        Raises:
            RpcError: It refused, or could not be reached.
        """
        request = register_request(endpoint=self.socket.name, resource=self.name)
        async with open_channel(self._thread, self._places.kubelet) as channel:
            await channel.unary(REGISTER, request, pb.Empty)

    async def _wait_dropped(self) -> None:
        """Wait until kubelet lets go of the list although it is there."""
        watchers = self._service.watchers
        with trio.move_on_after(STREAM_S):
            await watchers.wait_value(bool)
        while True:
            await watchers.wait_value(lambda count: not count)
            self._tell(reason="kubelet is away")
            # A kubelet that restarts makes a new socket, which ends this wait from outside.
            with trio.move_on_after(GRACE_S):
                await watchers.wait_value(bool)
            if not watchers.get() and self._places.kubelet_listens():
                return
            await watchers.wait_value(bool)
            self._tell(registered=True)

    def _tell(
        self,
        *,
        registered: bool = False,
        reason: str = "",
        rivals: tuple[str, ...] = (),
        times: int | None = None,
    ) -> None:
        before = self.state.get().times
        self.state.set(
            EndpointState(
                registered=registered,
                reason=reason,
                times=before if times is None else times,
                rivals=rivals,
            )
        )
