"""What the device plugin lists and gives, against the same ledger as claims."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from berth.errors import ClaimError, HostError
from berth.model.claim import ClaimRef
from berth.model.device import Exclusion
from berth.model.edits import Edits, Hook
from berth.model.inventory import Inventory
from berth.model.peripheral import ABSENT, Peripheral
from berth.model.resource import Unit
from berth.node.holders.equipment import equip
from berth.node.ledger import Hold, Ledger
from berth.node.plugin.allotments import Allotments, given_shelf
from berth.node.records.given import Given
from berth.node.records.shelf import Shelf
from berth.runtime.latest import Latest
from tests.unit.node.machine import BOOT
from tests.unit.node.peripherals import KVM, RESOURCE, given, kvm, modem, renamed

CLAIM = ClaimRef(namespace="team", name="net", uid="uid-of-net")


class Named:
    """CDI files in words: what was written last."""

    def __init__(self) -> None:
        self.written: list[str] = []

    async def write(self, peripherals: Iterable[Peripheral]) -> None:
        """Remember who is in them."""
        await trio.lowlevel.checkpoint()
        self.written = [one.name for one in peripherals if one.is_by_cdi]

    def id(self, one: Peripheral, id_: str) -> str:
        """Name it."""
        return f"berth.dev/plugin-{one.kind}={id_}"


class Desk:
    """The door's side of a node."""

    def __init__(self, path: Path) -> None:
        self.ledger = Ledger()
        self.given: Shelf[Given] = given_shelf(path / "ledger")
        self.inventory: Latest[Inventory] = Latest(Inventory())
        self.files = Named()
        numbers = itertools.count(1)
        self.allotments = Allotments(
            self.given,
            ledger=self.ledger,
            inventory=self.inventory,
            files=self.files,
            boot_id=BOOT,
            new_uid=lambda: f"uid-{next(numbers)}",
        )

    def see(self, *peripherals: Peripheral) -> None:
        """Let these be what the machine has."""
        self.inventory.set(Inventory(peripherals=equip(peripherals, (), self.given.all())))

    def claim(self, one: Peripheral, *, share: str | None = None, slots: int = 1) -> None:
        """Let a claim have a device."""
        hold = Hold(
            key=one.keys[0],
            device=one.name,
            holder=CLAIM,
            share=share,
            slots=slots,
            limit=one.slots,
        )
        assert self.ledger.take([hold]) is None

    def units(self, resource: str = RESOURCE) -> dict[str, Unit]:
        """What is listed now."""
        found = {one.name: one for one in self.allotments.resources.get()}
        return {unit.id: unit for unit in found[resource].units}


@pytest.fixture
async def desk(tmp_path: Path, nursery: trio.Nursery) -> AsyncIterator[Desk]:
    """One with two modems and a shared device."""
    made = Desk(tmp_path)
    await made.allotments.load()
    made.see(modem(0), modem(1), kvm())
    await nursery.start(made.allotments.run)
    yield made
    nursery.cancel_scope.cancel()


async def test_resources_are_listed_by_name(desk: Desk) -> None:
    """Each with its units, their places in the machine, and nothing of the other door."""

    assert [one.name for one in desk.allotments.resources.get()] == [KVM, RESOURCE]
    assert desk.units() == {
        "modem-0": Unit(id="modem-0", device="modem-0", numa=(0,)),
        "modem-1": Unit(id="modem-1", device="modem-1", numa=(1,)),
    }
    desk.see(attrs.evolve(modem(0), pcie_root="pci0000:00", links={"modem-1": 4}), kvm())
    await wait_all_tasks_blocked()
    (unit,) = desk.units().values()
    assert (unit.pcie_root, unit.links) == ("pci0000:00", {"modem-1": 4})
    assert list(desk.units(KVM)) == ["kvm-dev-kvm::0", "kvm-dev-kvm::1", "kvm-dev-kvm::2"]


async def test_resource_that_became_empty_stays(desk: Desk) -> None:
    """Kubelet is told that there are none, not that the resource is unknown."""

    desk.see(kvm())
    await wait_all_tasks_blocked()

    assert desk.units() == {}


