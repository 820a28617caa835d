"""Kubelet's five calls for one resource, answered from the newest list and by who keeps the books.

Allocate is called within the admission of a pod, which kubelet does for one pod at a time and
without a deadline; so it gets one here. Kubelet never tells that a unit became free, and asks no
second time for a container it has an answer for.

Source: KC §2.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol

import attrs
import trio

from berth.deviceplugin.messages import (
    SERVICE,
    Listing,
    grant_answer,
    list_resource,
    options,
    read_ids,
    read_wish,
    wish_answer,
)
from berth.deviceplugin.preference import prefer
from berth.errors import BerthError
from berth.model.resource import Grant, Resource
from berth.pb import deviceplugin_v1beta1_pb2 as pb
from berth.runtime.latest import Latest
from berth.runtime.logs import get_log
from berth.runtime.methods import Call, Method, RpcError, Send, Service, Status, StreamMethod

ALLOCATE_S: Final = 10.0
"""Longest that an Allocate may take, in seconds: kubelet admits no other pod meanwhile."""

STREAMS_LIMIT: Final = 16
"""Streams on which lists are sent at a time; kubelet keeps one. Each may leave a list unread."""

_log = get_log(__name__)


class Counter(Protocol):
    """Who gives units out, and knows which there are and who has them."""

    @property
    def resources(self) -> Latest[tuple[Resource, ...]]:
        """The extended resources of now, each name once, a resource without units included."""
        ...

    async def allocate(self, resource: str, ids: tuple[str, ...]) -> Grant:
        """Give units to a container that kubelet does not name, and say what it is to have.

        The hold is on disk before this returns. It may be called for several containers at a time;
        a cancel leaves nothing that would be taken for a hold for good.

        Args:
            resource: Name of the resource.
            ids: Units of it that are listed, each once; not empty.

        Raises:
            ClaimError: One of them is held, or cannot be given; the pod fails admission.
            BerthError: Likewise, for a reason outside the request.
        """
        ...


@attrs.frozen(kw_only=True)
class ServiceStatistics:
    """What the service did since it was made.

    Attributes:
        allocated: Containers that got what they asked for.
        refused: Those that did not.
        lists: Lists that were sent.
        faulty: Those of them that lack units, since kubelet would not take these.
    """

    allocated: int = 0
    refused: int = 0
    lists: int = 0
    faulty: int = 0


def _changed(before: Resource | None, now: Resource) -> Iterable[str]:
    """Devices of which a new pod may have more or fewer units than before."""
    known = {unit.id: unit.healthy for unit in before.units} if before is not None else {}
    return {unit.device for unit in now.units if known.get(unit.id, True) is not unit.healthy}


class DevicePluginService:
    """Answers kubelet's calls for one resource.

    Args:
        feed: The resource, as it is now.
        counter: Who gives its units out.
        told: Told the devices of which a list said something else than the one before.
    """

    def __init__(
        self,
        feed: Latest[Resource],
        counter: Counter,
        *,
        told: Callable[[Iterable[str]], object] = tuple,
    ) -> None:
        self.watchers: Latest[int] = Latest(0)
        """Streams on which lists are sent now; kubelet keeps one."""
        self.allocations: Latest[int] = Latest(0)
        """Containers that are being given something now."""
        self._feed = feed
        self._counter = counter
        self._tell_changed = told
        self._statistics = ServiceStatistics()
        self._told: tuple[str, ...] = ()
        self._listed: tuple[Resource, Listing] | None = None

    def service(self) -> Service:
        """The method table."""
        return Service(
            name=SERVICE,
            methods=(
                Method(
                    name="GetDevicePluginOptions",
                    request=pb.Empty,
                    reply=pb.DevicePluginOptions,
                    handler=self._options,
                ),
                StreamMethod(
                    name="ListAndWatch",
                    request=pb.Empty,
                    reply=pb.ListAndWatchResponse,
                    handler=self._list_and_watch,
                ),
                Method(
                    name="GetPreferredAllocation",
                    request=pb.PreferredAllocationRequest,
                    reply=pb.PreferredAllocationResponse,
                    handler=self._prefer,
                ),
                Method(
                    name="Allocate",
                    request=pb.AllocateRequest,
                    reply=pb.AllocateResponse,
                    handler=self._allocate,
                ),
                Method(
                    name="PreStartContainer",
                    request=pb.PreStartContainerRequest,
                    reply=pb.PreStartContainerResponse,
                    handler=self._pre_start,
                ),
            ),
        )

    def statistics(self) -> ServiceStatistics:
        """Give figures for tests and for the operator."""
        return self._statistics

    async def _options(self, _request: pb.Empty, _call: Call) -> pb.DevicePluginOptions:
        await trio.lowlevel.checkpoint()
        return options()

    async def _list_and_watch(
        self, _request: pb.Empty, _call: Call, send: Send[pb.ListAndWatchResponse]
    ) -> None:
        """Send the whole list at once, and then whenever it is another one."""
        if self.watchers.get() >= STREAMS_LIMIT:
            raise RpcError(
                self._feed.get().name,
                f"its list is sent on {STREAMS_LIMIT} streams already",
                code=Status.RESOURCE_EXHAUSTED,
            )
        sent: pb.ListAndWatchResponse | None = None
        before: Resource | None = None
        self.watchers.set(self.watchers.get() + 1)
        try:
            async for resource in self._feed.changes():
                listing = self._list(resource)
                if listing.answer != sent:
                    await send(listing.answer)
                    sent = listing.answer
                    self._tell_changed(_changed(before, resource))
                    before = resource
                    self._count(lists=1, faulty=bool(listing.faults))
        finally:
            self.watchers.set(self.watchers.get() - 1)

    def _list(self, resource: Resource) -> Listing:
        """The list of the resource, made once for all streams: it may have tens of thousands."""
        if self._listed is None or self._listed[0] is not resource:
            self._listed = (resource, list_resource(resource))
            self._tell_faults(self._listed[1].faults)
        return self._listed[1]

    async def _prefer(
        self, request: pb.PreferredAllocationRequest, _call: Call
    ) -> pb.PreferredAllocationResponse:
        await trio.lowlevel.checkpoint()
        resource = self._feed.get()
        return wish_answer(prefer(resource, read_wish(request, resource.name)))

    async def _allocate(self, request: pb.AllocateRequest, _call: Call) -> pb.AllocateResponse:
        began = trio.current_time()
        resource = self._feed.get().name
        self.allocations.set(self.allocations.get() + 1)
        try:
            ids = read_ids(request, self._feed.get())
            grant = await self._grant(resource, ids)
        except BerthError as error:
            self._count(refused=1)
            _log.warning(
                "units are refused, the pod fails admission", resource=resource, reason=error
            )
            raise
        finally:
            self.allocations.set(self.allocations.get() - 1)
        self._count(allocated=1)
        took_s = trio.current_time() - began
        _log.info("units allocated", resource=resource, ids=",".join(ids), took_s=took_s)
        return grant_answer(grant)

    async def _grant(self, resource: str, ids: tuple[str, ...]) -> Grant:
        with trio.move_on_after(ALLOCATE_S):
            return await self._counter.allocate(resource, ids)
        raise RpcError(
            resource,
            f"{', '.join(ids)} not allocated within {ALLOCATE_S:.0f} s",
            code=Status.DEADLINE_EXCEEDED,
            mend="berthd's log says what holds it up",
        )

    async def _pre_start(
        self, _request: pb.PreStartContainerRequest, _call: Call
    ) -> pb.PreStartContainerResponse:
        """Nothing is done here, and kubelet is told so by the options."""
        await trio.lowlevel.checkpoint()
        return pb.PreStartContainerResponse()

    def _tell_faults(self, faults: tuple[str, ...]) -> None:
        if faults and faults != self._told:
            _log.error(
                "units are left out of the list",
                resource=self._feed.get().name,
                count=len(faults),
                first=faults[0],
            )
        self._told = faults

    def _count(self, **more: int) -> None:
        old = attrs.asdict(self._statistics)
        self._statistics = ServiceStatistics(**{k: old[k] + more.get(k, 0) for k in old})
