"""One resource at kubelet: its list, its calls, and its registration.

The private server lives as long as the endpoint. Public sockets come and go with registrations
(`registration`), since kubelet wants a new one for each.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Final

import trio

from berth.deviceplugin.listing import compare_ids
from berth.deviceplugin.registration import Registration, RegistrationState
from berth.deviceplugin.service import Counter, DevicePluginService, ServiceStatistics
from berth.model.meter import Tally
from berth.model.resource import Resource
from berth.runtime.asyncthread import AsyncioThread
from berth.runtime.grpcbridge import GrpcServer
from berth.runtime.inotify import Inotify
from berth.runtime.latest import Latest
from berth.runtime.listeners import private_path

LEAVE_S: Final = 0.25
"""What the last answer has for leaving before the list ends, in seconds."""


class Endpoint:
    """One resource at kubelet; runs once.

    Args:
        thread: The loop on which grpcio runs.
        inotify: Tells of sockets that come and go.
        folder: Kubelet's folder of device plugins; kubelet makes it.
        driver: Ours, so that two daemons with other drivers do not meet.
        resource: What to offer at first; `feed` takes what comes later.
        counter: Who gives its units out.
        private: Folder for grpcio's own sockets, which nobody else writes.
        told: Told the devices of which a list said something else than the one before.

    Raises:
        HostError: The path of a private socket would be too long.
    """

    def __init__(
        self,
        *,
        thread: AsyncioThread,
        inotify: Inotify,
        folder: Path,
        driver: str,
        resource: Resource,
        counter: Counter,
        private: Path,
        told: Callable[[Iterable[str]], object] = tuple,
    ) -> None:
        self.name = resource.name
        self.feed: Latest[Resource] = Latest(resource)
        """The resource, as kubelet is to see it."""
        self._service = DevicePluginService(self.feed, counter, told=told)
        backend = private_path(private, "deviceplugin")
        self._server = GrpcServer(thread, path=backend, services=(self._service.service(),))
        self._registration = Registration(
            thread,
            inotify,
            folder=folder,
            driver=driver,
            resource=resource.name,
            watchers=self._service.watchers,
            backend=backend,
        )
        self._suspected = ""

    @property
    def state(self) -> Latest[RegistrationState]:
        """How it fares at kubelet."""
        return self._registration.state

    @property
    def tries(self) -> Tally:
        """Tries to register, by result."""
        return self._registration.tries

    @property
    def socket(self) -> Path | None:
        """Where kubelet calls now."""
        return self._registration.socket

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
            # After a drain the server has returned; the run ends when it is told to.
            await self._registration.run()

    async def drain(self) -> None:
        """Wait until nothing is being given out, then end the list.

        In this order, since kubelet closes the connection with the list, and calls on it fail;
        grpcio does not say when an answer has left, and may send the end of the list before it.
        It takes the resource's units for ill from then on, until somebody registers it.
        """
        self._registration.stop_accepting()
        await self._service.allocations.wait_value(lambda count: not count)
        await trio.sleep(LEAVE_S)
        await self._server.drain()
        await self._registration.wait_answered()

    async def probe(self) -> None:
        """Return once a new client of the private socket is greeted.

        Raises:
            HostError: It is not.
        """
        await self._server.probe()

    def compare(self, listed: Collection[str]) -> str:
        """Compare what kubelet takes for healthy with our list, and register again if need be.

        A list that was just sent may not be in kubelet's books yet, so one difference alone does
        not count.

        Returns:
            The difference; empty when there is none.
        """
        found = compare_ids(listed, self.feed.get()) if self.state.get().registered else ""
        if found and self._suspected:
            self._registration.doubt(found)
            self._suspected = ""
        else:
            self._suspected = found
        return found
