"""NICs that are bound to vfio-pci: the link goes with its driver, and comes back as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth.errors import ClaimError, HostError
from berth.node.records.document import claim_from_bytes
from berth.node.records.record import ClaimRecord
from berth.node.vfio import functions
from berth.rehearsal.drivercore import VFIO
from berth.vfio.binding import Binding, Stage
from berth.vfio.wayin import WayIn
from tests.integration.nic.beds import Bed
from tests.integration.node.boundbeds import (
    OWN_DRIVER,
    UID,
    bindings_of,
    drafted,
    dress_link,
    is_there,
    machine_of,
    make_link,
    prepare,
    shown,
)
from tests.integration.node.fates import Driver
from tests.integration.node.nodebeds import Node
from tests.vfio_tree import NIC, NIC_GROUP

pytestmark = pytest.mark.root


class Scene:
    """A NIC with all that a host can have on its link, and a node that binds it.

    Attributes:
        comes: Whether the link comes back with its driver.
    """

    def __init__(self, node: Node, folder: Path, *, groups: bool = True) -> None:
        make_link()
        dress_link()
        self.comes = True
        self.machine = machine_of(folder, groups=groups, comes=lambda: self.comes)
        self.live(node)

    def live(self, node: Node) -> None:
        """Begin a life; a further one is a restart."""
        self.node = node
        self.bindings = bindings_of(node.records, node.nics, self.machine)

    async def prepare(self, way: WayIn | None = None, *, noiommu: bool = False) -> ClaimRecord:
        """Prepare a claim on it, as far as the NIC goes."""
        draft = drafted(way, noiommu=noiommu)
        await prepare(self.node.records, self.node.nics, self.bindings, draft)
        return self.record()

    def record(self) -> ClaimRecord:
        """The claim's record."""
        found = self.node.records.get(UID)
        assert found is not None
        return found

    def binding(self) -> Binding:
        """How the NIC is bound, as the record has it."""
        ((_, binding),) = self.record().bindings
        return binding


@pytest.fixture(name="scene")
def _scene(bed: Bed, node: Node, tmp_path: Path) -> Scene:
    assert bed is node.bed
    return Scene(node, tmp_path)


async def test_nic_is_bound_and_comes_home_as_it_was(scene: Scene) -> None:
    """Name, MTU, addresses, routes and neighbors, under whatever index the kernel gives."""

    before = shown()
    record = await scene.prepare()

    assert not is_there()
    assert scene.machine.core.driver(NIC) == VFIO
    (device,) = record.devices
    paths = [node.path for node in device.edits.nodes]
    assert paths == ["/dev/vfio/vfio", f"/dev/vfio/{NIC_GROUP}"]
    assert device.keys == (f"pci:{NIC}", f"iommu:{NIC_GROUP}")
    assert not record.has_nics

    await scene.node.revoke(UID)
    assert await scene.bindings.give_back(UID)

    assert scene.machine.state(NIC) == (OWN_DRIVER, "(null)")
    assert shown() == before
    assert scene.binding().stage is Stage.HOME


async def test_next_life_brings_it_home(scene: Scene) -> None:
    """What the link was stands in the record, so a restart changes nothing."""

    before = shown()
    await scene.prepare()
    await scene.node.revoke(UID)

    second = Node(scene.node.bed, scene.node.folder)
    await second.records.load()
    scene.live(second)
    assert await scene.bindings.give_back(UID)

    assert shown() == before


async def test_bind_that_fails_brings_the_link_back(scene: Scene) -> None:
    """The former driver makes it anew, and everything is put on it again."""

    before = shown()
    scene.machine.core.refused.add((VFIO, NIC))

    with pytest.raises(HostError, match="is bound to no driver after a probe"):
        await scene.prepare()

    assert shown() == before
    assert scene.binding().stage is Stage.HOME


async def test_link_that_does_not_come_is_waited_for(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver has the function and no link yet: the claim is not over before it is as it was."""

    monkeypatch.setattr(functions, "LINK_S", 0.3)
    before = shown()
    await scene.prepare()
    scene.comes = False
    await scene.node.revoke(UID)

    assert not await scene.bindings.give_back(UID)
    assert scene.binding().stage is Stage.RETURNING
    assert "its link" in scene.binding().fault

    make_link()
    assert await scene.bindings.give_back(UID)
    assert shown() == before


async def test_nic_without_iommu_needs_leave(bed: Bed, node: Node, tmp_path: Path) -> None:
    """With it the node of its group has the name that says so; without it nothing is done."""

    assert bed is node.bed
    scene = Scene(node, tmp_path, groups=False)
    with pytest.raises(ClaimError, match="it is in no IOMMU group"):
        await scene.prepare()
    assert scene.machine.core.written == []

    record = await scene.prepare(noiommu=True)

    (_, own) = record.devices[0].edits.nodes
    assert own.path.startswith("/dev/vfio/noiommu-")


async def test_nodes_of_the_hosts_network_are_given_where_they_are_asked_for(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both, or the claim is told which is missing and the NIC is home again."""

    monkeypatch.setattr(functions, "NODES_S", 0.2)
    with pytest.raises(HostError, match=r"/dev/vhost-net, /dev/net/tun did not come"):
        await scene.prepare(WayIn(vhost=True))

    assert scene.machine.core.driver(NIC) == OWN_DRIVER
    assert is_there()


@pytest.mark.slow
@pytest.mark.parametrize("work", ["prepare", "unprepare"])
def test_crash_before_each_step(bed: Bed, tmp_path: Path, work: str) -> None:
    """Killed there, the next start has the claim stand, or the link home as it was."""

    assert bed is not None
    make_link()
    dress_link()
    before = shown()
    (tmp_path / "claims").mkdir()
    machine = machine_of(tmp_path)
    driver = Driver("tests.integration.node.boundcrash")

    def run(work: str, kill_at: int = 0) -> list[int]:
        told = driver.order(work=work, folder=str(tmp_path), kill_at=kill_at)
        return list(told.get("changes", ()))

    def outcome() -> str:
        path = tmp_path / "claims" / f"{UID}.json"
        record = claim_from_bytes(path.read_bytes(), where="") if path.exists() else drafted()
        if record.prepared and not record.revoked:
            assert machine.core.driver(NIC) == VFIO
            return "bound"
        assert record.is_home
        assert machine.state(NIC) == (OWN_DRIVER, "(null)")
        assert shown() == before
        return "home"

    steps = {"prepare": run("prepare"), "unprepare": run("unprepare")}[work]
    assert len(steps) >= 7
    ends = set()
    for number in steps:
        if work == "unprepare":
            run("prepare")
        run(work, kill_at=number)
        run("recover")
        ends.add(outcome())
        if outcome() == "bound":
            run("unprepare")
        assert outcome() == "home"
    driver.close()

    assert ends == ({"home"} if work == "prepare" else {"home", "bound"})
