"""The device plugin door as a plugin for the supervisor: an endpoint for each resource there is.

Endpoints come and go with the names of resources; a resource that has lost its units keeps its own,
with an empty list, as a node whose last GPU is away for a while still has the resource.

Kubelet's books are compared with ours now and then. It tells nobody when another plugin registers a
resource, nor when it has given one up; PodResources is where both can be seen.

Source: GH §5.1; cases.md 1; `berth.deviceplugin.registration`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs
import trio

from berth.deviceplugin.endpoint import Endpoint
from berth.deviceplugin.places import FOLDER
from berth.deviceplugin.podresources import PodResources
from berth.deviceplugin.registration import RegistrationState
from berth.deviceplugin.service import Counter, ServiceStatistics
from berth.errors import HostError
from berth.model.resource import Resource
from berth.runtime.asyncthread import AsyncioThread
from berth.runtime.inotify import Inotify
from berth.runtime.latest import Latest
from berth.runtime.logs import get_log
from berth.runtime.supervisor import Plugin

COMPARE_S: Final = 30.0
"""Between two comparisons of kubelet's books with ours, in seconds."""

COMPARE_AGAIN_S: Final = 3.0
"""The same after one that found a difference: two in a row count."""

_log = get_log(__name__)


@attrs.frozen(kw_only=True)
class ResourceStatistics:
    """How one resource fares at the door.

    Attributes:
        units: Ids that are listed.
        healthy: How many of them a new pod may get.
        tries: How often it was tried to register it, by result.
    """

    name: str
    units: int
    healthy: int
    state: RegistrationState
    service: ServiceStatistics
    tries: Mapping[tuple[str, ...], float] = attrs.field(factory=dict)

    def __str__(self) -> str:
        return f"{self.name} {self.state}, {self.healthy} of {self.units} healthy"


@attrs.frozen(kw_only=True)
class PluginDoorStatistics:
    """How the device plugin door fares.

    Attributes:
        resources: One each, by name.
    """

    resources: tuple[ResourceStatistics, ...]

    def __str__(self) -> str:
        return "; ".join(map(str, self.resources)) or "no resources"


@attrs.frozen(kw_only=True)
class Due:
    """What is to be done so that the endpoints are those of the resources.

    Attributes:
        begin: Resources without an endpoint.
        change: Resources whose endpoint is to be told of them.
        end: Names whose resource is no more.
    """

    begin: tuple[Resource, ...]
    change: tuple[Resource, ...]
    end: tuple[str, ...]


def due(served: Iterable[str], resources: Sequence[Resource]) -> Due:
    """Say what is to be done; of two resources with one name the first counts."""
    names = set(served)
    wanted: dict[str, Resource] = {}
    for resource in resources:
        wanted.setdefault(resource.name, resource)
    return Due(
        begin=tuple(wanted[name] for name in wanted if name not in names),
        change=tuple(wanted[name] for name in wanted if name in names),
        end=tuple(sorted(names - wanted.keys())),
    )


