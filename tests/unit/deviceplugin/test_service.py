"""Kubelet's five calls, answered without a socket."""

from __future__ import annotations

import logging
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from berth.deviceplugin.service import (
    ALLOCATE_S,
    STREAMS_LIMIT,
    DevicePluginService,
    ServiceStatistics,
)
from berth.errors import ClaimError, RemoteProtocolError
from berth.model.edits import Edits
from berth.model.resource import Grant, Resource, Unit
from berth.pb import deviceplugin_v1beta1_pb2 as pb
from berth.runtime.latest import Latest
from berth.runtime.methods import Call, Method, RpcError, Status, StreamMethod

NAME = "example.com/gpu"
UNITS = tuple(Unit(id=name, device=f"dev-{name}") for name in "abc")
GPUS = Resource(name=NAME, units=UNITS)
CALL = Call(method="call")


class Desk:
    """Gives out what it is asked for; ids of `held` are held, and those of `slow` never given."""

    def __init__(self) -> None:
        self.resources: Latest[tuple[Resource, ...]] = Latest((GPUS,))
        self.held: set[str] = set()
        self.slow: set[str] = set()

    async def allocate(self, resource: str, ids: tuple[str, ...]) -> Grant:
        """Give."""
        await trio.lowlevel.checkpoint()
        if self.slow & set(ids):
            await trio.sleep_forever()
        if self.held & set(ids):
            raise ClaimError("dev-a", "is held by claim ns/c (uid)")
        return Grant(
            edits=Edits(env=(f"{resource}={ids}",)), cdi_ids=tuple(f"v/c={i}" for i in ids)
        )


@attrs.define
class Bench:
    """A service and what it works with."""

    desk: Desk = attrs.field(factory=Desk)
    feed: Latest[Resource] = attrs.field(factory=lambda: Latest(GPUS))
    service: DevicePluginService = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.service = DevicePluginService(self.feed, self.desk)

    async def call(self, name: str, request: Any) -> Any:
        """Make a call."""
        method = self.service.service().find(name)
        assert isinstance(method, Method)
        return await method.handler(request, CALL)

    async def allocate(self, *ids: str) -> pb.AllocateResponse:
        """Ask for ids."""
        entry = pb.ContainerAllocateRequest(devices_ids=ids)
        answer = await self.call("Allocate", pb.AllocateRequest(container_requests=[entry]))
        assert isinstance(answer, pb.AllocateResponse)
        return answer

    async def watch(self, lists: list[list[str]]) -> None:
        """Follow the list."""

        async def send(answer: pb.ListAndWatchResponse) -> None:
            await trio.lowlevel.checkpoint()
            lists.append([f"{item.ID}:{item.health}" for item in answer.devices])

        method = self.service.service().find("ListAndWatch")
        assert isinstance(method, StreamMethod)
        await method.handler(pb.Empty(), CALL, send)


async def test_options_say_that_preferences_are_known_and_nothing_is_to_start() -> None:
    """Both are what the registration said."""

    bench = Bench()

    options = await bench.call("GetDevicePluginOptions", pb.Empty())
    started = await bench.call("PreStartContainer", pb.PreStartContainerRequest(devices_ids=["a"]))

    assert options == pb.DevicePluginOptions(get_preferred_allocation_available=True)
    assert started == pb.PreStartContainerResponse()


async def test_list_is_sent_at_once_and_then_when_kubelet_would_see_a_change() -> None:
    """What only the ledger knows of changes nothing; a second stream begins with the whole list."""

    bench = Bench()
    first: list[list[str]] = []
    second: list[list[str]] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.watch, first)
        await wait_all_tasks_blocked()
        held = tuple(attrs.evolve(unit, held=True) for unit in UNITS)
        bench.feed.set(Resource(name=NAME, units=held))
        await wait_all_tasks_blocked()
        bench.feed.set(Resource(name=NAME, units=(attrs.evolve(UNITS[0], healthy=False),)))
        await wait_all_tasks_blocked()
        nursery.start_soon(bench.watch, second)
        await wait_all_tasks_blocked()
        assert bench.service.watchers.get() == 2
        nursery.cancel_scope.cancel()

    assert first == [["a:Healthy", "b:Healthy", "c:Healthy"], ["a:Unhealthy"]]
    assert second == [["a:Unhealthy"]]
    assert bench.service.watchers.get() == 0
    assert bench.service.statistics().lists == 3


