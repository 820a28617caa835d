"""Claims and allocations of devices that are sick, or of which nobody knows how they are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from berth.errors import ClaimError
from berth.health.taints import Rules
from berth.health.verdict import Verdict
from berth.model.claim import Claim, DeviceResult
from berth.model.device import Exclusion, NicMode
from berth.model.inventory import Inventory
from berth.model.peripheral import ABSENT, VFIO_GPU
from berth.node.claims.admission import Admitted, Unsure, Waiting, admit
from berth.node.ledger import Ledger
from berth.node.plugin.allotments import Allotments, given_shelf
from tests.unit.node.conftest import Node
from tests.unit.node.machine import BOOT, FAST, claim, look, result
from tests.unit.node.peripherals import RESOURCE, modem
from tests.unit.node.plugin.test_allotments import Named
from tests.unit.node.verdicts import DEGRADED, SICK, SILENT, WELL, Judge

MODEM = claim(result("modem-0", "serial"), name="serial")
NET = claim(name="net")
BOTH = claim(result(FAST, "nic"), result("modem-0", "serial"), name="both")
FAULT = "berth.dev/fault"


def tolerating(key: str, wanted: DeviceResult | None = None) -> Claim:
    """A claim whose request tolerates a taint."""
    one = wanted or result("modem-0", "serial")
    return claim(attrs.evolve(one, tolerations=(key,)), name="mender")


@pytest.fixture
def judge(node: Node) -> Judge:
    """Whoever judges the devices of the node; all are well."""
    made = Judge(nic_fast_0=WELL, modem_0=WELL, modem_1=WELL)
    node.reservation._inquiry = made.inquiry()
    node.eyes.show(look(peripherals=[modem(0), modem(1)]))
    return made


@pytest.mark.parametrize(("wanted", "device"), [(MODEM, "modem-0"), (NET, FAST), (BOTH, "modem-0")])
async def test_sick_device_is_refused_at_once(
    node: Node, judge: Judge, wanted: Claim, device: str, autojump_clock: MockClock
) -> None:
    """Nobody knows when it heals: no waiting, no look at it, and nothing is left of the attempt."""

    judge.tell({device: SICK})

    with pytest.raises(ClaimError, match=rf"{device}: is unhealthy \(xid-79\): it fell off"):
        await node.prepare(wanted)
    assert (trio.current_time(), judge.asked, node.traces()) == (0, [], {})


async def test_sick_device_is_given_to_a_claim_that_tolerates_it(node: Node, judge: Judge) -> None:
    """Also where the survey itself finds it unwell: whoever mends it needs it."""

    judge.tell({"modem-0": SICK, FAST: SICK})
    node.eyes.show(look(peripherals=[attrs.evolve(modem(0), unhealthy="lost")]))

    await node.prepare(tolerating(FAULT))
    await node.prepare(attrs.evolve(tolerating("", result(FAST)), ref=NET.ref))


async def test_toleration_makes_no_device_appear(
    node: Node, judge: Judge, autojump_clock: MockClock
) -> None:
    """What is not there cannot be given to anybody."""

    judge.tell({"modem-0": SICK})
    node.eyes.show(look(peripherals=[attrs.evolve(modem(0), unhealthy=ABSENT)]))

    with pytest.raises(ClaimError, match="waited 39 s: modem-0 is not seen on this node"):
        await node.prepare(tolerating(FAULT))


async def test_degraded_device_is_given(node: Node, judge: Judge) -> None:
    """A person should know of it; pods get it."""

    judge.tell({"modem-0": DEGRADED})

    await node.prepare(MODEM)
    assert judge.asked == []


async def test_unknown_device_is_asked_and_its_answer_decides(node: Node, judge: Judge) -> None:
    """A well one goes to its claim, a sick one does not."""

    judge.tell({"modem-0": SILENT, "modem-1": SILENT})
    judge.answers = {"modem-0": WELL, "modem-1": SICK}

    await node.prepare(MODEM)
    with pytest.raises(ClaimError, match="modem-1: is unhealthy"):
        await node.prepare(claim(result("modem-1", "serial"), name="other"))
    assert judge.asked == ["modem-0", "modem-1"]


async def test_unknown_device_that_says_nothing_is_refused_in_two_seconds(
    node: Node, judge: Judge, autojump_clock: MockClock
) -> None:
    """With why nobody could ask it; a claim that tolerates the unknown is not refused."""

    judge.tell({"modem-0": SILENT})

    with pytest.raises(
        ClaimError, match=r"modem-0: is unknown \(cannot-ask\): it cannot be asked: off"
    ):
        await node.prepare(MODEM)
    assert trio.current_time() == pytest.approx(2.0)
    assert node.traces() == {}
    await node.prepare(tolerating("berth.dev/unknown"))


async def test_device_is_asked_only_once_it_could_be_given(
    node: Node, judge: Judge, autojump_clock: MockClock
) -> None:
    """What is refused or waits anyway asks nobody; afterwards the newest machine is judged."""

    judge.tell({FAST: SILENT})
    judge.answers = {FAST: WELL}
    node.eyes.show(look(excluded={FAST: "uplink"}))
    with pytest.raises(ClaimError, match="uplink"):
        await node.prepare(NET)
    assert judge.asked == []

    node.eyes.show(look(excluded={FAST: "link-elsewhere"}))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(node.prepare, NET)
        await wait_all_tasks_blocked()
        assert judge.asked == []
        node.eyes.show(look())
    assert judge.asked == [FAST]


async def test_device_that_falls_ill_ends_the_waiting_for_another(
    node: Node, judge: Judge, autojump_clock: MockClock
) -> None:
    """At once, and not when the time is up."""

    node.eyes.show(look(names=[], peripherals=[modem(0)]))
    refused: list[float] = []

    async def prepare() -> None:
        with pytest.raises(ClaimError, match="modem-0: is unhealthy"):
            await node.prepare(BOTH)
        refused.append(trio.current_time())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(prepare)
        await trio.sleep(7)
        looks = node.eyes.looks
        judge.tell({"modem-1": SICK, FAST: attrs.evolve(WELL, observed_s=9)})
        await wait_all_tasks_blocked()
        assert node.eyes.looks == looks
        judge.tell({"modem-0": SICK})
    assert refused == [7]


async def test_repeat_of_a_prepared_claim_is_not_refused_for_sickness(
    node: Node, judge: Judge
) -> None:
    """Its pod has the device; kubelet asks again after each of its restarts."""

    first = await node.prepare(BOTH)
    judge.tell({"modem-0": SICK, FAST: SILENT})

    assert await node.prepare(BOTH) == first
    await node.claims.unprepare(BOTH.ref)
    assert (judge.asked, node.traces()) == ([], {})


@pytest.mark.parametrize("verdict", [SICK, SILENT])
async def test_whoever_only_looks_is_never_refused_for_health(
    node: Node, judge: Judge, verdict: Verdict
) -> None:
    """That is what monitors are for."""

    judge.tell({"modem-0": verdict, FAST: verdict})
    results = (result("modem-0", "a", admin_access=True), result(FAST, "b", admin_access=True))

    await node.prepare(claim(*results, name="monitor"))
    assert judge.asked == []


def test_functions_of_machines_cannot_be_looked_at() -> None:
    """Whoever opens one has all of it; NICs and GPUs alike, in whatever state they are."""

    gpu = attrs.evolve(
        modem(0), type=VFIO_GPU, exclusion=Exclusion(reason="not-connected"), unhealthy="lost"
    )
    seen = look(peripherals=[gpu])
    nic = attrs.evolve(seen.inventory.nic_by_name[FAST], mode=NicMode.VFIO)
    seen = attrs.evolve(seen, inventory=attrs.evolve(seen.inventory, nics=(nic,)))

    for device in ("modem-0", FAST):
        wanted = claim(result(device, admin_access=True))
        with pytest.raises(ClaimError, match=f"{device}: is asked for with adminAccess: a device"):
            admit(wanted, seen, Ledger())


def test_nobody_judges_where_nobody_is_asked() -> None:
    """Without a judge a claim is admitted by what is there."""

    inquiry = Judge().inquiry()

    assert isinstance(admit(NET, look(), Ledger()), Admitted)
    unsure = admit(NET, look(), Ledger(), fitness=inquiry.fitness())
    assert unsure == Unsure(names=(FAST,))
    assert unsure.reason == f"nobody has asked yet how {FAST} is"
    gone = admit(NET, look(names=[]), Ledger(), fitness=inquiry.fitness())
    assert isinstance(gone, Waiting)
    assert gone.reason == f"{FAST} is not seen on this node"


@pytest.fixture
async def door(node: Node, judge: Judge, tmp_path: Path, nursery: trio.Nursery) -> Allotments:
    """The plugin's side of the node, listing."""
    made = Allotments(
        given_shelf(tmp_path / "ledger"),
        ledger=node.ledger,
        inventory=node.eyes.inventory,
        files=Named(),
        boot_id=BOOT,
        inquiry=judge.inquiry(),
    )
    await made.load()
    await nursery.start(made.run)
    await wait_all_tasks_blocked()
    return made


