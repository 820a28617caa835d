"""Which NICs are looked after, for how long, and what is written down of them."""

from __future__ import annotations

import errno
import math
from collections.abc import Callable
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked
from typing_extensions import Self

from berth.errors import HostError
from berth.host.netlink.address import Address
from berth.host.netlink.events import Changed, Event, Overflow, Removed
from berth.nic.aftercare import Sight, waits_for_carrier, waits_for_search
from berth.nic.announce import waits_for_announcement
from berth.nic.record import NicRecord, Stage
from berth.node.holders.nicholders import NicHolders
from berth.node.nics import announcer
from berth.node.nics.announcer import CARRIER_S, SEARCH_S, Announcer
from tests.unit.nic.links import address_of, config_of, link_of
from tests.unit.node.claimrecords import NIC, RECORD
from tests.unit.node.hands import Disk, MemoryRecords

BARE = attrs.evolve(
    NIC,
    carrier=False,
    announced=False,
    duplicates=(),
    config=config_of(addresses=[{"address": "192.0.2.5/24"}]),
)
SEARCHING = attrs.evolve(
    BARE,
    carrier=True,
    announced=True,
    config=config_of(addresses=[{"address": "2001:db8::5/64", "noDAD": False}]),
)
DARK = Sight(nsid=4, index=7, carrier=False)
HEARD = attrs.evolve(DARK, carrier=True, announced=True)


class Wire:
    """Stands in for the event socket.

    Attributes:
        opened: How often a socket was opened.
        open_now: How many are open.
        refuses: Whether the kernel lets nobody hear other namespaces.
    """

    def __init__(self) -> None:
        self.opened = 0
        self.open_now = 0
        self.refuses = False
        self._send, self._receive = trio.open_memory_channel[tuple[Event, ...]](math.inf)

    def __call__(self, _groups: object, *, all_nsids: bool) -> Wire:
        """Open one."""
        assert all_nsids
        if self.refuses:
            raise HostError("netlink events", "Operation not permitted", errno=errno.EPERM)
        self.opened += 1
        return self

    def __enter__(self) -> Self:
        self.open_now += 1
        return self

    def __exit__(self, *_error: object) -> None:
        self.open_now -= 1

    def tell(self, *events: Event) -> None:
        """Have events come."""
        self._send.send_nowait(events)

    async def receive(self) -> tuple[Event, ...]:
        """Wait for events."""
        return await self._receive.receive()


class Scene:
    """An announcer over one claim, whose NIC is seen as the test says.

    Attributes:
        sight: What a look shows; an error is raised.
        looks: When it was looked, on the clock.
    """

    def __init__(self) -> None:
        self.records = MemoryRecords(Disk())
        self.wire = Wire()
        self.sight: Sight | HostError | None = DARK
        self.looks: list[float] = []
        self.noticed: list[str] = []
        self.announcer = Announcer(NicHolders(self.records), noticed=self.noticed.append)

    def look(self, _nic: NicRecord, **_more: Any) -> Sight | None:
        """Stand in for the look into the pod."""
        self.looks.append(trio.current_time())
        if isinstance(self.sight, HostError):
            raise self.sight
        return self.sight

    async def watch(self, nic: NicRecord) -> None:
        """Have a NIC attached, and looked after."""
        await self.records.put(RECORD.with_nic(0, nic))
        self.announcer.watch("u1", 0, nic)
        await wait_all_tasks_blocked()

    def nic(self) -> NicRecord:
        """The NIC as it is recorded."""
        record = self.records.get("u1")
        assert record is not None
        nic = record.devices[0].nic
        assert nic is not None
        return nic


@pytest.fixture(name="scene")
async def _scene(monkeypatch: pytest.MonkeyPatch, nursery: trio.Nursery) -> Scene:
    """An announcer that runs, and does nothing in threads, for which no clock jumps."""
    scene = Scene()

    async def inline(_kind: str, work: Callable[..., Any], *args: Any, **more: Any) -> Any:
        await trio.lowlevel.checkpoint()
        return work(*args, **more)

    monkeypatch.setattr(announcer, "run_in_thread", inline)
    monkeypatch.setattr(announcer, "look_after", scene.look)
    monkeypatch.setattr(announcer, "EventSocket", scene.wire)
    await nursery.start(scene.announcer.run)
    return scene


def of_link(*, nsid: int = 4, index: int = 7) -> Changed:
    """A link in a pod has changed."""
    return Changed(value=link_of("net1", index=index), nsid=nsid)


def test_what_is_waited_for() -> None:
    """Carrier where none was there, word where there are addresses, a search that was asked for."""

    quiet = attrs.evolve(BARE, config=attrs.evolve(BARE.config, announce=False))
    down = config_of(interface={"up": False}, addresses=[{"address": "192.0.2.5/24"}])

    assert waits_for_carrier(BARE)
    assert not waits_for_carrier(attrs.evolve(BARE, carrier=True))
    assert not waits_for_carrier(attrs.evolve(BARE, config=down))
    assert waits_for_announcement(attrs.evolve(BARE, carrier=True))
    assert not waits_for_announcement(attrs.evolve(BARE, announced=True))
    assert not waits_for_announcement(quiet)
    assert not waits_for_announcement(attrs.evolve(BARE, config=down))
    assert not waits_for_announcement(attrs.evolve(BARE, config=config_of()))
    assert waits_for_search(SEARCHING)
    assert not waits_for_search(BARE)