async def test_streams_that_nobody_reads_are_few_and_cost_one_list() -> None:
    """A kubelet that opens hundreds is refused; those before it get the same list."""

    bench = Bench()
    method = bench.service.service().find("ListAndWatch")
    assert isinstance(method, StreamMethod)
    sent: list[pb.ListAndWatchResponse] = []
    refused: list[Status] = []

    async def send(answer: pb.ListAndWatchResponse) -> None:
        sent.append(answer)
        await trio.sleep_forever()

    async def watch() -> None:
        try:
            await method.handler(pb.Empty(), CALL, send)
        except RpcError as error:
            refused.append(error.code)

    async with trio.open_nursery() as nursery:
        for _ in range(200):
            nursery.start_soon(watch)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()

    assert len(sent) == STREAMS_LIMIT
    assert all(answer is sent[0] for answer in sent)
    assert refused == [Status.RESOURCE_EXHAUSTED] * (200 - STREAMS_LIMIT)


async def test_units_that_cannot_be_listed_are_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The operator learns of a bad unit when it appears, not with every list."""

    bench = Bench()
    bad = Unit(id="x" * 64, device="dev-x")
    bench.feed.set(Resource(name=NAME, units=(*UNITS, bad)))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.watch, [])
        await wait_all_tasks_blocked()
        bench.feed.set(Resource(name=NAME, units=(bad,)))
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()

    assert [record.getMessage() for record in caplog.records] == ["units are left out of the list"]


async def test_allocate_gives_what_the_counter_grants() -> None:
    """The grant is answered, and counted."""

    bench = Bench()

    answer = await bench.allocate("b", "a")

    (entry,) = answer.container_responses
    assert [item.name for item in entry.cdi_devices] == ["v/c=b", "v/c=a"]
    assert bench.service.statistics() == ServiceStatistics(allocated=1)


async def test_allocate_tells_refusals_and_bad_requests(caplog: pytest.LogCaptureFixture) -> None:
    """L3: who holds the device stands in the error; a bad request reaches nobody."""

    caplog.set_level(logging.CRITICAL)
    bench = Bench()
    bench.desk.held = {"a"}

    with pytest.raises(ClaimError, match="held by claim ns/c"):
        await bench.allocate("a", "b")
    with pytest.raises(RemoteProtocolError, match="0 containers"):
        await bench.call("Allocate", pb.AllocateRequest())

    assert bench.service.statistics() == ServiceStatistics(refused=2)
    assert bench.service.allocations.get() == 0


async def test_allocate_is_given_up_in_time(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Kubelet would wait for ever, and admit no other pod."""

    caplog.set_level(logging.CRITICAL)
    bench = Bench()
    bench.desk.slow = {"a"}
    began = trio.current_time()

    with pytest.raises(RpcError, match="not allocated within 10 s") as caught:
        await bench.allocate("a")

    assert caught.value.code is Status.DEADLINE_EXCEEDED
    assert trio.current_time() - began == pytest.approx(ALLOCATE_S)


async def test_preference_is_answered_from_the_list_of_now() -> None:
    """A unit that fell ill is preferred no more, and no device is asked."""

    bench = Bench()
    entry = pb.ContainerPreferredAllocationRequest(available_deviceIDs="cab", allocation_size=2)
    request = pb.PreferredAllocationRequest(container_requests=[entry])

    before = await bench.call("GetPreferredAllocation", request)
    ill = (attrs.evolve(UNITS[0], healthy=False), *UNITS[1:])
    bench.feed.set(Resource(name=NAME, units=ill))
    after = await bench.call("GetPreferredAllocation", request)

    assert [*before.container_responses[0].deviceIDs] == ["a", "b"]
    assert [*after.container_responses[0].deviceIDs] == ["b", "c"]
