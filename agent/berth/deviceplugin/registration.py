"""One resource's place at kubelet: a socket in its folder, registered, whatever kubelet does.

Theory. Nobody tells a plugin that kubelet restarted, that its socket was removed or that another
plugin took its resource. It is seen from outside: `watch_inode` tells of kubelet's socket, the
front door of our own, the end of the list's stream of most else, and who compares kubelet's books
with ours (`doubt`) of the rest. Each of them leads to a new registration.

Each try to register has a socket of its own name. Kubelet knows plugins of a resource by the paths
of their sockets: a second registration of a path that it still takes for connected is refused, and
from then on it never lets go of that path (1.37.2). The socket before is closed first, for a moment
in which kubelet notices: the end of an older list ends the newer registration (1.34.4).

A registration does not end that of another plugin: both lists stay open, the newer list counts, and
calls go to who registered last.

Source: KC §1.6, §1.7; ``pkg/kubelet/cm/devicemanager/{manager.go,plugin/v1beta1/handler.go}`` of
kubernetes 1.34.4 and 1.37.2; cases.md 1.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import attrs
import trio

from berth.deviceplugin.messages import REGISTER, register_request
from berth.deviceplugin.places import KUBELET, Places, places_for
from berth.errors import BerthError
from berth.model.meter import Tally
from berth.pb import deviceplugin_v1beta1_pb2 as pb
from berth.runtime.asyncthread import AsyncioThread
from berth.runtime.backoff import BackOff
from berth.runtime.frontdoor import FrontDoor
from berth.runtime.grpcbridge import open_channel
from berth.runtime.inotify import Inotify
from berth.runtime.latest import Latest
from berth.runtime.logs import get_log
from berth.runtime.sockets import SocketId, watch_inode

REGISTER_S: Final = 15.0
"""Longest that a registration may take, in seconds: kubelet dials us for up to 10 meanwhile."""

STREAM_S: Final = 10.0
"""After a registration kubelet must have asked for the list, in seconds."""

GRACE_S: Final = 1.0
"""What kubelet has for coming back after it dropped the list, in seconds."""

SETTLE_S: Final = 0.25
"""What kubelet has for noticing the end of a socket before the next is registered, in seconds."""

ANSWER_S: Final = 0.5
"""What a drain waits for answers to get out, in seconds, at most."""

TRY_AGAIN: Final = BackOff(first_s=0.25, most_s=30.0)
"""Pauses between tries to register; a new socket of kubelet's begins them anew."""

_log = get_log(__name__)