async def test_allocation_is_on_disk_and_in_the_ledger_before_the_answer(desk: Desk) -> None:
    """A restart finds it, and gives the device to nobody else."""

    grant = await desk.allotments.allocate(RESOURCE, ("modem-1", "modem-0"))

    assert [node.path for node in grant.edits.nodes] == ["/dev/ttyUSB1", "/dev/ttyUSB0"]
    after = Desk(Path(desk.given._folder.path).parent)
    await after.allotments.load()
    assert after.ledger.holds() == desk.ledger.holds()
    assert {hold.device for hold in after.ledger.holds()} == {"modem-0", "modem-1"}
    assert desk.allotments.requests.get() == 1


async def test_claimed_device_is_refused_by_name(desk: Desk) -> None:
    """This door cannot know of claims, so the ledger says it."""

    desk.claim(modem(0))

    with pytest.raises(ClaimError, match=r"modem-0: is held by claim team/net \(uid-of-net\)"):
        await desk.allotments.allocate(RESOURCE, ("modem-1", "modem-0"))
    assert [hold.holder for hold in desk.ledger.holds()] == [CLAIM]
    assert desk.given.all() == ()


async def test_claimed_device_is_listed_as_unhealthy(desk: Desk) -> None:
    """Kubelet gives it to nobody, and counts it still."""

    desk.claim(modem(0))
    desk.see(modem(0), modem(1), kvm())
    desk.inventory.set(attrs.evolve(desk.inventory.get(), warnings=("news",)))
    await wait_all_tasks_blocked()

    assert not desk.units()["modem-0"].healthy
    assert desk.units()["modem-0"].held
    assert desk.units()["modem-1"].healthy


async def test_newer_holder_takes_the_place_of_an_older_one(desk: Desk) -> None:
    """Kubelet keeps its own books: what it gives again was free to it."""

    await desk.allotments.allocate(RESOURCE, ("modem-0", "modem-1"))
    await desk.allotments.allocate(RESOURCE, ("modem-1",))

    assert {one.holder.uid: one.holder.ids for one in desk.given.all()} == {
        "uid-1": ("modem-0",),
        "uid-2": ("modem-1",),
    }
    assert {(h.device, h.holder.uid) for h in desk.ledger.holds()} == {
        ("modem-0", "uid-1"),
        ("modem-1", "uid-2"),
    }
    await desk.allotments.allocate(RESOURCE, ("modem-0",))
    assert {one.holder.uid for one in desk.given.all()} == {"uid-2", "uid-3"}


async def test_refusal_leaves_older_holders_as_they_were(desk: Desk) -> None:
    """A request that a claim stands against takes nothing from anybody."""

    await desk.allotments.allocate(RESOURCE, ("modem-1",))
    before = desk.ledger.holds()
    desk.claim(modem(0))

    with pytest.raises(ClaimError):
        await desk.allotments.allocate(RESOURCE, ("modem-1", "modem-0"))
    assert [hold for hold in desk.ledger.holds() if hold.holder != CLAIM] == list(before)


async def test_full_disk_gives_nothing(desk: Desk, tmp_path: Path) -> None:
    """Neither the new holder nor a change of the older one."""

    await desk.allotments.allocate(RESOURCE, ("modem-0",))
    before = desk.ledger.holds()
    folder = tmp_path / "ledger"
    folder.rename(tmp_path / "away")

    with pytest.raises(HostError):
        await desk.allotments.allocate(RESOURCE, ("modem-0", "modem-1"))
    assert desk.ledger.holds() == before


async def test_full_disk_keeps_no_list_from_kubelet(desk: Desk, tmp_path: Path) -> None:
    """Who was given what before stays listed, what comes and goes is told."""

    await desk.allotments.allocate(RESOURCE, ("modem-0",))
    (tmp_path / "ledger").rename(tmp_path / "away")
    desk.see(modem(0), modem(2))
    await wait_all_tasks_blocked()

    assert {unit.id: unit.healthy for unit in desk.units().values()} == {
        "modem-0": True,
        "modem-2": True,
    }


