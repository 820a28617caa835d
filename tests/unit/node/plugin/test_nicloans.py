"""What is done with NICs before and after the device plugin gives them."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path

import attrs
import pytest
import trio

from berth.config.doors import Door
from berth.config.match import NicMatch
from berth.config.nicgroup import Attach, NicGroup
from berth.errors import BerthError, ClaimError, Faults, HostError
from berth.model import peripheral
from berth.model.device import NicMode
from berth.model.inventory import Inventory
from berth.model.peripheral import ABSENT, PciInfo, Peripheral
from berth.nic.listing import KIND
from berth.nic.record import Stage
from berth.node.holders.nicholders import nics_of
from berth.node.ledger import Ledger
from berth.node.plugin.allotments import Allotments, given_shelf
from berth.node.plugin.deviceinfofiles import DeviceInfoFiles
from berth.node.plugin.nicloans import NicLoans
from berth.node.records.given import Given
from berth.runtime.latest import Latest
from tests.unit.node.hands import ORIGINALS
from tests.unit.node.machine import BOOT, FAST, OTHER, Eyes, identity_of, look
from tests.unit.node.plugin.test_allotments import Named

RESOURCE = "lab.example/fast"
GROUP = NicGroup(name="fast", match=NicMatch(vendor=("15b3",)), door=Door.PLUGIN)


def listing(name: str = FAST) -> Peripheral:
    """A NIC at the plugin's door."""
    address = identity_of(name).removeprefix("pci:")
    return Peripheral(
        identity=identity_of(name),
        name=name,
        kind=KIND,
        type="nic",
        group="fast",
        keys=(identity_of(name),),
        door=peripheral.Door.PLUGIN,
        resource=RESOURCE,
        ids=(address,),
        guarded=True,
        info=PciInfo(address=address, sections={"generic": {"deviceID": address}}),
    )


class Hands:
    """Whoever moves NICs: does it by word.

    Attributes:
        stuck: Whether NICs do not come home.
        fault: What making ready ends with.
        back: Who was brought home, and which NICs.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.stuck = False
        self.fault: BerthError | None = None
        self.back: list[tuple[str, tuple[str, ...] | None]] = []

    async def stage(self, record: Given, homes: Sequence[int]) -> Given:
        """Say that originals are read, and that all is ready."""
        for index, nic in nics_of(record):
            assert homes[index] > 0 or nic.originals is not None
            known = attrs.evolve(nic, originals=nic.originals or ORIGINALS)
            record = record.with_nic(index, known)
        await self._desk.given.put(record)
        if self.fault is not None:
            raise self.fault
        for index, nic in nics_of(record):
            if nic.stage is not Stage.LENT:
                record = record.with_nic(index, attrs.evolve(nic, stage=Stage.STAGED))
        return record

    async def give_back(
        self, uid: str, *, sandbox_id: str = "", only: Collection[str] | None = None
    ) -> bool:
        """Say that they are home."""
        assert not sandbox_id
        self.back.append((uid, None if only is None else tuple(only)))
        given = self._desk.given.get(uid)
        if self.stuck or given is None:
            return False
        for index, nic in nics_of(given):
            if only is None or nic.identity in only:
                given = given.with_nic(index, attrs.evolve(nic, stage=Stage.HOME))
        await self._desk.given.put(given)
        return True


class Desk:
    """The door's side of a node that has NICs."""

    def __init__(self, folder: Path, group: NicGroup) -> None:
        self.folder = folder
        self.ledger = Ledger()
        self.given = given_shelf(folder / "ledger")
        self.eyes = Eyes()
        self.hands = Hands(self)
        self.inventory: Latest[Inventory] = Latest(Inventory())
        self.loans = NicLoans(
            self.given,
            nics=self.hands,
            eyes=self.eyes,
            groups=[group],
            boot_id=BOOT,
            files=DeviceInfoFiles(folder / "dp"),
        )
        numbers = iter(range(1, 100))
        self.allotments = Allotments(
            self.given,
            ledger=self.ledger,
            inventory=self.inventory,
            files=Named(),
            boot_id=BOOT,
            new_uid=lambda: f"uid-{next(numbers)}",
            loans=self.loans,
        )
        self.see(listing(FAST), listing(OTHER))

    def see(self, *listings: Peripheral, home: bool = True) -> None:
        """Let these be what the plugin may give."""
        seen = look() if home else attrs.evolve(look(), homes={})
        inventory = attrs.evolve(seen.inventory, listings=listings)
        self.eyes.show(attrs.evolve(seen, inventory=inventory))
        self.inventory.set(inventory)

    async def give(self, name: str = FAST) -> Given:
        """Give a NIC to a container."""
        await self.allotments.allocate(RESOURCE, listing(name).ids)
        return self.given.all()[-1]

    def files(self) -> list[str]:
        """What CNI plugins may look up."""
        folder = self.folder / "dp"
        return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


