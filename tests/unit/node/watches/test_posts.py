"""Where each NIC should be, from looks, records and settings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest

from berth.config.doors import Door
from berth.config.health import CarrierSeverity, NicHealth
from berth.config.match import PfPattern
from berth.config.nic import NicTable
from berth.config.nicgroup import NicGroup
from berth.health.finding import Severity
from berth.host.driverbind import Bound
from berth.model.device import NicKind, NicMode
from berth.model.inventory import Inventory
from berth.nic.health.post import Place, Post
from berth.nic.record import Stage
from berth.node.inventory.sighting import Memory, Outlook
from berth.node.inventory.snapshot import judge
from berth.node.records.record import ClaimRecord
from berth.node.watches.posts import physical_links, posts
from berth.vfio.binding import Binding
from berth.vfio.binding import Stage as BindingStage
from tests.unit.nic.machine import Machine, group
from tests.unit.node.holds import child, held, record

PF = "0000:41:00.0"
NIC = f"pci:{PF}"
NAME = "nic-0000-41-00-0"
FAST = group("fast", vendor=("15b3",))


@pytest.fixture(name="machine")
def _machine(tmp_path: Path) -> Machine:
    """A machine with one NIC beside its loopback."""
    machine = Machine(tmp_path / "machine")
    machine.nic("ens1f0", PF)
    return machine


def look(
    machine: Machine, groups: Sequence[NicGroup], records: Sequence[ClaimRecord] = ()
) -> Inventory:
    """Look at it."""
    outlook = Outlook(table=NicTable(groups=tuple(groups)), records=records, driver="berth.dev")
    return judge(machine.scan(), outlook, Memory()).inventory


def post(
    machine: Machine,
    *records: ClaimRecord,
    by: NicGroup = FAST,
    identity: str = NIC,
    busy: Sequence[str] = (),
) -> Post:
    """The post of the machine's NIC."""
    inventory = look(machine, [by], records)
    table = NicTable(groups=(by,))
    return posts(inventory, table, records=records, busy=busy)[identity]


def test_a_free_nic_is_at_home(machine: Machine) -> None:
    """Under its index, with the terms of its group, and whatever driver it has."""

    sick = NicHealth(carrier=CarrierSeverity.FAULT, carrier_when_free=True)
    found = post(machine, by=attrs.evolve(FAST, health=sick))

    assert found == Post(
        identity=NIC,
        place=Place.FREE,
        kind=NicKind.PCI,
        index=machine.links["ens1f0"].index,
        address=PF,
        carrier=Severity.FAULT,
        carrier_when_free=True,
    )


def test_what_no_group_takes_is_not_watched(machine: Machine) -> None:
    """It is no business of ours."""

    other = group("other", vendor=("8086",))

    assert posts(look(machine, [other]), NicTable(groups=(other,)), records=()) == {}


def test_a_function_whose_link_is_nowhere(machine: Machine) -> None:
    """Its driver makes links, so there should be one."""

    del machine.links["ens1f0"]
    found = post(machine)

    assert (found.place, found.index, found.linkless) == (Place.FREE, 0, True)


@pytest.mark.parametrize(
    ("stage", "place"),
    [
        (Stage.RESERVED, Place.MOVING),
        (Stage.STAGED, Place.STAGED),
        (Stage.ATTACHING, Place.MOVING),
        (Stage.ATTACHED, Place.POD),
        (Stage.RETURNING, Place.RETURNING),
        (Stage.HOME, Place.STAGED),
        (Stage.LOST, Place.GONE),
        (Stage.LENT, Place.ELSEWHERE),
    ],
)
def test_a_held_nic_is_where_its_record_says(machine: Machine, stage: Stage, place: Place) -> None:
    """With the driver that it was given with."""

    found = post(machine, record("c", held(NIC, NAME, stage=stage, driver="mlx5_core")))

    assert found.place is place
    assert found.record is not None
    assert (found.holder, found.driver, found.fault) == ("team/c", "mlx5_core", "")