@pytest.mark.parametrize(
    ("ids", "text"),
    [
        (("modem-7",), "is not known here"),
        (("modem-0", "modem-0"), "is asked for twice"),
    ],
)
async def test_impossible_request_is_refused(desk: Desk, ids: tuple[str, ...], text: str) -> None:
    """Kubelet asks for what was listed, each once."""

    with pytest.raises(ClaimError, match=text):
        await desk.allotments.allocate(RESOURCE, ids)
    assert desk.ledger.holds() == ()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"exclusion": Exclusion(reason="mig-on")}, r"is not offered now \(mig-on\)"),
        ({"unhealthy": ABSENT}, "is not seen on this node"),
        ({"unhealthy": "lost"}, r"is unhealthy \(lost\)"),
        ({"lacking": ("/dev/nvidia-uvm",)}, "needs /dev/nvidia-uvm, whose number"),
    ],
)
async def test_device_that_cannot_be_used_now_is_refused(
    desk: Desk, changes: dict[str, Any], text: str
) -> None:
    """It may have gone since kubelet's last list; a container would start without it."""

    desk.see(attrs.evolve(modem(0), **changes), modem(1))

    with pytest.raises(ClaimError, match=text):
        await desk.allotments.allocate(RESOURCE, ("modem-1", "modem-0"))
    assert desk.given.all() == ()


async def test_two_devices_of_one_path_inside_are_refused(desk: Desk) -> None:
    """Kubelet would keep the first and say nothing."""

    desk.see(renamed(0), renamed(1))

    with pytest.raises(ClaimError, match="two of the devices would both be /dev/modem0"):
        await desk.allotments.allocate(RESOURCE, ("modem-0", "modem-1"))
    await desk.allotments.allocate(RESOURCE, ("modem-0",))
    await desk.allotments.allocate(RESOURCE, ("modem-1",))


async def test_shares_of_one_device_go_to_several(desk: Desk) -> None:
    """Up to the slots; one container takes one share."""

    await desk.allotments.allocate(KVM, ("kvm-dev-kvm::0",))
    await desk.allotments.allocate(KVM, ("kvm-dev-kvm::1",))
    desk.claim(kvm(), share="s1")

    with pytest.raises(ClaimError, match="is held by"):
        await desk.allotments.allocate(KVM, ("kvm-dev-kvm::2",))
    with pytest.raises(ClaimError, match="in several shares by one container"):
        await desk.allotments.allocate(KVM, ("kvm-dev-kvm::0", "kvm-dev-kvm::1"))


async def test_slots_of_claims_close_as_many_free_ids(desk: Desk) -> None:
    """Ids that a container has stay healthy, or kubelet would not admit its pod again."""

    await desk.allotments.allocate(KVM, ("kvm-dev-kvm::2",))
    desk.claim(kvm(), share="s1")
    desk.see(kvm(), modem(0))
    await wait_all_tasks_blocked()

    assert {unit.id: unit.healthy for unit in desk.units(KVM).values()} == {
        "kvm-dev-kvm::0": True,
        "kvm-dev-kvm::1": False,
        "kvm-dev-kvm::2": True,
    }


async def test_free_lets_a_claim_in(desk: Desk) -> None:
    """Record and holds go together, and whoever waits is woken."""

    await desk.allotments.allocate(RESOURCE, ("modem-0",))
    version = desk.ledger.releases.version
    (one,) = desk.given.all()

    await desk.allotments.free(one)

    assert desk.given.all() == ()
    assert desk.ledger.releases.version != version
    desk.claim(modem(0))


async def test_news_of_what_was_given_anew_meanwhile_is_dropped(desk: Desk) -> None:
    """Kubelet's answer is older than the allocation that changed the record."""

    await desk.allotments.allocate(RESOURCE, ("modem-0", "modem-1"))
    (old,) = desk.given.all()
    await desk.allotments.allocate(RESOURCE, ("modem-1",))

    await desk.allotments.free(old)
    await desk.allotments.bind(attrs.evolve(old, bound=True))

    assert {h.device for h in desk.ledger.holds()} == {"modem-0", "modem-1"}
    assert not any(one.bound for one in desk.given.all())