@pytest.fixture(name="group")
def _group() -> NicGroup:
    return attrs.evolve(GROUP, attach=Attach.NRI)


@pytest.fixture(name="desk")
async def _desk(tmp_path: Path, group: NicGroup) -> Desk:
    desk = Desk(tmp_path, group)
    await desk.allotments.load()
    return desk


lent = pytest.mark.parametrize("group", [GROUP], ids=["cni"])
"""For a CNI plugin."""


async def test_nic_is_staged_before_kubelet_is_answered(desk: Desk) -> None:
    """As a prepared claim's is; which pod has it is found out later."""

    given = await desk.give()

    (nic,) = given.nics
    assert nic is not None
    assert (nic.stage, nic.originals, nic.config.interface.name) == (Stage.STAGED, ORIGINALS, "")
    assert given.prepared
    assert desk.eyes.looks == 1


@lent
async def test_nic_for_a_cni_plugin_is_only_read(desk: Desk) -> None:
    """How it was is known before anybody changes it."""

    (nic,) = (await desk.give()).nics

    assert nic is not None
    assert (nic.stage, nic.originals) == (Stage.LENT, ORIGINALS)


async def test_container_is_told_of_its_nic(desk: Desk) -> None:
    """In its environment, and CNI plugins by a file that is there before the answer."""

    grant = await desk.allotments.allocate(RESOURCE, listing().ids)

    assert "PCIDEVICE_LAB_EXAMPLE_FAST=0000:41:00.0" in grant.edits.env
    (name,) = desk.files()
    assert name == "lab.example-fast-0000:41:00.0-device.json"
    path = desk.folder / "dp" / name
    assert json.loads(path.read_bytes())["pci"] == {"pci-address": "0000:41:00.0"}
    assert path.stat().st_mode & 0o777 == 0o644


async def test_file_stays_over_a_restart_and_goes_with_the_id(desk: Desk) -> None:
    """A CNI plugin may need it while we are away."""

    given = await desk.give()
    again = Desk(desk.folder, GROUP)
    await again.allotments.load()
    (desk.folder / "dp" / desk.files()[0]).unlink()
    await again.allotments.renew()
    assert len(desk.files()) == 1

    await desk.allotments.free(given)
    assert desk.files() == []
    assert desk.given.all() == ()


@lent
async def test_file_stays_with_an_id_that_somebody_has(desk: Desk) -> None:
    """Of two holders of an id, as a disk that refused may leave them, the end of one is no end."""

    first = await desk.give()
    files = desk.files()
    desk.hands.fault = HostError("ens1", "Device or resource busy")
    with pytest.raises(HostError):
        await desk.give()

    assert [one.uid for one in desk.given.all()] == [first.uid]
    assert files
    assert desk.files() == files


async def test_uplink_is_seen_by_the_look_before_the_answer(desk: Desk) -> None:
    """The list of a moment ago does not count."""

    seen = look()
    inventory = attrs.evolve(seen.inventory, listings=())
    desk.eyes.show(attrs.evolve(seen, inventory=inventory))

    with pytest.raises(ClaimError, match="is not known here"):
        await desk.give()


async def test_machine_that_cannot_be_read_gives_nothing(desk: Desk) -> None:
    """What is not known may be the uplink."""

    desk.eyes.fault = HostError("rtnetlink", "dump interrupted")

    with pytest.raises(HostError):
        await desk.give()
    assert desk.ledger.holds() == ()