class PluginDoor:
    """The device plugin door; made once, its runs may be many.

    Args:
        thread: The loop on which grpcio runs.
        inotify: Tells of sockets that come and go.
        driver: Name of our driver.
        counter: Who has the resources and gives them out.
        private: Folder for grpcio's own sockets, which nobody else writes.
        folder: Kubelet's folder of device plugins; it is kubelet's to make.
        pods: Whom to ask what kubelet's books say; ``None`` where nobody is asked.
        told: Told the devices of which a list said something else than the one before.
    """

    def __init__(
        self,
        *,
        thread: AsyncioThread,
        inotify: Inotify,
        driver: str,
        counter: Counter,
        private: Path,
        folder: Path = FOLDER,
        pods: PodResources | None = None,
        told: Callable[[Iterable[str]], object] = tuple,
    ) -> None:
        self.endpoints: Latest[Mapping[str, Endpoint]] = Latest({})
        """The endpoint of each resource that is offered now."""
        self._thread = thread
        self._inotify = inotify
        self._driver = driver
        self._counter = counter
        self._private = private
        self._folder = folder
        self._pods = pods
        self._told = told
        self._scopes: dict[str, trio.CancelScope] = {}

    def plugins(self) -> tuple[Plugin, ...]:
        """What the supervisor is to run."""
        return (Plugin(name="device-plugin", run=self.run, drain=self.drain),)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Offer the resources until cancelled; ``started()`` at once, kubelet may come later.

        Raises:
            HostError: A private socket cannot be bound; in an exception group.
        """
        try:
            async with trio.open_nursery() as nursery:
                task_status.started()
                if self._pods is not None:
                    nursery.start_soon(self._compare_books, self._pods)
                async for resources in self._counter.resources.changes():
                    self._follow(resources, nursery)
        finally:
            self.endpoints.set({})
            self._scopes.clear()

    async def drain(self) -> None:
        """End all lists, and wait until no call is under way."""
        async with trio.open_nursery() as nursery:
            for endpoint in self.endpoints.get().values():
                nursery.start_soon(endpoint.drain)

    async def probe(self) -> None:
        """Return once each resource's server greets a new client.

        Raises:
            HostError: One does not.
        """
        for endpoint in tuple(self.endpoints.get().values()):
            await endpoint.probe()

    async def wait_registered(self, resource: str) -> None:
        """Wait until kubelet has taken a resource."""
        endpoints = await self.endpoints.wait_value(lambda now: resource in now)
        await endpoints[resource].state.wait_value(lambda state: state.registered)

    def statistics(self) -> PluginDoorStatistics:
        """Give the state of now."""
        return PluginDoorStatistics(
            resources=tuple(_figures(item) for _, item in sorted(self.endpoints.get().items()))
        )

    def _follow(self, resources: Sequence[Resource], nursery: trio.Nursery) -> None:
        """Make the endpoints those of the resources."""
        endpoints = dict(self.endpoints.get())
        steps = due(endpoints, resources)
        for name in steps.end:
            _log.info("extended resource is offered no more", resource=name)
            del endpoints[name]
            self._scopes.pop(name).cancel()
        for resource in steps.change:
            endpoints[resource.name].feed.set(resource)
        for resource in steps.begin:
            endpoint = endpoints[resource.name] = self._endpoint(resource)
            scope = self._scopes[resource.name] = trio.CancelScope()
            nursery.start_soon(_run, endpoint, scope, name=f"endpoint {resource.name}")
        self.endpoints.set(endpoints)

    async def _compare_books(self, pods: PodResources) -> None:
        """Compare what kubelet takes for healthy with what it was told, again and again."""
        pause_s = COMPARE_S
        while True:
            await trio.sleep(pause_s)
            pause_s = COMPARE_S
            endpoints = self.endpoints.get().values()
            if any(endpoint.state.get().registered for endpoint in endpoints):
                pause_s = COMPARE_AGAIN_S if await self._compare_once(pods) else COMPARE_S

    async def _compare_once(self, pods: PodResources) -> bool:
        """Compare; gives whether there was a difference."""
        try:
            listed = await pods.list_allocatable()
        except HostError as error:
            _log.debug("kubelet's books cannot be compared with ours", reason=error)
            return False
        differences = [
            endpoint.compare(listed.get(name, ()))
            for name, endpoint in self.endpoints.get().items()
        ]
        return any(differences)

    def _endpoint(self, resource: Resource) -> Endpoint:
        return Endpoint(
            thread=self._thread,
            inotify=self._inotify,
            folder=self._folder,
            driver=self._driver,
            resource=resource,
            counter=self._counter,
            private=self._private,
            told=self._told,
        )


async def _run(endpoint: Endpoint, scope: trio.CancelScope) -> None:
    with scope:
        await endpoint.run()


def _figures(endpoint: Endpoint) -> ResourceStatistics:
    units = endpoint.feed.get().units
    return ResourceStatistics(
        name=endpoint.name,
        units=len(units),
        healthy=sum(unit.healthy for unit in units),
        state=endpoint.state.get(),
        service=endpoint.statistics(),
        tries=endpoint.tries.series(),
    )
