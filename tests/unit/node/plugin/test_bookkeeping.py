"""Kubelet's lists against what was given: asked when it matters, believed when it is proven."""

from __future__ import annotations

import itertools
from pathlib import Path

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from berth.errors import BerthError, HostError
from berth.model.claim import ClaimRef
from berth.model.inventory import Inventory
from berth.model.resource import PodUsages, Usage
from berth.node.holders.equipment import equip
from berth.node.ledger import Hold, Ledger
from berth.node.plugin.allotments import Allotments
from berth.node.plugin.bookkeeping import Bookkeeping
from berth.node.records.given import Given
from berth.node.records.shelf import Shelf
from berth.runtime.latest import Latest
from berth.runtime.sockets import SocketId
from tests.unit.node.machine import BOOT
from tests.unit.node.peripherals import RESOURCE, USER, modem, usage
from tests.unit.node.plugin.test_allotments import Named

NOW_S = 1_800_000_000.0
"""The time of day in these tests."""


class MemoryShelf(Shelf[Given]):
    """Records without files: virtual time would run while a thread writes one.

    Attributes:
        stuck: UIDs whose records cannot be written or removed.
    """

    def __init__(self, stored: dict[str, Given]) -> None:
        super().__init__(
            Path("/nowhere"),
            uid_of=lambda given: given.holder.uid,
            to_bytes=lambda _given: b"",
            from_bytes=lambda _content, _where: stored[""],
        )
        self.stored = stored
        self.stuck: set[str] = set()

    async def load(self) -> tuple[str, ...]:
        """Take what was stored."""
        await trio.lowlevel.checkpoint()
        self._records = dict(self.stored)
        return ()

    async def put(self, record: Given) -> None:
        """Store it."""
        await trio.lowlevel.checkpoint()
        self._require_free(record.holder.uid)
        self.stored[record.holder.uid] = record
        self._hold(record)

    async def delete(self, uid: str) -> None:
        """Forget it."""
        await trio.lowlevel.checkpoint()
        self._require_free(uid)
        self.stored.pop(uid, None)
        self._records.pop(uid, None)
        self._notify()

    def _require_free(self, uid: str) -> None:
        if uid in self.stuck:
            raise HostError(uid, "is a folder")


class Kubelet:
    """Lists what the test says.

    Attributes:
        asked: When it was asked.
    """

    def __init__(self) -> None:
        self.listed: tuple[Usage, ...] = ()
        self.fault: BerthError | None = None
        self.young_s = 1000.0
        self.takes_s = 0.0
        self.asked: list[float] = []

    async def list_pods(self) -> PodUsages:
        """Answer."""
        await trio.lowlevel.checkpoint()
        self.asked.append(trio.current_time())
        await trio.sleep(self.takes_s)
        if self.fault is not None:
            raise self.fault
        return PodUsages(usages=self.listed)

    def socket(self) -> SocketId:
        """It is as old as the test says."""
        return SocketId(device=1, inode=1, made_ns=int((NOW_S - self.young_s) * 1e9))


class Office:
    """A node's door with its books."""

    def __init__(self, stored: dict[str, Given] | None = None) -> None:
        self.kubelet = Kubelet()
        self.ledger = Ledger()
        self.given = MemoryShelf(stored if stored is not None else {})
        self.inventory: Latest[Inventory] = Latest(Inventory())
        self.live: set[str] = set()
        numbers = itertools.count(1)
        self.allotments = Allotments(
            self.given,
            ledger=self.ledger,
            inventory=self.inventory,
            files=Named(),
            boot_id=BOOT,
            new_uid=lambda: f"g{next(numbers)}",
        )
        self.books = Bookkeeping(
            self.allotments,
            given=self.given,
            ledger=self.ledger,
            inventory=self.inventory,
            lister=self.kubelet,
            is_live=lambda given: given.holder.uid in self.live,
            boot_id=BOOT,
            new_uid=lambda: f"r{next(numbers)}",
            clock=lambda: NOW_S,
        )

    async def open(self, nursery: trio.Nursery) -> None:
        """Begin."""
        await self.allotments.load()
        peripherals = equip((modem(0), modem(1)), (), self.given.all())
        self.inventory.set(Inventory(peripherals=peripherals))
        await nursery.start(self.allotments.run)
        await nursery.start(self.books.run)
        await wait_all_tasks_blocked()

    @property
    def held(self) -> dict[str, str]:
        """Devices and who has them."""
        return {hold.device: str(hold.holder).partition(",")[0] for hold in self.ledger.holds()}