async def test_nic_that_cannot_be_made_ready_is_not_given(desk: Desk) -> None:
    """Kubelet is told why, and nothing is left."""

    desk.hands.fault = HostError("nic0", "the driver refused MTU 9000")

    with pytest.raises(HostError, match="MTU 9000"):
        await desk.give()
    assert (desk.ledger.holds(), desk.given.all(), desk.files()) == ((), (), [])


async def test_what_is_not_undone_stays_held_until_it_is(desk: Desk) -> None:
    """A NIC that is changed is given to nobody."""

    desk.hands.fault, desk.hands.stuck = HostError("nic0", "the driver refused"), True
    with pytest.raises(HostError):
        await desk.give()

    (given,) = desk.given.all()
    assert given.revoked
    assert desk.ledger.holds() != ()
    desk.hands.stuck = False
    await desk.allotments.free(given)
    assert desk.ledger.holds() == ()


@pytest.mark.parametrize(
    "group", [attrs.evolve(GROUP, attach=Attach.NRI, defaults={"interface": {"mtu": 70000}})]
)
async def test_defaults_that_cannot_be_done_are_told(desk: Desk) -> None:
    """The pod fails admission with every fault in the words of the group."""

    with pytest.raises(Faults, match="mtu"):
        await desk.give()
    assert desk.given.all() == ()


async def test_nic_comes_home_from_its_last_holder_first(desk: Desk) -> None:
    """Kubelet gives it anew, so nobody has it for kubelet."""

    first = await desk.give()
    second = await desk.give()

    assert desk.hands.back == [(first.uid, (first.devices[0].peripheral.identity,))]
    assert [one.uid for one in desk.given.all()] == [second.uid]
    assert {hold.holder.uid for hold in desk.ledger.holds()} == {second.uid}


async def test_nic_that_does_not_come_home_is_not_given_anew(
    desk: Desk, autojump_clock: trio.testing.MockClock
) -> None:
    """The last holder keeps it."""

    first = await desk.give()
    desk.hands.stuck = True

    with pytest.raises(ClaimError, match="is not home from"):
        await desk.give()
    assert [one.uid for one in desk.given.all()] == [first.uid]
    assert {hold.holder.uid for hold in desk.ledger.holds()} == {first.uid}


@lent
async def test_next_holder_takes_over_how_a_lent_nic_was(desk: Desk) -> None:
    """It may not have been put back yet, and what a pod left is nothing to go back to."""

    first = await desk.give()
    (nic,) = first.nics
    assert nic is not None
    known = attrs.evolve(ORIGINALS, mtu=9000)
    await desk.given.put(first.with_nic(0, attrs.evolve(nic, originals=known)))

    (now,) = (await desk.give()).nics
    assert now is not None
    assert now.originals == known
    assert desk.hands.back == []


async def test_nic_that_is_not_home_stays_held(desk: Desk) -> None:
    """The ledger frees what is restored, and nothing else."""

    given = await desk.give()
    desk.hands.stuck = True
    await desk.allotments.free(given)
    (left,) = desk.given.all()
    assert left.revoked

    desk.hands.stuck = False
    await desk.allotments.free(left)
    assert (desk.given.all(), desk.ledger.holds()) == ((), ())


async def test_answer_that_was_never_sent_is_undone_at_the_next_start(desk: Desk) -> None:
    """The daemon ended while it made the NIC ready."""

    given = await desk.give()
    await desk.given.put(attrs.evolve(given, prepared=False))
    again = Desk(desk.folder, GROUP)
    await again.allotments.load()

    (left,) = again.given.all()
    assert left.revoked


async def test_another_boot_plans_anew(desk: Desk) -> None:
    """Kubelet keeps its books and does not ask again; the link has another number by now."""

    given = await desk.give()
    (nic,) = given.nics
    assert nic is not None
    await desk.given.put(given.with_nic(0, attrs.evolve(nic, stage=Stage.RESERVED, originals=None)))
    await desk.allotments.renew()

    (known,) = desk.given.all()
    (now,) = known.nics
    assert now is not None
    assert (now.stage, now.originals, known.pod_uid) == (Stage.STAGED, ORIGINALS, "")