def healthy(door: Allotments) -> Mapping[str, bool]:
    """What is listed."""
    return {unit.id: unit.healthy for one in door.resources.get() for unit in one.units}


async def test_lists_follow_verdicts_without_a_look(
    node: Node, judge: Judge, door: Allotments
) -> None:
    """Only a change of what is listed makes a new list."""

    assert healthy(door) == {"modem-0": True, "modem-1": True}
    looks, version = node.eyes.looks, door.resources.version
    judge.tell({"modem-0": DEGRADED, "modem-1": SILENT})
    judge.tell({"modem-0": attrs.evolve(WELL, observed_s=5)})
    await wait_all_tasks_blocked()
    assert door.resources.version == version

    judge.tell({"modem-0": SICK})
    await wait_all_tasks_blocked()
    assert healthy(door) == {"modem-0": False, "modem-1": True}
    assert (node.eyes.looks, door.resources.version) == (looks, version + 1)

    node.eyes.show(look(peripherals=[modem(0)]))
    await wait_all_tasks_blocked()
    assert healthy(door) == {"modem-0": False}
    judge.tell({"modem-0": WELL})
    await wait_all_tasks_blocked()
    assert healthy(door) == {"modem-0": True}


async def test_unknown_is_listed_as_unhealthy_where_it_schedules_nothing(
    node: Node, tmp_path: Path, nursery: trio.Nursery
) -> None:
    """As its taint, so its place in the list."""

    judge = Judge(modem_0=SILENT, modem_1=DEGRADED)
    node.eyes.show(look(peripherals=[modem(0), modem(1)]))
    strict = Rules(driver="berth.dev", unknown_effect="NoSchedule")
    door = Allotments(
        given_shelf(tmp_path / "ledger"),
        ledger=node.ledger,
        inventory=node.eyes.inventory,
        files=Named(),
        boot_id=BOOT,
        inquiry=judge.inquiry(strict),
    )
    await nursery.start(door.run)

    assert healthy(door) == {"modem-0": False, "modem-1": True}