def test_a_return_that_fails_tells_why(machine: Machine) -> None:
    """And a claim that is being closed is on its way."""

    stuck = held(NIC, NAME, stage=Stage.RETURNING, fault="mtu is 9000")

    assert post(machine, record("c", stuck, revoked=True)).fault == "mtu is 9000"
    closing = record("c", held(NIC, NAME, stage=Stage.HOME), revoked=True)
    assert post(machine, closing).place is Place.MOVING


def test_a_virtio_nic_has_the_driver_of_its_function(machine: Machine) -> None:
    """The driver of its link is not the one that has the function."""

    assert post(machine, record("c", held(NIC, NAME, driver="virtio_net"))).driver == "virtio-pci"


def test_a_parent_with_its_links_in_pods(machine: Machine) -> None:
    """It stays at home; only what is in a pod is looked for there."""

    lan = group("lan", vendor=("15b3",), mode=NicMode.SHARED)
    name = "parent-0000-41-00-0"
    first, second = child(NIC, name), child(NIC, name)
    assert second.nic is not None
    waiting = attrs.evolve(second, nic=attrs.evolve(second.nic, stage=Stage.STAGED))
    found = post(machine, record("a", first), record("b", waiting), by=lan)

    assert (found.place, found.holder) == (Place.PARENT, "team/a, team/b")
    assert found.children == (first.nic,)
    assert post(machine, by=lan) == attrs.evolve(found, holder="", children=())


@pytest.mark.parametrize(
    ("stage", "expected"),
    [
        (BindingStage.RESERVED, (Place.ELSEWHERE, "vfio-pci", False)),
        (BindingStage.BINDING, (Place.ELSEWHERE, "", True)),
        (BindingStage.BOUND, (Place.ELSEWHERE, "vfio-pci", False)),
        (BindingStage.RETURNING, (Place.RETURNING, "", True)),
    ],
)
def test_a_function_that_a_claim_has_bound(
    machine: Machine, stage: BindingStage, expected: tuple[Place, str, bool]
) -> None:
    """It has vfio-pci while the claim has it, and nothing is expected while it changes."""

    vms = group("vms", vendor=("15b3",), mode=NicMode.VFIO)
    device = held(NIC, NAME, group="vms", stage=Stage.RESERVED)
    bound = attrs.evolve(
        device,
        type="nic-vfio",
        nic=None,
        link=device.nic,
        binding=Binding(address=PF, stage=stage, former=Bound(driver="mlx5_core")),
    )
    found = post(machine, record("c", bound), by=vms, busy=[PF])

    assert (found.place, found.driver, found.driverless) == expected
    assert found.busy


def test_a_free_function_for_virtual_machines_needs_no_link(machine: Machine) -> None:
    """An operator may have bound it to vfio-pci himself."""

    machine.tree.bind(machine.tree.folder(PF), "vfio-pci")
    del machine.links["ens1f0"]
    vms = group("vms", vendor=("15b3",), mode=NicMode.VFIO, door=Door.PLUGIN, resource="a.b/c")

    assert post(machine, by=vms).place is Place.ELSEWHERE


def test_a_group_that_is_gone_leaves_the_usual_terms(machine: Machine) -> None:
    """What is held is watched on."""

    records = [record("c", held(NIC, NAME, group="former"))]
    found = posts(look(machine, [], records), NicTable(), records=records)[NIC]

    assert (found.place, found.carrier) == (Place.POD, Severity.DEGRADED)


def test_links_of_pfs(machine: Machine) -> None:
    """Of a function with several links the first; a port toward others is none of them."""

    machine.tree.function("0000:42:00.0", total_vfs=4)
    machine.nic("ens2f0", "0000:42:00.0", dev_port=0)
    machine.nic("ens2f1", "0000:42:00.0", dev_port=1)
    machine.nic("ens2r0", "0000:42:00.0", dev_port=2, port_name="pf0vf0")
    machine.vf("ens2v0", "0000:42:00.2", pf="0000:42:00.0", number=0)
    vfs = group("vfs", pf=(PfPattern(pf="ens2f0"),))

    assert physical_links(look(machine, [vfs])) == {"0000:42:00.0": machine.links["ens2f0"].index}