async def test_no_socket_for_a_nic_that_has_all(scene: Scene, autojump_clock: MockClock) -> None:
    """Nothing is looked at, and nothing wakes anybody."""

    await scene.watch(attrs.evolve(BARE, carrier=True, announced=True))
    await trio.sleep(1000.0)

    assert (scene.wire.opened, scene.looks) == (0, [])


async def test_carrier_comes(scene: Scene, autojump_clock: MockClock) -> None:
    """Its event leads to a look, the record tells of it, and the socket is closed."""

    await scene.watch(BARE)
    await trio.sleep(20.0)
    assert (len(scene.looks), scene.wire.open_now) == (1, 1)
    scene.sight = HEARD
    scene.wire.tell(of_link())
    await trio.sleep(0.1)

    assert scene.nic() == attrs.evolve(BARE, carrier=True, announced=True)
    assert (scene.noticed, scene.wire.open_now) == (["u1"], 0)
    assert scene.records.stored["u1"] == scene.records.get("u1")


async def test_carrier_a_moment_before_it_is_heard(scene: Scene, autojump_clock: MockClock) -> None:
    """It is waited on until what is sent goes out; the record tells of both when they come."""

    await scene.watch(BARE)
    scene.sight = attrs.evolve(DARK, carrier=True)
    scene.wire.tell(of_link())
    await trio.sleep(1.0)
    assert (scene.nic().carrier, scene.nic().announced, scene.wire.open_now) == (True, False, 1)
    scene.sight = HEARD
    scene.wire.tell(of_link())
    await trio.sleep(1.0)

    assert (scene.nic().announced, scene.wire.open_now) == (True, 0)


async def test_carrier_with_nothing_to_announce(scene: Scene, autojump_clock: MockClock) -> None:
    """A NIC whose pod gives it its addresses is told of as well when its carrier comes."""

    nic = attrs.evolve(BARE, config=config_of())
    await scene.watch(nic)
    scene.sight = attrs.evolve(DARK, carrier=True)
    scene.wire.tell(of_link())
    await trio.sleep(1.0)

    assert scene.nic() == attrs.evolve(nic, carrier=True)
    assert scene.wire.open_now == 0


