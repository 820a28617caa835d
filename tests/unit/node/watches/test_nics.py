"""NICs are looked at in turn, at once when something happens, and where their records say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, TypeVar

import attrs
import pytest
import trio
from trio.testing import MockClock

from berth.config.health import CarrierSeverity, NicHealth
from berth.config.nic import NicTable
from berth.errors import HostError
from berth.health.finding import Finding, Severity
from berth.health.terms import Terms
from berth.host.netlink.events import Changed, Event, Overflow, Removed
from berth.host.pcihealth import PciHealth
from berth.model.device import Nic, NicKind
from berth.model.inventory import Inventory
from berth.nic.health.link import ATTACH_S, CARRIER_S, FLAPS
from berth.nic.health.post import Place, Post
from berth.nic.health.sight import LinkSight
from berth.nic.record import SandboxRef, Stage
from berth.node.records.record import ClaimRecord
from berth.node.records.records import Records
from berth.node.watches.nics import LINK, MOVE_S, PCI, SETTLE_S, SPACING_S, NicWatch
from berth.runtime.latest import Latest
from tests.sysfs_tree import SysfsTree
from tests.unit.nic.links import SANDBOX, address_of, link_of
from tests.unit.nic.machine import group
from tests.unit.node.holds import held, record
from tests.unit.node.reported import Reported

T = TypeVar("T")

TERMS: Final = Terms(interval_s=15, deadline_s=2, timeout_s=60)
PF: Final = "0000:41:00.0"
NIC: Final = f"pci:{PF}"
NAME: Final = "nic-0000-41-00-0"
FAST: Final = group("fast", vendor=("15b3",))
UP: Final = link_of("net1", index=5, carrier=True, operstate="up")
CUT: Final = attrs.evolve(UP, carrier=False, operstate="lowerlayerdown")
FREE: Final = Nic(
    identity=NIC, name=NAME, kind=NicKind.PCI, group="fast", ifname="ens1f0", ifindex=5, pci=PF
)


class World:
    """What the watch sees and hears.

    Attributes:
        sight: What a look at a link gives.
        looks: Moment and post of each look.
        during: Called in the middle of a look.
        hangs: NICs whose looks do not come back.
        deaf: Whether nothing comes back that is asked aside.
        hung: How often something did not come back.
        refuses: What the kernel says instead of an answer.
    """

    def __init__(self, folder: Path) -> None:
        self.tree = SysfsTree(folder / "sys")
        self.tree.function(PF)
        self.reports = Reported()
        self.inventory = Latest(Inventory(nics=(FREE,)))
        self.records = Records(folder / "claims")
        self.sight = LinkSight(link=UP)
        self.looks: list[tuple[float, Post]] = []
        self.during: Callable[[], None] = lambda: None
        self.hangs: frozenset[str] = frozenset()
        self.deaf = False
        self.hung = 0
        self.refuses: HostError | None = None
        self.formers: list[SandboxRef | None] = []
        self._heard: Callable[[Iterable[Event]], None] = lambda _: None
        self.watch = NicWatch(
            self.reports,
            inventory=self.inventory,
            records=self.records,
            table=NicTable(groups=(FAST,)),
            terms=lambda _: TERMS,
            functions=PciHealth(self.tree.root),
            look=self.look,
            aside=self.aside,
            ask=self.ask,
            hear=self.hear,
        )

    def look(
        self,
        post: Post,
        *,
        former: SandboxRef | None,
        physfn: Callable[[str], str],  # noqa: ARG002 - as `visit` is called
        pfs: Mapping[str, int],  # noqa: ARG002 - the same
    ) -> LinkSight:
        """Look, as the test says."""
        self.looks.append((trio.current_time(), post))
        self.formers.append(former)
        if self.refuses is not None:
            raise self.refuses
        self.during()
        return self.sight

    def ask(self) -> None:
        """Ask the kernel, which answers unless it is deaf."""

    async def aside(self, work: Callable[[], T], /) -> T:
        """Do at once what blocks, unless it hangs."""
        await trio.lowlevel.checkpoint()
        if self.deaf or any(identity in repr(work) for identity in self.hangs):
            self.hung += 1
            await trio.sleep_forever()
        return work()

    async def hear(self, wanted: trio.Event, heard: Callable[[Iterable[Event]], None], /) -> None:
        """Hear what the test tells."""
        await wanted.wait()
        self._heard = heard

    def tell(self, *events: Event) -> None:
        """Something happens."""
        self._heard(events)

    def hold(self, stage: Stage, **more: object) -> None:
        """A claim has the NIC."""
        device = held(NIC, NAME, stage=stage, driver="mlx5_core")
        assert device.nic is not None
        nic = attrs.evolve(device.nic, sandbox=SANDBOX, pod_index=5, **more)  # type: ignore[arg-type] # fields of a record, as they came
        self.put(record("c", attrs.evolve(device, nic=nic)))

    def put(self, one: ClaimRecord) -> None:
        """Have it in memory, as the disk took it."""
        self.records._hold(one)

    def codes(self, source: str = LINK, identity: str = NIC) -> list[str]:
        """What stands against the NIC."""
        return [each.code for each in self.reports.standing(identity, source)]

    @property
    def times(self) -> list[float]:
        """When links were looked at."""
        return [at_s for at_s, _ in self.looks]


@pytest.fixture(name="world")
def _world(tmp_path: Path) -> World:
    """A machine with one free NIC."""
    return World(tmp_path)


@pytest.fixture(name="run")
async def _run(world: World, nursery: trio.Nursery, autojump_clock: MockClock) -> World:
    """The same, watched."""
    await nursery.start(world.watch.run)
    await trio.sleep(0.1)
    world.looks.clear()
    world.reports.told.clear()
    return world


async def test_links_and_functions_are_asked_in_turn(
    world: World, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Both answer for the NIC, by its own times."""

    await nursery.start(world.watch.run)
    await trio.sleep(31)

    assert world.times == [0, 15, 30]
    assert [(told.codes, told.asked) for told in world.reports.of(NIC)] == [((), True)] * 6
    assert world.codes(LINK) == world.codes(PCI) == []