@lent
async def test_another_boot_reads_anew_how_a_lent_nic_is(desk: Desk) -> None:
    """The host may have been set up in another way; what is not at home cannot be read."""

    given = await desk.give()
    (nic,) = given.nics
    assert nic is not None
    await desk.given.put(given.with_nic(0, attrs.evolve(nic, originals=None)))
    await desk.allotments.renew()
    (known,) = desk.given.all()
    (now,) = known.nics
    assert now is not None
    assert (now.stage, now.originals, known.prepared) == (Stage.LENT, ORIGINALS, True)

    unread = given.with_nic(0, attrs.evolve(nic, originals=None))
    await desk.given.put(unread)
    desk.see(attrs.evolve(listing(), unhealthy=ABSENT), home=False)
    await desk.allotments.renew()
    assert desk.given.all() == (unread,)

    desk.see(listing(), home=False)
    await desk.allotments.renew()
    assert [(one.prepared, one.nics) for one in desk.given.all()] == [(True, (None,))]


async def test_lost_record_is_planned_anew(desk: Desk) -> None:
    """Kubelet shows that a pod has the NIC: its next sandbox shall have it too."""

    given = await desk.give()
    await desk.given.delete(given.uid)
    bare = attrs.evolve(given.devices[0], nic=None)
    await desk.allotments.rebuild(attrs.evolve(given, devices=(bare,), bound=True))
    await desk.allotments.renew()

    (known,) = desk.given.all()
    (now,) = known.nics
    assert now is not None
    assert (now.stage, now.originals) == (Stage.STAGED, ORIGINALS)


async def test_lost_record_that_cannot_be_planned_is_held_and_planned_later(desk: Desk) -> None:
    """The machine cannot be read for a while; kubelet shows the NIC all the time."""

    given = await desk.give()
    await desk.given.delete(given.uid)
    desk.ledger.release(given.uid)
    bare = attrs.evolve(given.devices[0], nic=None)
    desk.eyes.fault = HostError("rtnetlink", "dump interrupted")
    await desk.allotments.rebuild(attrs.evolve(given, devices=(bare,), bound=True))
    assert [hold.holder.uid for hold in desk.ledger.holds()] == [given.uid]

    desk.eyes.fault = None
    await desk.allotments.renew()
    (known,) = desk.given.all()
    assert known.prepared
    assert [now.stage for now in known.nics if now is not None] == [Stage.STAGED]


async def test_plan_that_failed_is_made_again(desk: Desk) -> None:
    """After a boot a driver may come later than the daemon."""

    given = await desk.give()
    (nic,) = given.nics
    assert nic is not None
    unready = attrs.evolve(nic, stage=Stage.HOME)
    await desk.given.put(attrs.evolve(given.with_nic(0, unready), prepared=False))
    await desk.allotments.renew()

    (known,) = desk.given.all()
    assert known.prepared
    assert [now.stage for now in known.nics if now is not None] == [Stage.STAGED]


@lent
async def test_nic_that_was_lent_comes_home_before_berth_moves_it(desk: Desk) -> None:
    """The group was changed meanwhile; what a CNI plugin left is not how it was."""

    first = await desk.give()
    desk.loans.reload([attrs.evolve(GROUP, attach=Attach.NRI)])
    (now,) = (await desk.give()).nics

    assert desk.hands.back == [(first.uid, (first.devices[0].peripheral.identity,))]
    assert now is not None
    assert now.stage is Stage.STAGED


@lent
async def test_lent_nic_that_is_in_its_last_pod_yet_is_given(desk: Desk) -> None:
    """Its CNI plugin brings it; how it was is known from before."""

    first = await desk.give()
    seen = look(without_link=[FAST])
    inventory = attrs.evolve(seen.inventory, listings=(listing(),))
    desk.eyes.show(attrs.evolve(seen, inventory=inventory))
    (now,) = (await desk.give()).nics

    assert now == first.nics[0]


@pytest.mark.parametrize("group", [attrs.evolve(GROUP, mode=NicMode.VFIO)], ids=["vfio"])
async def test_nothing_is_done_to_what_vfio_has(desk: Desk) -> None:
    """It has no link that could be lent; it is told of like others, and free at once."""

    given = await desk.give()
    assert (given.nics, given.prepared, desk.eyes.looks) == ((None,), True, 1)
    assert len(desk.files()) == 1

    await desk.allotments.free(given)
    assert desk.ledger.holds() == ()
    assert (desk.files(), desk.hands.back) == ([], [])