async def test_allocation_of_a_sick_device_is_refused(judge: Judge, door: Allotments) -> None:
    """Kubelet may have decided a moment before it read the list; nothing is given of the rest."""

    judge.tell({"modem-1": SICK})

    with pytest.raises(ClaimError, match=r"modem-1: is unhealthy \(xid-79\)"):
        await door.allocate(RESOURCE, ("modem-0", "modem-1"))
    await door.allocate(RESOURCE, ("modem-0",))


async def test_allocation_asks_a_device_of_which_nobody_knows(
    node: Node, judge: Judge, door: Allotments, autojump_clock: MockClock
) -> None:
    """Two seconds at most: kubelet admits no other pod meanwhile."""

    judge.tell({"modem-0": SILENT, "modem-1": SILENT})
    judge.answers = {"modem-0": WELL}
    before = trio.current_time()

    await door.allocate(RESOURCE, ("modem-0",))
    with pytest.raises(ClaimError, match=r"modem-1: is unknown \(cannot-ask\)"):
        await door.allocate(RESOURCE, ("modem-1",))
    assert trio.current_time() - before == pytest.approx(2.0)
    assert [hold.device for hold in node.ledger.holds()] == ["modem-0"]


async def test_nic_is_listed_by_the_verdict_on_its_slice_name(
    node: Node, judge: Judge, door: Allotments
) -> None:
    """What the device plugin hands out of a NIC is the NIC."""

    listing = attrs.evolve(modem(0), name=FAST, kind="nic", type="nic")
    node.eyes.inventory.set(Inventory(listings=(listing,)))
    judge.tell({FAST: SICK})
    await wait_all_tasks_blocked()

    assert healthy(door) == {"modem-0": False}
    with pytest.raises(ClaimError, match=f"{FAST}: is unhealthy"):
        await door.allocate(RESOURCE, ("modem-0",))