async def test_an_event_is_a_reason_to_look_at_once(run: World, autojump_clock: MockClock) -> None:
    """Only of what it speaks of, at home or in a pod; lost ones may have told anything."""

    other = link_of(index=99)
    run.tell(Changed(value=other), Changed(value=CUT, nsid=3), Changed(value=address_of("::1/128")))
    await trio.sleep(1)
    assert run.looks == []
    address = attrs.evolve(address_of("192.0.2.5/24"), index=5)
    for event in (Changed(value=CUT), Removed(value=UP), Removed(value=address), Overflow()):
        at_s = trio.current_time()
        run.tell(event)
        await trio.sleep(1)
        assert run.times.pop() == pytest.approx(at_s + SETTLE_S)
        assert run.times[:-1] == []
        run.looks.clear()


async def test_a_storm_of_events_is_few_looks(run: World, autojump_clock: MockClock) -> None:
    """A cable that comes and goes a hundred times a second keeps nobody busy."""

    for _ in range(500):
        run.tell(Changed(value=CUT))
        await trio.sleep(0.01)

    assert len(run.looks) <= 2 + 5 / SPACING_S


async def test_a_pod_is_heard_by_its_own_number(run: World, autojump_clock: MockClock) -> None:
    """Two links of two namespaces may have one index."""

    run.sight = LinkSight(link=UP, nsid=7)
    run.hold(Stage.ATTACHED)
    await trio.sleep(1)
    assert [post.place for _, post in run.looks] == [Place.POD]
    run.tell(Changed(value=UP))
    await trio.sleep(1)
    assert len(run.looks) == 1
    run.tell(Changed(value=UP, nsid=7))
    await trio.sleep(1)
    assert len(run.looks) == 2


async def test_a_lost_carrier_is_told_when_its_time_has_come(
    run: World, autojump_clock: MockClock
) -> None:
    """Five seconds after the event, without another one."""

    run.sight = LinkSight(link=UP, nsid=7)
    run.hold(Stage.ATTACHED)
    await trio.sleep(ATTACH_S + 1)
    run.sight = LinkSight(link=CUT, nsid=7)
    at_s = trio.current_time()
    run.tell(Changed(value=CUT, nsid=7))
    await trio.sleep(20)

    first = next(told for told in run.reports.of(NIC) if "no-carrier" in told.codes)
    assert first.at_s == pytest.approx(at_s + SETTLE_S + CARRIER_S)


