"""The registry folder: sockets that appear are registered, those that go are unregistered.

A socket that is made anew is another one, so it is unregistered in one turn and registered in the
next. Tries that failed are repeated with pauses that belong to the path of the socket.

Source: KC §1.4, §1.5.
"""

from __future__ import annotations

import contextlib
import stat
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

import attrs
import trio

from berth.errors import BerthError, RemoteProtocolError
from berth.pb import pluginregistration_pb2 as pb
from berth.rehearsal.kubelet.calls import TOKENS
from berth.rehearsal.kubelet.notes import Act, Note, Report
from berth.runtime.asyncthread import AsyncioThread
from berth.runtime.backoff import BackOff
from berth.runtime.grpcbridge import GrpcChannel, open_channel
from berth.runtime.together import together

TICK_S: Final = 1.0
"""Period of the reconciler, in seconds."""

DIAL_S: Final = 10.0
INFO_S: Final = 1.0
NOTIFY_S: Final = 5.0

BACK_OFF: Final = BackOff(first_s=0.5, most_s=122.0, spread=0.0)
"""Pauses between tries to register one path."""


@attrs.frozen(kw_only=True)
class SocketFile:
    """Which socket file lies at a path; one made anew is another, whatever its inode."""

    device: int
    inode: int
    made_ns: int


@attrs.define(eq=False)
class Instance:
    """One registered plugin.

    Attributes:
        token: The version of the service that is spoken with it.
        channel: The connection that is kept.
        connected: Whether it stands.
        tokens: All that it offers.
    """

    driver: str
    endpoint: str
    token: str
    channel: GrpcChannel
    connected: bool = False
    tokens: tuple[str, ...] = ()


@attrs.define(eq=False)
class _Held:
    """A socket that is being registered, or is."""

    file: SocketFile
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    ended: trio.Event = attrs.field(factory=trio.Event)


