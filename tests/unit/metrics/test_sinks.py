"""Readers of verdicts say of which devices they told something else than before, and no others."""

from __future__ import annotations

from collections.abc import Iterable

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from berth.deviceplugin.service import DevicePluginService
from berth.dra.capabilities import Capabilities
from berth.dra.health import HealthStreams
from berth.dra.healthreport import Place
from berth.dra.origin import Origin
from berth.dra.writer import SliceWriter
from berth.health.verdict import HealthState, Verdict
from berth.kube.api import Node, SlicesListed
from berth.kube.slices import Owner
from berth.model.device import Device, Taint
from berth.model.resource import Resource, Unit
from berth.node.claims.status import ClaimStatus
from berth.pb import deviceplugin_v1beta1_pb2 as pb
from berth.runtime.latest import Latest
from berth.runtime.methods import Call, StreamMethod
from tests.unit.deviceplugin.test_service import Desk
from tests.unit.dra.fakeapi import FakeApi
from tests.unit.node.claimserver import ClaimServer
from tests.unit.node.hands import Disk, MemoryRecords
from tests.unit.node.verdicts import DEGRADED, SICK, WELL, Judge
from tests.unit.node.views.scenes import DEVICE, claim_record, nic_record

CALL = Call(method="watch")
TAINT = Taint(key="berth.dev/fault", value="xid-79", effect="NoSchedule")


class Heard:
    """Whoever is told; each message by the devices that were new in it."""

    def __init__(self) -> None:
        self.told: list[set[str]] = []

    def __call__(self, names: Iterable[str]) -> None:
        """Take a message."""
        self.told.append(set(names))


async def _take(_answer: object) -> None:
    await trio.lowlevel.checkpoint()


async def test_list_tells_of_units_that_came_and_went() -> None:
    """A hold changes nothing for kubelet, and a device of two shares is one."""
    heard = Heard()
    units = tuple(Unit(id=f"{name}::{n}", device=name) for name in "ab" for n in (0, 1))
    feed = Latest(Resource(name="example.com/gpu", units=units))
    service = DevicePluginService(feed, Desk(), told=heard)
    method = service.service().find("ListAndWatch")
    assert isinstance(method, StreamMethod)
    sick = tuple(attrs.evolve(one, healthy=one.device != "a") for one in units)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(method.handler, pb.Empty(), CALL, _take)
        for now in (units, sick, tuple(attrs.evolve(one, held=True) for one in sick), units):
            feed.set(attrs.evolve(feed.get(), units=now))
            await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()

    assert heard.told == [set(), {"a"}, {"a"}]


async def test_stream_tells_of_reports_that_are_others(autojump_clock: MockClock) -> None:
    """Its heartbeat says the same again, which is nothing new."""
    heard = Heard()
    state = Latest(HealthState(verdicts={"a": WELL, "b": WELL}))
    streams = HealthStreams(
        state, places=lambda: [Place(pool="n", device=name) for name in "ab"], told=heard
    )
    (method,) = streams.services()[0].methods
    assert isinstance(method, StreamMethod)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(method.handler, method.request(), CALL, _take)
        await trio.sleep(0.1)
        state.set(HealthState(verdicts={"a": WELL, "b": SICK}))
        await trio.sleep(15)
        nursery.cancel_scope.cancel()

    assert [names for names in heard.told if names] == [{"a", "b"}, {"b"}]
    assert len(heard.told) > 2


async def test_slices_tell_of_taints_that_are_others() -> None:
    """What else is written of a device says nothing of its health."""
    heard = Heard()
    api = FakeApi(Node(name="n", uid="u"))
    origin = Origin(driver="berth.dev", owner=Owner(name="n", uid="u"))
    capabilities = Capabilities(api, driver="berth.dev", node_name="n")
    await capabilities.look()
    writer = SliceWriter(api, origin, capabilities, told=heard)
    writer.observed.apply(SlicesListed(slices=()))
    devices = [
        Device(name=name, identity=name, type="nic", group="g", attributes={}) for name in "ab"
    ]
    tainted = [attrs.evolve(devices[0], taints=(TAINT,)), devices[1]]
    renamed = [attrs.evolve(one, attributes={"ifName": "x"}) for one in tainted]
    for wanted in (devices, tainted, renamed, devices):
        for due in writer.plan(wanted, notes=True):
            await writer.write(due)

    assert heard.told == [set(), {"a"}, set(), {"a"}]


@pytest.mark.parametrize("verdict", [SICK, DEGRADED])
async def test_status_tells_of_conditions_that_are_others(
    verdict: Verdict, nursery: trio.Nursery
) -> None:
    """A NIC that arrives in its pod is told without a word on its health."""
    heard = Heard()
    judge = Judge(**{DEVICE: WELL})
    records = MemoryRecords(Disk())
    status = ClaimStatus(
        ClaimServer(),
        driver="berth.dev",
        manager="berthd-node",
        records=records,
        inquiry=judge.inquiry(),
        told=heard,
    )
    await nursery.start(status.run)
    for record in (claim_record(nic_record()), claim_record(nic_record(fault="is away"))):
        await records.put(record)
        status.tell(record)
        await wait_all_tasks_blocked()
    judge.tell({DEVICE: verdict})
    await wait_all_tasks_blocked()
    nursery.cancel_scope.cancel()

    assert heard.told == [{DEVICE}, set(), {DEVICE}]