async def test_a_nic_on_its_way_is_waited_for(run: World, autojump_clock: MockClock) -> None:
    """Nothing new is said of it before it is there; only a move without end leaves it unknown."""

    run.hold(Stage.ATTACHING)
    await trio.sleep(0.2)
    run.hold(Stage.ATTACHED)
    await trio.sleep(0.2)
    assert {post.place for _, post in run.looks} == {Place.POD}
    run.looks.clear()
    run.hold(Stage.RETURNING)
    await trio.sleep(MOVE_S)
    assert {told.codes for told in run.reports.of(NIC)} == {()}
    await trio.sleep(20)
    assert ("unasked",) in {told.codes for told in run.reports.of(NIC)}
    assert run.looks == []


async def test_a_nic_on_its_way_that_was_never_seen_is_unknown(
    world: World, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Nothing was found yet that could hold."""

    world.hold(Stage.RETURNING)
    await nursery.start(world.watch.run)
    await trio.sleep(3)

    assert [told.codes for told in world.reports.of(NIC) if not told.asked] == [("unasked",)]


async def test_a_nic_that_moves_during_a_look_is_looked_for_again(
    run: World, autojump_clock: MockClock
) -> None:
    """Its link is not missing: it went where its record said before."""

    run.sight = LinkSight(link=UP, nsid=7)
    run.hold(Stage.ATTACHED)
    await trio.sleep(1)
    run.sight = LinkSight()

    def home() -> None:
        run.during = lambda: None
        run.hold(Stage.HOME)
        run.sight = LinkSight(link=UP)

    run.during = home
    run.tell(Removed(value=UP, nsid=7))
    await trio.sleep(1)

    assert all("missing" not in told.codes for told in run.reports.told)
    assert run.looks[-1][1].place is Place.STAGED
    assert run.formers[-1] == SANDBOX


async def test_what_is_removed_from_a_pod_is_told_at_once(
    run: World, autojump_clock: MockClock
) -> None:
    """The link of a peer that was deleted."""

    run.sight = LinkSight(link=UP, nsid=7)
    run.hold(Stage.ATTACHED)
    await trio.sleep(1)
    run.sight = LinkSight(nsid=7)
    run.tell(Removed(value=UP, nsid=7))
    await trio.sleep(0.1)

    assert run.codes() == ["missing"]


async def test_functions_are_looked_at_when_the_inventory_changes(
    run: World, autojump_clock: MockClock
) -> None:
    """As it does when a driver goes."""

    folder = run.tree.folder(PF)
    (folder / "driver").unlink()
    run.inventory.set(Inventory(nics=(attrs.evolve(FREE, driver="", ifindex=0),)))
    await trio.sleep(0.1)

    assert run.codes(PCI) == ["no-driver"]


async def test_one_look_that_hangs_is_told_and_keeps_no_other_waiting(
    run: World, autojump_clock: MockClock
) -> None:
    """The others are asked beside it, and it is not asked a second time."""

    other = attrs.evolve(FREE, identity="link:boot:9", name="nic-v0", ifindex=9, pci="")
    run.inventory.set(Inventory(nics=(FREE, other)))
    await trio.sleep(1)
    run.looks.clear()
    run.hangs = frozenset({NIC})
    await trio.sleep(60)

    assert run.codes(LINK) == ["no-answer"]
    assert {told.codes for told in run.reports.of(other.identity)} == {()}
    assert [post.identity for _, post in run.looks] == [other.identity] * 3
    assert run.hung == 1


async def test_a_kernel_that_answers_nobody_is_no_nics_fault(
    run: World, autojump_clock: MockClock
) -> None:
    """Whoever holds its lock holds up all looks at links; it is asked by one thread."""

    run.deaf = True
    await trio.sleep(60)

    links = [told for told in run.reports.of(NIC) if told.codes == ("unasked",)]
    assert len(links) == 4
    assert all("tables do not answer" in told.message for told in links)
    assert run.codes(LINK) == []
    assert run.looks == []
    assert run.hung == 2


async def test_what_the_kernel_refuses_is_not_the_nics_fault(
    run: World, autojump_clock: MockClock
) -> None:
    """Nobody could ask."""

    run.refuses = HostError("host", "too many open files")
    await trio.sleep(16)

    assert run.reports.of(NIC)[-1].codes in {("unasked",), ()}
    assert any("too many open files" in told.message for told in run.reports.of(NIC))


async def test_a_nic_that_is_gone_is_forgotten(run: World, autojump_clock: MockClock) -> None:
    """And nothing stands against it any more."""

    run.inventory.set(Inventory())
    await trio.sleep(20)

    assert [told.codes for told in run.reports.of(NIC)] == [("retired",)] * 2
    assert run.looks == []


async def test_a_restart_takes_up_what_was_told(
    world: World, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """A lost carrier waits for nothing again."""

    stands = Finding(code="no-carrier", severity=Severity.DEGRADED, message="told")
    world.reports.findings[NIC, LINK] = (stands,)
    world.sight = LinkSight(link=CUT, nsid=7)
    world.hold(Stage.ATTACHED)
    await nursery.start(world.watch.run)
    await trio.sleep(0.1)

    assert world.codes() == ["no-carrier"]


async def test_another_word_of_the_group_counts_at_once(
    run: World, autojump_clock: MockClock
) -> None:
    """With the settings that were read anew."""

    run.sight = LinkSight(link=CUT, nsid=7)
    run.hold(Stage.ATTACHED)
    await trio.sleep(ATTACH_S + 1)
    (before,) = run.reports.standing(NIC, LINK)
    health = NicHealth(carrier=CarrierSeverity.FAULT)
    table = NicTable(groups=(attrs.evolve(FAST, health=health),))
    run.watch.reload(table)
    await trio.sleep(0.1)
    (after,) = run.reports.standing(NIC, LINK)

    assert (before.severity, after.severity) == (Severity.DEGRADED, Severity.FAULT)


async def test_whoever_needs_to_know_now_is_answered(run: World, autojump_clock: MockClock) -> None:
    """By both sources; of what is not watched there is nothing to wait for."""

    await run.watch.probe_now(NIC)
    assert len(run.looks) == 1
    assert len(run.reports.of(NIC)) == 2
    await run.watch.probe_now("pci:0000:99:00.0")


async def test_what_another_life_found_is_void_where_no_group_takes_the_nic(
    world: World, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Nobody looks at it, so nobody would see it heal."""

    sick = Finding(code="no-carrier", severity=Severity.FAULT, message="-")
    for source in (LINK, PCI):
        world.reports.report(NIC, source, [sick])
    world.inventory.set(Inventory(nics=(attrs.evolve(FREE, group=""),)))

    await nursery.start(world.watch.run)
    await trio.sleep(1)

    assert world.looks == []
    assert world.codes(LINK) == world.codes(PCI) == []


@pytest.mark.parametrize("source", [LINK, PCI])
async def test_what_a_person_has_cleared_is_not_remembered(
    run: World, autojump_clock: MockClock, source: str
) -> None:
    """Neither that carrier came and went, nor an error that lies behind; another one counts."""

    def have_trouble(count: int) -> None:
        link_ = attrs.evolve(UP, carrier_down_count=UP.carrier_down_count + count * FLAPS)
        run.sight = LinkSight(link=link_)
        run.tree.errors(PF, fatal=f"TOTAL_ERR_FATAL {count}\n", nonfatal="")

    code = {LINK: "flapping", PCI: "aer-fatal"}[source]
    have_trouble(0)
    await trio.sleep(16)
    have_trouble(1)
    await trio.sleep(16)
    assert run.codes(source) == [code]

    run.reports.findings[NIC, source] = ()
    await trio.sleep(61)

    assert run.codes(source) == []
    have_trouble(2)
    await trio.sleep(16)
    assert run.codes(source) == [code]


async def test_nic_on_its_way_does_not_tell_again_what_was_cleared(
    run: World, autojump_clock: MockClock
) -> None:
    """What was found last holds meanwhile, less what a person knows better."""

    run.sight = LinkSight(link=attrs.evolve(UP, carrier_down_count=FLAPS))
    await trio.sleep(31)
    assert run.codes() == ["flapping"]
    run.reports.findings[NIC, LINK] = ()
    run.hold(Stage.ATTACHING)

    await trio.sleep(10)

    assert run.codes() == []