@attrs.frozen(kw_only=True)
class RegistrationState:
    """How one resource fares at kubelet.

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


class Registration:
    """Keeps one resource registered; runs once.

    Args:
        thread: The loop on which grpcio runs.
        inotify: Tells of sockets that come and go.
        folder: Kubelet's folder of device plugins; kubelet makes it.
        driver: Ours, so that two daemons with other drivers do not meet.
        resource: Name of the resource.
        watchers: Counts the streams on which its list is sent.
        backend: The private socket at which kubelet's calls are answered.
    """

    def __init__(
        self,
        thread: AsyncioThread,
        inotify: Inotify,
        *,
        folder: Path,
        driver: str,
        resource: str,
        watchers: Latest[int],
        backend: Path,
    ) -> None:
        self.state: Latest[RegistrationState] = Latest(RegistrationState())
        """How it fares."""
        self.tries = Tally("result").begin("ok", "error")
        """Tries to register: ``ok`` or ``error``."""
        self._thread = thread
        self._inotify = inotify
        self._folder = folder
        self._driver = driver
        self._resource = resource
        self._watchers = watchers
        self._backend = backend
        self._kubelet: Latest[tuple[SocketId | None, int]] = Latest((None, 0))
        self._doubt: Latest[str] = Latest("")
        self._door: FrontDoor | None = None
        self._ending = False
        self._complained = ""

    @property
    def socket(self) -> Path | None:
        """Where kubelet calls now."""
        return None if self._door is None else self._door.path

    async def run(self) -> None:
        """Keep the resource registered until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch_kubelet)
            nursery.start_soon(self._follow_kubelet)

    def doubt(self, reason: str) -> None:
        """Say that kubelet's books do not have the resource as we do: it is registered again."""
        self._doubt.set(reason)

    def stop_accepting(self) -> None:
        """Let no connection in any more, and register no more."""
        self._ending = True
        if self._door is not None:
            self._door.stop_accepting()

    async def wait_answered(self) -> None:
        """Wait until the last answers have left, for `ANSWER_S` at most."""
        if self._door is not None:
            with trio.move_on_after(ANSWER_S):
                await self._door.connections.wait_value(lambda count: not count)

    async def _watch_kubelet(self) -> None:
        """Follow kubelet's socket. One made anew within a millisecond may look the same."""
        looks = 0
        with watch_inode(self._inotify, self._folder / KUBELET) as changes:
            async for found in changes:
                looks += 1
                self._kubelet.set((found, looks))

    async def _follow_kubelet(self) -> None:
        """Register with each kubelet anew."""
        while True:
            version = self._kubelet.version
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._stay_registered)
                await self._kubelet.wait_changed(version)
                nursery.cancel_scope.cancel()

    async def _stay_registered(self) -> None:
        """Register until it works, and again whenever kubelet lets go of it."""
        if self._kubelet.get()[0] is None:
            self._tell(reason=f"kubelet's socket in {self._folder} is missing")
            return
        self._tell(reason="registering with kubelet")
        back_off = TRY_AGAIN
        while not self._ending:
            if self.state.get().times:
                await trio.sleep(SETTLE_S)
            began = trio.current_time()
            places = places_for(self._folder, driver=self._driver, resource=self._resource)
            reason, rivals = await self._register_at(places)
            back_off, retry_s = back_off.next_delay(ran_s=trio.current_time() - began)
            self._complain(reason, retry_s)
            self._tell(reason=reason, rivals=rivals)
            await trio.sleep(retry_s)

    def _complain(self, reason: str, retry_s: float) -> None:
        """Log why the resource is not registered, once for one reason in a row."""
        if reason != self._complained:
            _log.warning(
                "extended resource is not registered",
                resource=self._resource,
                reason=reason,
                retry_s=retry_s,
            )
        self._complained = reason

    async def _register_at(self, places: Places) -> tuple[str, tuple[str, ...]]:
        """Register a socket and stay so; gives why it ended, and who may have the resource now."""
        door = FrontDoor(path=places.own)
        try:
            if not places.kubelet_listens():
                return "kubelet is away, nobody listens on its socket", ()
            places.remove_dead()
            door.open()
            self._door = door
            return await self._serve(door, places)
        except BerthError as error:
            return str(error), ()
        finally:
            self._door = None
            door.close()

    async def _serve(self, door: FrontDoor, places: Places) -> tuple[str, tuple[str, ...]]:
        """Let kubelet call, and register; whatever goes wrong is given, not raised."""
        outcome: tuple[str, tuple[str, ...]] = ("", ())
        async with trio.open_nursery() as nursery:
            await nursery.start(door.serve, self._backend)
            nursery.start_soon(door.keep, self._inotify)
            try:
                outcome = await self._hold(places)
            except trio.TooSlowError:
                outcome = (f"kubelet did not answer within {REGISTER_S:.0f} s", ())
            except BerthError as error:
                outcome = (str(error), ())
            nursery.cancel_scope.cancel()
        return outcome

    async def _hold(self, places: Places) -> tuple[str, tuple[str, ...]]:
        """Register, and wait until kubelet has the resource no more.

        Raises:
            TooSlowError: Kubelet does not answer.
            BerthError: It refused, or could not be reached.
        """
        self._doubt.set("")
        with trio.fail_after(REGISTER_S):
            await self._ask(places)
        self._tell(registered=True, times=self.state.get().times + 1)
        self._complained = ""
        _log.info("extended resource registered", resource=self._resource, socket=places.own.name)
        reason = await self._wait_lost(places)
        rivals = places.rivals()
        others = f"; newer sockets: {', '.join(rivals)}" if rivals else ""
        return f"{reason}{others}", rivals

    async def _ask(self, places: Places) -> None:
        """Tell kubelet of the resource; it calls us before it answers."""
        request = register_request(endpoint=places.own.name, resource=self._resource)
        result = "error"
        try:
            async with open_channel(self._thread, places.kubelet) as channel:
                await channel.unary(REGISTER, request, pb.Empty)
            result = "ok"
        finally:
            self.tries.add(result)

    async def _wait_lost(self, places: Places) -> str:
        """Wait until the list is dropped although kubelet is there, or until it is doubted."""
        async with trio.open_nursery() as nursery:

            async def doubted() -> None:
                await self._doubt.wait_value(bool)
                nursery.cancel_scope.cancel()

            nursery.start_soon(doubted)
            await self._wait_dropped(places)
            nursery.cancel_scope.cancel()
        if self._ending:
            # The list was ended here; answers may still be on their way through the door.
            await trio.sleep_forever()
        return self._doubt.get() or "kubelet runs but has dropped the list"

    async def _wait_dropped(self, places: Places) -> None:
        with trio.move_on_after(STREAM_S):
            await self._watchers.wait_value(bool)
        while True:
            await self._watchers.wait_value(lambda count: not count)
            self._tell(reason="kubelet is away")
            # A kubelet that restarts makes a new socket, which ends this wait from outside.
            with trio.move_on_after(GRACE_S):
                await self._watchers.wait_value(bool)
            if not self._watchers.get() and places.kubelet_listens():
                return
            await self._watchers.wait_value(bool)
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
            RegistrationState(
                registered=registered,
                reason=reason,
                times=before if times is None else times,
                rivals=rivals,
            )
        )
