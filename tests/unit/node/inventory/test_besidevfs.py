"""A PF beside its VFs: what counters keep apart, and who keeps whom from being offered."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest

from berth.config.match import PciPattern
from berth.config.nic import NicTable
from berth.config.nicgroup import NicGroup
from berth.dra.counters import counted
from berth.model.device import Consumption, CounterSet, Device, NicKind, NicMode
from berth.node.claims.admission import Admitted, Waiting, admit
from berth.node.inventory.sighting import Memory, Outlook
from berth.node.inventory.snapshot import Snapshot, judge
from berth.node.ledger import Ledger
from berth.node.records.record import ClaimRecord
from tests.unit.nic.machine import Machine, group
from tests.unit.node.holds import held, record
from tests.unit.node.machine import claim, result

PF, OTHER = "0000:41:00.0", "0000:42:00.0"
VFS = ("0000:41:10.0", "0000:41:10.1")
PF_NAME, OTHER_NAME = "nic-0000-41-00-0", "nic-0000-42-00-0"
VF_NAMES = ("nic-0000-41-10-0", "nic-0000-41-10-1")
SET = "nic-0000-41-00-0-functions"
WHOLE = group("whole", kind=(NicKind.PF,), beside_vfs=True)
PARTS = group("parts", kind=(NicKind.VF,))
ALL = Consumption(counter_set=SET, counters={"functions": 2})
ONE = Consumption(counter_set=SET, counters={"functions": 1})


@pytest.fixture(name="machine")
def _machine(tmp_path: Path) -> Machine:
    """A PF with two VFs, and another NIC."""
    machine = Machine(tmp_path / "machine")
    machine.tree.function(PF, total_vfs=8)
    machine.nic("ens1f0", PF)
    for number, address in enumerate(VFS):
        machine.vf(f"ens1f0v{number}", address, pf=PF, number=number)
    machine.nic("ens2", OTHER)
    return machine


def look(machine: Machine, *groups: NicGroup, records: Sequence[ClaimRecord] = ()) -> Snapshot:
    """What these groups come to while those claims hold what they hold."""
    outlook = Outlook(table=NicTable(groups=groups or (WHOLE, PARTS)), records=records)
    return judge(machine.scan(), outlook, Memory())


def devices(snapshot: Snapshot) -> dict[str, Device]:
    """What is published."""
    return {one.name: one for one in snapshot.inventory.devices}


def drawn(snapshot: Snapshot) -> dict[str, tuple[Consumption, ...]]:
    """What each published device draws on counters."""
    return {name: one.consumes for name, one in devices(snapshot).items()}


def reasons(snapshot: Snapshot) -> dict[str, str]:
    """Why the rest is not."""
    return {n.name: str(n.exclusion) for n in snapshot.inventory.nics if n.exclusion is not None}


def test_pf_draws_all_and_each_vf_one(machine: Machine) -> None:
    """So the scheduler gives the one or the others; another NIC draws nothing."""

    everything = group("rest", pci=(PciPattern(OTHER),))
    found = look(machine, WHOLE, PARTS, everything)

    assert drawn(found) == {
        PF_NAME: (ALL,),
        **dict.fromkeys(VF_NAMES, (ONE,)),
        OTHER_NAME: (),
    }
    assert found.inventory.counter_sets == (CounterSet(name=SET, counters={"functions": 2}),)


def test_pf_is_offered_only_where_counters_are_taken(machine: Machine) -> None:
    """A server that takes none would give both."""

    told = counted(look(machine).inventory.devices, {})

    assert {one.name for one in told.devices} == {*VF_NAMES}
    assert not any(one.consumes for one in told.devices)


def test_vfs_of_any_group_count(machine: Machine) -> None:
    """Also those that go to machines."""

    machines = attrs.evolve(PARTS, name="machines", mode=NicMode.VFIO, allow_noiommu=True)
    found = devices(look(machine, WHOLE, machines))

    assert [found[name].consumes for name in VF_NAMES] == [(ONE,), (ONE,)]


def test_pf_without_leave_stays_away(machine: Machine) -> None:
    """Nothing is counted then."""

    found = look(machine, attrs.evolve(WHOLE, beside_vfs=False), PARTS)

    assert reasons(found)[PF_NAME].startswith("has-vfs: 2 VFs exist")
    assert found.inventory.counter_sets == ()
    assert drawn(found) == dict.fromkeys(VF_NAMES, ())


def test_pf_of_several_links_stays_away(machine: Machine) -> None:
    """Its links would exclude each other."""

    machine.nic("ens1f0p1", PF, dev_port=1)
    found = look(machine)

    assert [why for name, why in reasons(found).items() if name.startswith(PF_NAME)] == [
        "has-vfs: 2 VFs exist, which the host could not manage without their PF"
    ] * 2
    assert found.inventory.counter_sets == ()


def test_pf_without_vfs_is_a_nic_like_others(machine: Machine, tmp_path: Path) -> None:
    """There is nothing to count."""

    bare = Machine(tmp_path / "bare")
    bare.tree.function(PF, total_vfs=8)
    bare.nic("ens1f0", PF)
    found = look(bare)

    assert devices(found)[PF_NAME].consumes == ()
    assert not devices(found)[PF_NAME].only_counted


def test_pf_is_kept_back_while_a_vf_is_held(machine: Machine) -> None:
    """By name of the VF and its holder; the other VF is offered, and both are counted."""

    taken = record("job", held(f"pci:{VFS[0]}", VF_NAMES[0], group="parts"))
    found = look(machine, records=[taken])

    assert reasons(found)[PF_NAME] == (f"has-vfs: a VF of it is {VF_NAMES[0]}, which team/job has")
    assert drawn(found) == dict.fromkeys(VF_NAMES, (ONE,))


def test_vfs_are_kept_back_while_the_pf_is_held(machine: Machine) -> None:
    """The PF is told of whatever the server takes, and still draws all."""

    taken = record("job", held(f"pci:{PF}", PF_NAME, group="whole"))
    found = look(machine, records=[taken])

    why = f"held: its PF is {PF_NAME}, which team/job has"
    assert [reasons(found)[name] for name in VF_NAMES] == [why, why]
    (pf,) = devices(found).values()
    assert (pf.name, pf.consumes, pf.only_counted) == (PF_NAME, (ALL,), False)


def test_claim_for_the_pf_takes_its_vfs_too(machine: Machine) -> None:
    """So nobody is given one between the look and the record; and the other way round."""

    found = look(machine)
    whole, part = claim(result(PF_NAME, "nic")), claim(result(VF_NAMES[0], "nic"), name="other")
    taken, one = (admit(each, found, Ledger()) for each in (whole, part))
    assert isinstance(taken, Admitted)
    assert isinstance(one, Admitted)

    assert {hold.key for hold in taken.holds} == {f"pci:{each}" for each in (PF, *VFS)}
    for first, second in ((taken, part), (one, whole)):
        ledger = Ledger()
        ledger.take(first.holds)
        assert isinstance(admit(second, found, ledger), Waiting)