async def test_load_enters_holds_and_keeps_damaged_files_aside(desk: Desk, tmp_path: Path) -> None:
    """Nothing is free before the ledger is read."""

    folder = tmp_path / "other" / "ledger"
    folder.mkdir(parents=True)
    (folder / "g9.json").write_bytes(b"{")
    after = Desk(tmp_path / "other")
    await after.allotments.load()

    assert after.given.all() == ()
    assert [path.name for path in folder.iterdir()] != ["g9.json"]
    await after.given.put(given(modem()))
    again = Desk(tmp_path / "other")
    await again.allotments.load()
    assert [hold.device for hold in again.ledger.holds()] == ["modem-0"]


async def test_load_in_another_boot_keeps_what_the_thing_is(tmp_path: Path) -> None:
    """Kubelet keeps its books over a reboot, but a node's number may be another device's."""

    one = attrs.evolve(modem(), keys=("gen:a", "chr:188:0"))
    before = Desk(tmp_path)
    await before.given.load()
    await before.given.put(attrs.evolve(given(one), boot_id="boot-0"))

    after = Desk(tmp_path)
    await after.allotments.load()

    assert [hold.key for hold in after.ledger.holds()] == ["gen:a"]
    assert [each.boot_id for each in after.given.all()] == [BOOT]


@pytest.mark.parametrize("inject", ["cdi", "auto"])
async def test_what_kubelet_cannot_tell_is_given_by_a_file(desk: Desk, inject: str) -> None:
    """Hooks have no place in its answer; the mark is there all the same."""

    hook = Hook(name="createContainer", path="/usr/bin/nvidia-cdi-hook")
    one = attrs.evolve(modem(0), inject=inject, common=Edits(hooks=(hook,)))
    desk.see(one, modem(1))
    await wait_all_tasks_blocked()

    grant = await desk.allotments.allocate(RESOURCE, ("modem-0", "modem-1"))

    assert desk.files.written == ["modem-0"]
    assert grant.cdi_ids == ("berth.dev/plugin-generic=modem-0",)
    assert [node.path for node in grant.edits.nodes] == ["/dev/ttyUSB1"]
    assert grant.edits.env == (
        "BERTH_PLUGIN_BERTH_DEV_MODEM_F504B85C=berth.dev/modem:modem-0,modem-1",
    )
    assert grant.edits.hooks == ()


def grouped(number: int) -> Peripheral:
    """A modem that shares its IOMMU group with the others."""
    one = modem(number)
    return attrs.evolve(one, keys=(*one.keys, "iommu:7"))


async def test_two_of_shared_hardware_are_refused_to_one_container(desk: Desk) -> None:
    """By the names of both."""

    desk.see(grouped(0), grouped(1))

    await wait_all_tasks_blocked()
    assert {unit.bundle for unit in desk.units().values()} == {"iommu:7"}
    with pytest.raises(ClaimError, match="modem-1: shares iommu:7 with modem-0"):
        await desk.allotments.allocate(RESOURCE, ("modem-0", "modem-1"))
    assert desk.ledger.holds() == ()


async def test_container_is_told_where_its_functions_are(desk: Desk) -> None:
    """By the name under which what starts machines looks, whichever way the nodes come."""

    bound = attrs.evolve(modem(0), kind="vfio", type="vfio", path="0000:81:00.0")
    by_cdi = attrs.evolve(modem(1), kind="vfio", type="vfio", path="0000:3b:00.0", inject="cdi")
    desk.see(bound, by_cdi)
    await wait_all_tasks_blocked()

    grant = await desk.allotments.allocate(RESOURCE, ("modem-0", "modem-1"))

    assert "PCI_RESOURCE_BERTH_DEV_MODEM=0000:3b:00.0,0000:81:00.0" in grant.edits.env