@pytest.fixture
def office() -> Office:
    """One that was not opened yet."""
    return Office()


async def test_nothing_given_asks_once(
    office: Office, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """At the start, since a record may have been lost; then kubelet is left in peace."""

    await office.open(nursery)
    await trio.sleep(3600)

    assert len(office.kubelet.asked) == 1


async def test_pod_is_named_after_a_second_and_freed_after_its_end(
    office: Office, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Within thirty seconds of its end, and not before two lists say so."""

    await office.open(nursery)
    await office.allotments.allocate(RESOURCE, ("modem-0",))
    office.kubelet.listed = (usage("modem-0"),)
    await trio.sleep(1.5)
    assert office.held == {"modem-0": "pod team/user"}

    await trio.sleep(100)
    office.kubelet.listed = ()
    ended = trio.current_time()
    while office.held:
        await office.ledger.releases.wait_changed(office.ledger.releases.version)
    assert 10 <= trio.current_time() - ended <= 30
    assert office.given.all() == ()


async def test_what_is_given_while_kubelet_answers_is_asked_about_soon(
    office: Office, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Its answer may be older; the next one does not wait for its turn."""

    office.kubelet.takes_s = 3.0
    await office.open(nursery)
    await trio.sleep(1)
    await office.allotments.allocate(RESOURCE, ("modem-0",))
    await trio.sleep(4)

    assert office.kubelet.asked == [0.0, 4.0]


async def test_end_told_by_the_runtime_is_asked_about_soon(
    office: Office, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """A second later, not at the next turn."""

    await office.open(nursery)
    await office.allotments.allocate(RESOURCE, ("modem-0",))
    await trio.sleep(5)
    before = len(office.kubelet.asked)

    office.books.look_again()
    await trio.sleep(1.1)

    assert len(office.kubelet.asked) == before + 1


async def test_living_container_keeps_what_the_list_forgot(
    office: Office, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """A pod deleted by force leaves the list while its container still runs."""

    await office.open(nursery)
    await office.allotments.allocate(RESOURCE, ("modem-0",))
    office.live = {"g1"}
    await trio.sleep(300)
    assert office.held.keys() == {"modem-0"}

    office.live = set()
    await trio.sleep(11)
    assert office.held == {}


async def test_failed_lists_free_nothing(
    office: Office, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Kubelet that is away proves nothing, and is not asked without a pause."""

    await office.open(nursery)
    await office.allotments.allocate(RESOURCE, ("modem-0",))
    office.kubelet.fault = HostError("kubelet", "is not there")
    await trio.sleep(600)

    assert office.held.keys() == {"modem-0"}
    assert 55 <= len(office.kubelet.asked) <= 75


async def test_young_kubelet_frees_nothing(
    office: Office, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Its lists may be empty before it has read its pods."""

    await office.open(nursery)
    office.kubelet.young_s = 1.0
    await office.allotments.allocate(RESOURCE, ("modem-0",))
    await trio.sleep(120)
    assert office.held.keys() == {"modem-0"}

    office.kubelet.young_s = 61.0
    await trio.sleep(11)
    assert office.held == {}


async def test_lost_record_is_rebuilt_from_the_list(
    office: Office, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """What kubelet shows counts as held; ids that nobody knows are left alone."""

    office.kubelet.listed = (usage("modem-1", "gone"),)
    await office.open(nursery)

    assert office.held == {"modem-1": "pod team/user"}
    (one,) = office.given.all()
    assert (one.bound, one.holder.container) == (True, USER)


async def test_lost_record_on_a_full_disk_is_one_holder(
    office: Office, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """However often kubelet shows it; and it is free when kubelet shows it no more."""

    office.kubelet.listed = (usage("modem-1"),)
    office.given.stuck = {f"r{number}" for number in range(1, 100)}
    await office.open(nursery)
    await trio.sleep(100)
    assert len(office.ledger.holds()) == 1

    office.kubelet.listed = ()
    office.given.stuck = set()
    await trio.sleep(60)
    assert office.held == {}


async def test_lost_record_of_a_device_that_comes_later_is_rebuilt(
    office: Office, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """A GPU may be seen minutes after the start; until kubelet was asked of it nobody knows."""

    office.kubelet.listed = (usage("modem-7"),)
    await office.open(nursery)
    await trio.sleep(3600)
    assert office.held == {}

    office.inventory.set(Inventory(peripherals=(modem(0), modem(1), modem(7))))
    await trio.sleep(2)

    assert office.held == {"modem-7": "pod team/user"}


async def test_record_that_cannot_be_written_keeps_no_other(
    office: Office, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """A folder may lie where one file should; the rest is freed as ever."""

    await office.open(nursery)
    for device in ("modem-0", "modem-1"):
        await office.allotments.allocate(RESOURCE, (device,))
    office.given.stuck = {"g1"}
    await trio.sleep(60)

    assert office.held.keys() == {"modem-0"}
    office.given.stuck = set()
    await trio.sleep(30)
    assert office.held == {}


async def test_holder_that_was_replaced_is_remembered_no_more(
    office: Office, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """A node gives the same few devices for years."""

    await office.open(nursery)
    office.kubelet.listed = (usage("modem-0"),)
    for _ in range(20):
        await office.allotments.allocate(RESOURCE, ("modem-0",))
        await trio.sleep(12)

    assert len(office.books._known_since) == 1


async def test_two_holders_are_told_and_both_stand(
    office: Office,
    nursery: trio.Nursery,
    autojump_clock: MockClock,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Nobody is killed, and when one ends the device is still the other's."""

    claim = ClaimRef(namespace="team", name="net", uid="uid-of-net")
    office.ledger.take([Hold(key=modem(0).keys[0], device="modem-0", holder=claim)])
    office.kubelet.listed = (usage("modem-0"),)
    await office.open(nursery)

    assert len(office.ledger.holds()) == 2
    office.ledger.release(claim.uid)
    assert office.held == {"modem-0": "pod team/user"}


async def test_list_that_shows_it_every_other_time_frees_nothing(
    office: Office, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Two lists without it must follow each other."""

    await office.open(nursery)
    await office.allotments.allocate(RESOURCE, ("modem-0",))
    for turn in range(200):
        office.kubelet.listed = (usage("modem-0"),) if turn % 2 else ()
        await trio.sleep(10)
        assert office.held.keys() == {"modem-0"}


async def test_list_that_shows_one_id_in_several_places_makes_no_second_holder(
    office: Office, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Whichever comes first has it, in whatever order they come."""

    other = attrs.evolve(USER, pod="other")
    both = [usage("modem-0"), usage("modem-0", container=other), usage("modem-0", "modem-0")]
    await office.open(nursery)
    await office.allotments.allocate(RESOURCE, ("modem-0",))
    for turn in range(20):
        office.kubelet.listed = tuple(both[turn % 3 :] + both[: turn % 3])
        await trio.sleep(10)
        assert len(office.given.all()) == len(office.ledger.holds()) == 1

    assert office.held["modem-0"] in {"pod team/user", "pod team/other"}


async def test_list_of_what_nobody_knows_holds_nothing(
    office: Office, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Thousands of ids, names of no form, ids of another resource; the rest is done as ever."""

    strange = attrs.evolve(USER, namespace="../\n", pod="\0" * 300, container="")
    wild = usage(*(f"modem-{number}" for number in range(9, 9999)), container=strange)
    office.kubelet.listed = (wild, usage("", "../modem-0"), usage("modem-1", resource="a.dev/b"))
    await office.open(nursery)
    await office.allotments.allocate(RESOURCE, ("modem-0",))
    office.kubelet.listed = (*office.kubelet.listed, usage("modem-0"))
    await trio.sleep(60)

    assert office.held == {"modem-0": "pod team/user"}
    office.kubelet.listed = office.kubelet.listed[:-1]
    await trio.sleep(30)
    assert office.held == {}


async def test_restart_goes_on_with_what_is_on_disk(
    office: Office, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """The time before the restart counts for nothing."""

    async with trio.open_nursery() as first:
        await office.open(first)
        await office.allotments.allocate(RESOURCE, ("modem-0",))
        await trio.sleep(15)
        first.cancel_scope.cancel()

    after = Office(office.given.stored)
    await after.open(nursery)
    await trio.sleep(15)
    assert after.held.keys() == {"modem-0"}
    await trio.sleep(15)
    assert after.held == {}
