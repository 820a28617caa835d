"""What the publisher makes of servers that take counters, drop them, or do not say."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import attrs
import pytest
import trio
from trio.testing import MockClock

from berth.dra.nodename import NodeChoice
from berth.dra.publisher import Publisher
from berth.errors import KubeError
from berth.kube.api import Node, ServerVersion
from berth.kube.slices import Slice
from berth.model.device import Device
from berth.model.inventory import Inventory
from berth.runtime.latest import Latest
from tests.unit.dra.fakeapi import FakeApi
from tests.unit.dra.shelf import counter_set, nics, part
from tests.unit.memoryfile import MemoryFile

DIVIDED = Inventory(devices=(part(0), part(1)), counter_sets=(counter_set(),))


@attrs.frozen
class Scene:
    """A publisher at work, and its server."""

    api: FakeApi
    inventory: Latest[Inventory | None]
    publisher: Publisher

    def grouped(self) -> list[object]:
        """The compatibility groups of each device that draws on a set."""
        return [
            drawn.get("compatibilityGroups")
            for item in self.api.owned()
            for one in item.devices
            for drawn in one.get("consumesCounters", ())
        ]

    def kinds(self) -> list[str]:
        """What each slice of devices says of the attribute that tells what part they are."""
        return [item.partition_type for item in self.api.owned() if item.devices]

    def counted(self) -> tuple[int, int]:
        """How many counter sets stand on the server, and how many devices draw on one."""
        owned = self.api.owned()
        drawing = [one for item in owned for one in item.devices if "consumesCounters" in one]
        return sum(len(item.shared_counters) for item in owned), len(drawing)


Open = Callable[..., AbstractAsyncContextManager[Scene]]


@pytest.fixture
def scene() -> Open:
    """Give a way to start a publisher of a node with a divided GPU."""

    @asynccontextmanager
    async def begin(
        api: FakeApi,
        first: Inventory = DIVIDED,
        *,
        kind: str = "",
        unseen: Latest[str | None] | None = None,
    ) -> AsyncIterator[Scene]:
        inventory: Latest[Inventory | None] = Latest(first)
        publisher = Publisher(
            api=api,
            driver="berth.dev",
            inventory=inventory,
            choice=NodeChoice(name="worker-7"),
            history=MemoryFile(),
            kind=kind,
            unseen=unseen,
            chance=lambda: 0.0,
        )
        async with trio.open_nursery() as nursery:
            await nursery.start(publisher.run)
            await trio.sleep(1)
            yield Scene(api=api, inventory=inventory, publisher=publisher)
            nursery.cancel_scope.cancel()

    return begin


def server(major: int = 1, minor: int = 37) -> FakeApi:
    """A server of some version."""
    api = FakeApi(Node(name="worker-7", uid="node-uid"))
    api.version = ServerVersion(major=major, minor=minor, text=f"v{major}.{minor}.0")
    return api


def drop_counters(item: Slice) -> Slice:
    """What a server without the feature makes of a slice."""
    devices = [dict(device) for device in item.devices]
    for device in devices:
        device.pop("consumesCounters", None)
    return attrs.evolve(item, devices=tuple(devices), shared_counters=())


@pytest.mark.parametrize(
    ("major", "minor", "counted"),
    [(1, 34, (0, 0)), (1, 35, (0, 0)), (1, 36, (1, 2)), (1, 37, (1, 2)), (2, 0, (1, 2))],
)
async def test_counters_are_written_where_the_server_takes_them(
    autojump_clock: MockClock, scene: Open, major: int, minor: int, counted: tuple[int, int]
) -> None:
    """From 1.36 on; before, neither sets nor what devices draw; asked once, then silence."""

    async with scene(server(major, minor)) as it:
        assert it.counted() == counted
        written = len(it.api.requests)
        await trio.sleep(3600)

        assert len(it.api.requests) == written == (2 if counted[0] else 1)
        assert it.api.versions_asked == 1


async def test_server_is_asked_once_what_it_knows(autojump_clock: MockClock, scene: Open) -> None:
    """Also where nothing that is published depends on it: an operator may ask."""

    async with scene(server(), Inventory(devices=nics(2))) as it:
        await trio.sleep(3600)

        assert (it.api.versions_asked, it.api.tries) == (1, 1)


async def test_dropped_counters_are_not_sent_again(autojump_clock: MockClock, scene: Open) -> None:
    """A server of the right version with the gate off, and a new process that finds its slices.

    Nothing else tells of it where an admission hook lets nothing be tried.
    """

    api = server()
    api.hooked = True
    api.store = drop_counters
    async with scene(api) as it:
        assert it.counted() == (0, 0)
        # The sets came to nothing, and their slice went again.
        assert [verb for verb, _ in api.requests] == ["create", "create", "delete", "update"]
        await trio.sleep(3600)
        assert len(api.requests) == 4
    for number in range(1, 3):
        async with scene(api):
            await trio.sleep(3600)
            # Each life tries once.
            assert len(api.requests) == 4 + 4 * number
            assert len(api.owned()) == 1


async def test_dropped_counters_are_tried_again_on_another_version(
    autojump_clock: MockClock, scene: Open
) -> None:
    """The watch breaks when a server ends; what answers then may know more."""

    api = server(1, 36)
    api.hooked = True
    api.store = drop_counters
    async with scene(api) as it:
        api.cut_watches()
        api.mend_watches()
        await trio.sleep(1)
        assert (api.versions_asked, len(api.requests)) == (2, 4)

        api.cut_watches()
        api.store = lambda item: item
        api.version = ServerVersion(major=1, minor=37, text="v1.37.2")
        api.mend_watches()
        await trio.sleep(1)

        assert it.counted() == (1, 2)
        assert {item.generation for item in api.owned()} == {3}


async def test_counters_come_and_go_with_the_servers_version(
    autojump_clock: MockClock, scene: Open
) -> None:
    """An upgrade adds them, and a way back takes them out."""

    api = server(1, 35)
    async with scene(api) as it:
        for minor, counted in ((36, (1, 2)), (35, (0, 0))):
            api.cut_watches()
            api.version = ServerVersion(major=1, minor=minor, text=f"v1.{minor}.0")
            api.mend_watches()
            await trio.sleep(2)

            assert it.counted() == counted


@pytest.mark.parametrize(("hooked", "counted"), [(False, (1, 2)), (True, (0, 0))])
async def test_version_that_is_withheld_is_made_up_for_by_what_is_kept(
    autojump_clock: MockClock, scene: Open, hooked: bool, counted: tuple[int, int]
) -> None:
    """Where nothing can be tried either, devices are published without counters."""

    api = server()
    api.hooked = hooked
    api.version = KubeError("/version", "forbidden", status=403)
    async with scene(api) as it:
        # One that was started a moment ago answers so, too.
        assert api.owned() == []
        await trio.sleep(30)

        assert it.counted() == counted
        assert len(api.devices()) == 2
        assert it.publisher.statistics().state == "published"


async def test_version_is_asked_again_when_no_answer_came(
    autojump_clock: MockClock, scene: Open
) -> None:
    """Slices without counters, replaced a moment later, would help nobody."""

    api = server()
    api.version = KubeError("/version", "no answer")
    async with scene(api) as it:
        assert api.owned() == []
        assert "cannot ask for the server's version" in it.publisher.statistics().state
        assert it.publisher.statistics().failures >= 1

        api.version = ServerVersion(major=1, minor=37, text="v1.37.2")
        await trio.sleep(60)

        assert it.counted() == (1, 2)
        assert it.publisher.statistics().state == "published"


def in_groups(*devices: Device) -> Inventory:
    """A divided GPU whose parts go with each other alone."""
    told = (
        attrs.evolve(
            one, consumes=tuple(attrs.evolve(drawn, groups=("mig",)) for drawn in one.consumes)
        )
        for one in devices
    )
    return Inventory(devices=tuple(told), counter_sets=(counter_set(),))


def drop_groups(item: Slice) -> Slice:
    """What a server with the gate of compatibility groups off makes of a slice."""
    devices = [dict(device) for device in item.devices]
    for device in devices:
        if "consumesCounters" in device:
            device["consumesCounters"] = [
                {key: value for key, value in drawn.items() if key != "compatibilityGroups"}
                for drawn in device["consumesCounters"]
            ]
    return attrs.evolve(item, devices=tuple(devices))


@pytest.mark.parametrize(("minor", "groups"), [(36, None), (37, ["mig"])])
async def test_groups_are_written_where_the_server_may_know_them(
    autojump_clock: MockClock, scene: Open, minor: int, groups: list[str] | None
) -> None:
    """From 1.37 on; of all parts or of none."""

    async with scene(server(1, minor), in_groups(part(0), part(1))) as it:
        assert it.grouped() == [groups, groups]


async def test_dropped_groups_are_taken_out_everywhere(
    autojump_clock: MockClock, scene: Open
) -> None:
    """A slice that has them from before the gate went off would keep them, another would not."""

    api = server()
    many = tuple(part(number) for number in range(70))
    async with scene(api, in_groups(*many)) as it:
        assert it.grouped() == [["mig"]] * 70

        first = next(item for item in api.owned() if item.devices)
        api.store = lambda item: item if item.name == first.name else drop_groups(item)
        it.inventory.set(in_groups(*many[:69]))
        await trio.sleep(60)
        assert it.grouped() == [None] * 69
        written = len(api.requests)
        await trio.sleep(3600)

        assert len(api.requests) == written
        assert it.publisher.statistics().state == "published"


async def test_dropped_groups_are_tried_again_on_another_version(
    autojump_clock: MockClock, scene: Open
) -> None:
    """As counters are."""

    api = server()
    api.store = drop_groups
    async with scene(api, in_groups(part(0), part(1))) as it:
        assert it.grouped() == [None, None]

        api.cut_watches()
        api.store = lambda item: item
        api.version = ServerVersion(major=1, minor=38, text="v1.38.0")
        api.mend_watches()
        await trio.sleep(10)

        assert it.grouped() == [["mig"], ["mig"]]


@pytest.mark.parametrize(("minor", "told"), [(36, ""), (37, "berth.dev/profile")])
async def test_slices_say_which_attribute_tells_the_kind_of_part(
    autojump_clock: MockClock, scene: Open, minor: int, told: str
) -> None:
    """Where it is wanted, and the server may know it."""

    parts = Inventory(
        devices=(part(0, profile="1g.5gb"), part(1, profile="")), counter_sets=(counter_set(),)
    )
    async with scene(server(1, minor), parts, kind="profile") as it:
        assert it.kinds() == [told]
    async with scene(server(1, minor), parts) as it:
        assert it.kinds() == [""]


async def test_attribute_that_a_part_lacks_is_not_told(
    autojump_clock: MockClock, scene: Open
) -> None:
    """A server refuses the slice then; one of whole devices may not have it either."""

    async with scene(server(), Inventory(devices=nics(2)), kind="profile") as it:
        assert it.kinds() == [""]
    lacking = attrs.evolve(DIVIDED, devices=(part(0, profile="1g.5gb"), part(1)))
    async with scene(server(), lacking, kind="profile") as it:
        assert it.kinds() == [""]


async def test_attribute_that_the_server_drops_is_not_sent_again(
    autojump_clock: MockClock, scene: Open
) -> None:
    """Its gate is off by default."""

    api = server()
    api.store = lambda item: attrs.evolve(item, partition_type="")
    parts = attrs.evolve(DIVIDED, devices=(part(0, profile="1g.5gb"),))
    async with scene(api, parts, kind="profile") as it:
        written = len(api.requests)
        await trio.sleep(3600)

        assert len(api.requests) == written
        assert it.publisher.statistics().state == "published"
