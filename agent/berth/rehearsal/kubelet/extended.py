"""Device plugins of one life of kubelet: who registered which resource, and what they list.

Several plugins may have one resource. All their lists are taken, the last one counts, and calls go
to who registered last. A plugin is known by the path of its socket; the resource is ill when its
last one has gone. A second registration of a path that is connected is refused, and undoes the
notice of that connection's end: the path stays "connected" as long as kubelet lives.

Source: ``pkg/kubelet/cm/devicemanager`` of kubernetes 1.37.2: ``manager.go`` and
``plugin/v1beta1/{server,handler,client}.go``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import trio

from berth.errors import RemoteProtocolError
from berth.pb import deviceplugin_v1beta1_pb2 as pb
from berth.rehearsal.kubelet.books import ResourceState
from berth.rehearsal.kubelet.devicecalls import SERVICE, PluginCaller, judge
from berth.rehearsal.kubelet.notes import Act, Note, Report
from berth.runtime.asyncthread import AsyncioThread
from berth.runtime.grpcbridge import GrpcChannel, open_channel
from berth.runtime.latest import Latest
from berth.runtime.methods import Call, Method, RpcError, Service, Status

DIAL_S: Final = 10.0
"""What a plugin has for answering when it registers, in seconds."""


class ExtendedPlugins:
    """The plugins of one life.

    Args:
        thread: The loop on which grpcio runs.
        folder: Where their sockets are.
        report: Told of what is done.
    """

    def __init__(self, thread: AsyncioThread, folder: Path, *, report: Report) -> None:
        self.resources: Latest[Mapping[str, ResourceState]] = Latest({})
        """Every resource that was listed."""
        self._thread = thread
        self._folder = folder
        self._report = report
        self._first: dict[str, PluginCaller] = {}
        self._connected: dict[str, dict[str, PluginCaller]] = {}

    def caller(self, resource: str) -> PluginCaller:
        """The plugin to call for a resource.

        Raises:
            RemoteProtocolError: There is none, or it is gone.
        """
        caller = self._first.get(resource)
        state = self.resources.get().get(resource)
        if caller is None or state is None or state.ended_at is not None:
            raise RemoteProtocolError(
                "UnexpectedAdmissionError", f"endpoint of {resource} has been stopped"
            )
        return caller

    def drop(self, resource: str) -> None:
        """Let go of the plugin of a resource, as after a list that cannot be read."""
        self.caller(resource).listening.cancel()

    def service(self, nursery: trio.Nursery) -> Service:
        """The method table for registrations; plugins are followed in the nursery."""

        async def register(request: pb.RegisterRequest, _call: Call) -> pb.Empty:
            fault = judge(request) or await nursery.start(self._hold, request)
            act = Act.REFUSED if fault else Act.REGISTERED
            detail = fault or request.endpoint
            self._report(Note(act=act, subject=request.resource_name, detail=detail))
            if fault:
                raise RpcError("", fault, code=Status.UNKNOWN)
            return pb.Empty()

        method = Method(
            name="Register", request=pb.RegisterRequest, reply=pb.Empty, handler=register
        )
        return Service(name="v1beta1.Registration", methods=(method,))

    async def _hold(
        self, request: pb.RegisterRequest, *, task_status: trio.TaskStatus[str]
    ) -> None:
        """Dial a plugin and follow its list; ``started`` is told why not, or nothing."""
        path = self._folder / request.endpoint
        async with open_channel(self._thread, path) as channel:
            options = await _dial(channel)
            caller = PluginCaller(
                request.resource_name, str(path), channel, options or pb.DevicePluginOptions()
            )
            fault = self._connect(caller) if options else f"failed to dial device plugin {path}"
            task_status.started(fault)
            if not fault:
                await self._follow(caller)

    def _connect(self, caller: PluginCaller) -> str:
        connected = self._connected.setdefault(caller.resource, {})
        present = connected.get(caller.endpoint)
        if present is not None:
            present.forgotten = True
            return f"device plugin already connected: {caller.endpoint}"
        connected[caller.endpoint] = self._first[caller.resource] = caller
        return ""

    async def _follow(self, caller: PluginCaller) -> None:
        """Take each list as the whole truth, until there is none any more."""
        try:
            with caller.listening:
                async with caller.channel.stream(
                    f"{SERVICE}/ListAndWatch", pb.Empty(), pb.ListAndWatchResponse
                ) as lists:
                    async for answer in lists:
                        self._take(caller.resource, answer)
        except RpcError as error:
            self._report(Note(act=Act.LOST, subject=caller.resource, detail=error.found))
        finally:
            if not caller.forgotten:
                self._disconnect(caller)

    def _take(self, resource: str, answer: pb.ListAndWatchResponse) -> None:
        devices = {item.ID: item.health == "Healthy" for item in answer.devices}
        self.resources.set({**self.resources.get(), resource: ResourceState(devices=devices)})
        detail = f"{sum(devices.values())}/{len(devices)}"
        self._report(Note(act=Act.LISTED, subject=resource, detail=detail))

    def _disconnect(self, caller: PluginCaller) -> None:
        connected = self._connected[caller.resource]
        del connected[caller.endpoint]
        if connected:
            self._first[caller.resource] = next(iter(connected.values()))
            return
        now = self.resources.get()
        devices = now[caller.resource].devices if caller.resource in now else {}
        ended = ResourceState(devices=devices, ended_at=trio.current_time())
        self.resources.set({**now, caller.resource: ended})


async def _dial(channel: GrpcChannel) -> pb.DevicePluginOptions | None:
    try:
        with trio.fail_after(DIAL_S):
            await channel.wait_connected()
            return await channel.unary(
                f"{SERVICE}/GetDevicePluginOptions", pb.Empty(), pb.DevicePluginOptions
            )
    except (RpcError, trio.TooSlowError):
        return None