async def test_announcement_that_is_refused(
    scene: Scene, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """It is tried again with each event, and one line tells of it at the end."""

    scene.sight = attrs.evolve(DARK, carrier=True, untold="Operation not permitted")
    await scene.watch(BARE)
    scene.wire.tell(of_link())
    await trio.sleep(CARRIER_S + 1.0)

    assert (scene.nic().carrier, scene.nic().announced, len(scene.looks)) == (True, False, 3)
    assert caplog.text.count("addresses of a NIC not announced") == 1
    assert scene.wire.open_now == 0


async def test_events_of_others(scene: Scene, autojump_clock: MockClock) -> None:
    """Links of other pods, other links of this one and the host's own are no reason to look."""

    await scene.watch(BARE)
    scene.wire.tell(of_link(nsid=5), of_link(index=8))
    scene.wire.tell(Changed(value=link_of("v0", index=7)))
    scene.wire.tell(Removed(value=link_of("net1", index=7), nsid=4))
    await trio.sleep(1.0)
    assert len(scene.looks) == 1
    for event in (Overflow(), Changed(value=_address(7), nsid=4)):
        scene.wire.tell(event)
        await trio.sleep(1.0)

    assert len(scene.looks) == 3


def _address(index: int) -> Address:
    return attrs.evolve(address_of("2001:db8::5/64"), index=index)


async def test_carrier_never_comes(scene: Scene, autojump_clock: MockClock) -> None:
    """After a minute nobody waits any more."""

    await scene.watch(BARE)
    await trio.sleep(CARRIER_S + 1.0)

    assert (scene.wire.open_now, scene.noticed, len(scene.looks)) == (0, [], 2)
    scene.wire.tell(of_link())
    await trio.sleep(1.0)
    assert len(scene.looks) == 2


async def test_search_finds_a_duplicate(
    scene: Scene, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """The record names the address, and one line does."""

    scene.sight = attrs.evolve(HEARD, tentative=True)
    await scene.watch(SEARCHING)
    scene.sight = attrs.evolve(HEARD, duplicates=("2001:db8::5/64",))
    scene.wire.tell(Changed(value=_address(7), nsid=4))
    await trio.sleep(1.0)

    assert (scene.nic().duplicates, scene.noticed) == (("2001:db8::5/64",), ["u1"])
    assert scene.wire.open_now == 0
    assert caplog.text.count("addresses of a NIC are another station's") == 1


async def test_carrier_lost_while_a_search_ends(scene: Scene, autojump_clock: MockClock) -> None:
    """What the record says of it then would stand for good, if nobody waited for it again."""

    scene.sight = attrs.evolve(HEARD, tentative=True)
    await scene.watch(SEARCHING)
    scene.sight = attrs.evolve(DARK, announced=True)
    scene.wire.tell(of_link())
    await trio.sleep(SEARCH_S + 1.0)
    assert (scene.nic().carrier, scene.wire.open_now) == (False, 1)
    scene.sight = HEARD
    scene.wire.tell(of_link())
    await trio.sleep(1.0)

    assert (scene.nic().carrier, scene.wire.open_now) == (True, 0)


async def test_carrier_that_does_not_come_back(scene: Scene, autojump_clock: MockClock) -> None:
    """It is waited for as long as a first one is."""

    scene.sight = attrs.evolve(HEARD, tentative=True)
    await scene.watch(SEARCHING)
    scene.sight = attrs.evolve(DARK, announced=True)
    scene.wire.tell(of_link())
    await trio.sleep(CARRIER_S - 1.0)
    assert scene.wire.open_now == 1
    await trio.sleep(2.0)

    assert (scene.nic().carrier, scene.wire.open_now) == (False, 0)


async def test_search_that_does_not_end(scene: Scene, autojump_clock: MockClock) -> None:
    """After five seconds nobody watches it."""

    scene.sight = attrs.evolve(HEARD, tentative=True)
    await scene.watch(SEARCHING)
    await trio.sleep(SEARCH_S - 1.0)
    assert scene.wire.open_now == 1
    await trio.sleep(2.0)

    assert (scene.wire.open_now, scene.noticed) == (0, [])


@pytest.mark.parametrize("sight", [None, HostError("pod", "is gone")])
async def test_pod_ends(scene: Scene, autojump_clock: MockClock, sight: HostError | None) -> None:
    """What is not there any more is not looked after."""

    await scene.watch(BARE)
    scene.sight = sight
    scene.wire.tell(of_link())
    await trio.sleep(1.0)

    assert (scene.wire.open_now, scene.noticed) == (0, [])


async def test_second_nic_while_one_waits(scene: Scene, autojump_clock: MockClock) -> None:
    """It is looked at at once, over the same socket."""

    await scene.watch(BARE)
    await trio.sleep(10.0)
    scene.announcer.watch("u2", 0, BARE)
    await trio.sleep(0.1)

    assert (scene.looks, scene.wire.opened) == ([0.0, 10.0], 1)


async def test_record_of_another_sandbox_by_now(scene: Scene, autojump_clock: MockClock) -> None:
    """What was seen in the old sandbox is not written into the record of the new one."""

    await scene.watch(BARE)
    moved = attrs.evolve(BARE, stage=Stage.STAGED, sandbox=None)
    await scene.records.put(RECORD.with_nic(0, moved))
    scene.sight = HEARD
    scene.wire.tell(of_link())
    await trio.sleep(1.0)

    assert (scene.nic(), scene.noticed) == (moved, [])


async def test_nic_of_a_holder_that_has_lost_another(
    scene: Scene, autojump_clock: MockClock
) -> None:
    """Kubelet gave a NIC before it to somebody else: what is seen is noted of the right one."""

    nic = attrs.evolve(BARE, identity="link:boot:9")
    first, second = RECORD.with_nic(0, BARE).devices[0], RECORD.with_nic(0, nic).devices[0]
    await scene.records.put(attrs.evolve(RECORD, devices=(first, second)))
    scene.announcer.watch("u1", 1, nic)
    await wait_all_tasks_blocked()
    await scene.records.put(attrs.evolve(RECORD, devices=(second,)))
    scene.sight = HEARD
    scene.wire.tell(of_link())
    await trio.sleep(1.0)

    assert scene.nic() == attrs.evolve(nic, carrier=True, announced=True)


async def test_pods_that_cannot_be_heard(scene: Scene, autojump_clock: MockClock) -> None:
    """Without the right to hear them they are looked at now and then, and not for ever."""

    scene.wire.refuses = True
    await scene.watch(BARE)
    await trio.sleep(1000.0)
    assert 5 < len(scene.looks) < 10
    assert scene.looks[-1] < CARRIER_S + 1.0
    scene.sight = HEARD
    scene.announcer.watch("u1", 0, BARE)
    await trio.sleep(1.0)

    assert scene.noticed == ["u1"]


async def test_announcement_that_is_refused_where_pods_cannot_be_heard(
    scene: Scene, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Who lacks one right is likely to lack the other: one line tells of it at the end."""

    scene.wire.refuses = True
    scene.sight = attrs.evolve(DARK, carrier=True, untold="Operation not permitted")
    await scene.watch(BARE)
    await trio.sleep(CARRIER_S + 1.0)

    assert caplog.text.count("addresses of a NIC not announced") == 1