class PluginRegistry:
    """The plugins of one life of kubelet.

    Args:
        thread: The loop on which grpcio runs.
        folder: The registry; made when it is missing.
        report: Told of what is done.
        tell_changed: Called when the instances of a driver, or their connections, change.
        attend: What is done besides with each one that is registered, until it is not any more.
    """

    def __init__(
        self,
        thread: AsyncioThread,
        folder: Path,
        *,
        report: Report,
        tell_changed: Callable[[str], None],
        attend: Callable[[Instance], Awaitable[None]],
    ) -> None:
        self.instances: list[Instance] = []
        """In the order of their registration."""
        self._thread = thread
        self._folder = folder
        self._report = report
        self._tell_changed = tell_changed
        self._attend = attend
        self._held: dict[Path, _Held] = {}
        self._pauses: dict[Path, tuple[BackOff, float]] = {}

    async def run(self) -> None:
        """Reconcile until cancelled."""
        self._folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        async with trio.open_nursery() as nursery:
            while True:
                await self._reconcile(nursery)
                await trio.sleep(TICK_S)

    def of_driver(self, driver: str) -> tuple[Instance, ...]:
        """The instances of a driver, the one to call last: the newest connected one."""
        ours = [item for item in self.instances if item.driver == driver]
        return tuple(sorted(ours, key=lambda item: item.connected))

    async def _reconcile(self, nursery: trio.Nursery) -> None:
        """One turn: first unregister what is gone or was made anew, then register what is there."""
        found = find_sockets(self._folder)
        gone = [path for path, held in self._held.items() if found.get(path) != held.file]
        for path in gone:
            held = self._held.pop(path)
            held.scope.cancel()
            await held.ended.wait()
        now = trio.current_time()
        for path, file in found.items():
            _, not_before = self._pauses.get(path, (BACK_OFF, now))
            if path not in self._held and path not in gone and now >= not_before:
                held = self._held[path] = _Held(file)
                nursery.start_soon(self._hold, path, held)

    async def _hold(self, path: Path, held: _Held) -> None:
        """Register one socket, and keep the connection until it is unregistered."""
        try:
            with held.scope:
                await self._register(path)
        except (BerthError, trio.TooSlowError) as error:
            back_off, _ = self._pauses.get(path, (BACK_OFF, 0.0))
            back_off, delay_s = back_off.next_delay()
            self._pauses[path] = back_off, trio.current_time() + delay_s
            reason = str(error) or "no answer in time"
            self._report(Note(act=Act.REFUSED, subject=str(path), detail=reason))
            if self._held.get(path) is held:
                del self._held[path]
        finally:
            held.ended.set()

    async def _register(self, path: Path) -> None:
        async with contextlib.AsyncExitStack() as stack:
            async with open_channel(self._thread, path) as channel:
                info = await _ask(channel)
                endpoint = info.endpoint or str(path)
                fault = judge(info, endpoint, self.instances)
                if fault:
                    await _notify(channel, fault)
                    raise RemoteProtocolError(str(path), fault)
                kept = await stack.enter_async_context(open_channel(self._thread, Path(endpoint)))
                token = next(token for token in info.supported_versions if token in TOKENS)
                offered = tuple(info.supported_versions)
                instance = Instance(info.name, endpoint, token, kept, tokens=offered)
                self._add(instance)
                stack.callback(self._remove, instance)
                await _notify(channel, "")
            self._pauses.pop(path, None)
            self._report(Note(act=Act.REGISTERED, subject=info.name, detail=token))
            await together(lambda: self._keep(instance), lambda: self._attend(instance))

    def _add(self, instance: Instance) -> None:
        self.instances.append(instance)
        self._tell_changed(instance.driver)

    def _remove(self, instance: Instance) -> None:
        self.instances.remove(instance)
        self._tell_changed(instance.driver)
        self._report(Note(act=Act.UNREGISTERED, subject=instance.driver))

    async def _keep(self, instance: Instance) -> None:
        """Keep the connection of an instance, and tell whether it stands."""
        while True:
            await instance.channel.wait_connected()
            self._connect(instance, connected=True)
            try:
                await instance.channel.wait_lost()
            finally:
                self._connect(instance, connected=False)

    def _connect(self, instance: Instance, *, connected: bool) -> None:
        instance.connected = connected
        self._tell_changed(instance.driver)
        act = Act.CONNECTED if connected else Act.LOST
        self._report(Note(act=act, subject=instance.driver))


async def _ask(channel: GrpcChannel) -> pb.PluginInfo:
    with trio.fail_after(DIAL_S):
        await channel.wait_connected()
    with trio.fail_after(INFO_S):
        return await channel.unary(
            "/pluginregistration.Registration/GetInfo", pb.InfoRequest(), pb.PluginInfo
        )


async def _notify(channel: GrpcChannel, fault: str) -> None:
    with trio.fail_after(NOTIFY_S):
        await channel.unary(
            "/pluginregistration.Registration/NotifyRegistrationStatus",
            pb.RegistrationStatus(plugin_registered=not fault, error=fault),
            pb.RegistrationStatusResponse,
        )


def judge(info: pb.PluginInfo, endpoint: str, instances: Iterable[Instance]) -> str:
    """Say why a plugin is not taken; empty when it is."""
    if info.type != "DRAPlugin":
        return f"no handler registered for plugin type: {info.type}"
    if not info.name:
        return "the driver has no name"
    if not any(token in TOKENS for token in info.supported_versions):
        return f"no supported version among {list(info.supported_versions)}"
    if any((item.driver, item.endpoint) == (info.name, endpoint) for item in instances):
        return f"endpoint {endpoint} of {info.name} is already registered"
    return ""


def find_sockets(folder: Path) -> Mapping[Path, SocketFile]:
    """The sockets in a folder and below it; hidden names are left out, as kubelet does."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if any(part.startswith(".") for part in path.relative_to(folder).parts):
            continue
        with contextlib.suppress(FileNotFoundError):
            seen = path.lstat()
            if stat.S_ISSOCK(seen.st_mode):
                found[path] = SocketFile(
                    device=seen.st_dev, inode=seen.st_ino, made_ns=seen.st_mtime_ns
                )
    return found
