"""Claims on NICs that are given as PCI functions: offered, held with their group, bound, told."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
from trio.testing import MockClock

from berth.config.nic import NicTable
from berth.config.nicgroup import NicGroup
from berth.errors import ClaimError, Faults
from berth.host.driverbind import Bound
from berth.model.device import Exclusion, NicMode
from berth.nic.config.group import policies_of
from berth.node.claims.recovery import holds_of
from berth.node.inventory.sighting import Memory, Outlook
from berth.node.inventory.snapshot import Snapshot, judge
from berth.node.ledger import Hold
from berth.node.records.document import claim_from_bytes, to_bytes
from berth.node.records.record import ClaimRecord
from berth.node.views.holds import hold_entry
from berth.vfio.binding import Stage
from berth.vfio.wayin import WayIn
from tests.unit.nic.machine import Machine, group
from tests.unit.node.conftest import Node
from tests.unit.node.machine import claim, config, pod, result

NIC = "0000:41:00.0"
NAME = "nic-0000-41-00-0"
VM = group("vm", mode=NicMode.VFIO, vendor=("15b3",))
CLAIM = claim(result(NAME, "nic"), name="machine")
CLOSED = Exclusion(reason="not-connected", detail="no NRI")


class SpokenBindings:
    """Functions that are bound by word."""

    def __init__(self) -> None:
        self.bound: list[str] = []

    async def bind(self, record: ClaimRecord) -> ClaimRecord:
        """Say that they are."""
        for index, binding in record.bindings:
            self.bound.append(binding.address)
            former = Bound(driver="mlx5_core")
            done = attrs.evolve(binding, stage=Stage.BOUND, former=former)
            record = record.with_binding(index, done)
        return record


@pytest.fixture(name="machine")
def _machine(tmp_path: Path) -> Machine:
    """A NIC that shares its IOMMU group with an unbound function."""
    machine = Machine(tmp_path / "machine")
    machine.tree.function(NIC, iommu_group=7)
    machine.tree.function("0000:41:00.3", class_code=0x010802, driver="", iommu_group=7)
    machine.nic("ens1f0", NIC)
    return machine


def judged(
    machine: Machine, *records: ClaimRecord, of: NicGroup = VM, closed: Exclusion | None = None
) -> Snapshot:
    """What a look comes to."""
    outlook = Outlook(table=NicTable(groups=(of,)), records=records, closed=closed)
    return judge(machine.scan(), outlook, Memory())


@pytest.fixture(name="bindings")
def _bindings(node: Node, machine: Machine) -> SpokenBindings:
    bindings = SpokenBindings()
    node.claims.reload(policies_of([VM]))
    node.claims._bindings = bindings
    node.eyes.show(judged(machine))
    return bindings


def test_function_is_published_with_its_type(machine: Machine) -> None:
    """Its name at home is nobody's business, and NRI has nothing to do for it."""

    snapshot = judged(machine, closed=CLOSED)

    (device,) = snapshot.inventory.devices
    assert (device.name, device.type, device.group) == (NAME, "nic-vfio", "vm")
    assert (device.attributes["ifName"], device.attributes["iommuGroup"]) == ("", 7)
    assert device.attributes["driver"] == "mlx5_core"


def test_function_that_is_bound_already_is_published_the_same(machine: Machine) -> None:
    """An operator bound it at boot."""

    machine.links.pop("ens1f0")
    machine.tree.bind(machine.tree.folder(NIC), "vfio-pci")

    (device,) = judged(machine).inventory.devices

    assert (device.name, device.type) == (NAME, "nic-vfio")


async def test_claim_holds_its_whole_group_and_says_how(
    node: Node, bindings: SpokenBindings
) -> None:
    """Everything that undoing needs is in the record, and no pod is told of a link."""

    asked = attrs.evolve(CLAIM, configs=(config(vfio={"iommufd": True}),))
    await node.prepare(asked)

    record = node.record(asked)
    (device,) = record.devices
    assert bindings.bound == [NIC]
    assert (device.nic, device.told) == (None, None)
    assert device.link is not None
    assert device.link.originals is not None or device.link.parent_device == NIC
    assert device.binding is not None
    assert device.binding.way == WayIn(iommufd=True)
    assert {hold.key for hold in node.ledger.holds()} == {
        *(f"pci:{NIC}", "iommu:7", "pci:0000:41:00.3")
    }
    assert set(holds_of(record)) == set(node.ledger.holds())
    assert claim_from_bytes(to_bytes(record), where="here") == record
    assert hold_entry(record, device)["stage"] == "bound"


async def test_function_waits_for_no_hook(node: Node, bindings: SpokenBindings) -> None:
    """The runtime brings nothing into its pod."""

    node.closed.set("away")

    await node.prepare(CLAIM, limit_s=2)

    assert bindings.bound == [NIC]


async def test_member_of_its_group_that_another_claim_has_is_named(
    node: Node, bindings: SpokenBindings, autojump_clock: MockClock
) -> None:
    """The IOMMU does not keep them apart."""

    other = claim(result("disk-0", "disk"), name="disk")
    node.add(other)
    node.ledger.restore([Hold(key="pci:0000:41:00.3", device="disk-0", holder=other.ref)])

    with pytest.raises(ClaimError, match="disk-0: is held by claim default/disk"):
        await node.prepare(CLAIM)
    assert bindings.bound == []


async def test_function_is_for_one_pod(node: Node, bindings: SpokenBindings) -> None:
    """Its group is opened by one program."""

    with pytest.raises(ClaimError, match="is reserved for 2 pods"):
        await node.prepare(attrs.evolve(CLAIM, consumers=(pod("a"), pod("b"))))
    assert bindings.bound == []


async def test_interface_is_refused_before_anything_is_done(
    node: Node, bindings: SpokenBindings
) -> None:
    """With its place."""

    with pytest.raises(Faults, match=r"interface\.mtu: without effect in mode vfio"):
        await node.prepare(attrs.evolve(CLAIM, configs=(config(interface={"mtu": 9000}),)))
    assert bindings.bound == []
    assert node.traces() == {}


async def test_held_function_stays_in_the_slices(
    node: Node, bindings: SpokenBindings, machine: Machine
) -> None:
    """Its link is gone, and it says what it said; then it says why it is not home yet."""

    await node.prepare(CLAIM)
    record = node.record(CLAIM)
    before = judged(machine).inventory.device_by_name[NAME]
    machine.links.pop("ens1f0")
    machine.tree.bind(machine.tree.folder(NIC), "vfio-pci")

    held = judged(machine, record).inventory
    assert held.device_by_name[NAME].attributes == before.attributes
    assert (held.nic_by_name[NAME].mode, held.nic_by_name[NAME].exclusion) == (NicMode.VFIO, None)
    assert judged(machine, record, of=group("vm", vendor=("15b3",))).inventory.nic_by_name[
        NAME
    ].held_by == ("default/machine",)

    (index, binding) = record.bindings[0]
    stuck = record.with_binding(index, attrs.evolve(binding, fault="busy"))
    ended = judged(machine, attrs.evolve(stuck, revoked=True)).inventory
    assert [taint.value for taint in ended.device_by_name[NAME].taints] == ["restore-failed"]
    assert str(ended.nic_by_name[NAME].exclusion) == "restore-failed: busy"
