"""NICs that are bound to vfio-pci: the link goes with its driver, and comes back as it was.

The link is a veth end, which the driver core of files makes and ends with the NIC's driver. It
comes back bare, under another index, as after a real bind.
"""

from __future__ import annotations

import re
from pathlib import Path

import attrs
import pytest

from berth.errors import ClaimError, HostError
from berth.host.netlink.link import Link
from berth.model.claim import ClaimRef, Consumer, DeviceResult
from berth.nic.config.values import AttachMode, NicConfig
from berth.nic.record import NicRecord
from berth.node import functions
from berth.node.bindings import Bindings
from berth.node.record import ClaimRecord, HeldDevice
from berth.rehearsal.drivercore import VFIO
from berth.vfio.binding import Binding, Stage
from berth.vfio.wayin import WayIn
from tests.integration.nic.beds import BOOT, Bed
from tests.integration.node.nodebeds import DRIVER, Node
from tests.integration.node.test_crashes import originals_of
from tests.vfio_tree import NIC, NIC_GROUP, VfioMachine

pytestmark = pytest.mark.root

UID = "u1"
OWN_DRIVER = "mlx5_core"
MAC = "02:00:00:00:00:41"


class Scene:
    """A NIC with all that a host can have on its link, and a claim that has it bound.

    Attributes:
        comes: Whether the link comes back with its driver.
    """

    def __init__(self, bed: Bed, node: Node, folder: Path, *, groups: bool = True) -> None:
        self.bed, self.node = bed, node
        self.comes = True
        self.machine = VfioMachine(
            folder / "machine", groups=groups, noiommu=not groups, changed=self._changed
        )
        self.make_link()
        for command in (
            "link set dev v0 mtu 1400",
            "link property add dev v0 altname enp65s0",
            "addr add 10.9.0.1/24 dev v0",
            "route add 10.8.0.0/16 via 10.9.0.2",
            "neigh add 10.9.0.2 lladdr 02:00:00:00:00:77 dev v0",
        ):
            bed.home.ip(*command.split())
        self.bindings = self.new_bindings(node)

    def new_bindings(self, node: Node) -> Bindings:
        """Whoever binds, in one life."""
        return Bindings(
            node.records,
            links=node.nics,
            files=self.machine.files,
            drivers=self.machine.drivers,
        )

    @property
    def link(self) -> Link:
        """The link at home."""
        return self.bed.link("v0")

    def make_link(self) -> None:
        """Have the link appear."""
        self.bed.veth("v0")
        self.bed.home.ip("link", "set", "dev", "v0", "address", MAC, "up")

    async def prepare(self, way: WayIn | None = None, *, noiommu: bool = False) -> ClaimRecord:
        """Prepare a claim on it, as far as the NIC goes."""
        draft = drafted(way or WayIn(), noiommu=noiommu)
        async with self.node.records.lock(UID):
            staged = await self.node.nics.stage(draft, [self.link.index])
            bound = await self.bindings.bind(staged)
            prepared = attrs.evolve(bound, prepared=True, generation=1)
            await self.node.records.put(prepared)
        return prepared

    def binding(self) -> Binding:
        """The binding, as its record has it."""
        record = self.node.records.get(UID)
        assert record is not None
        binding = record.devices[0].binding
        assert binding is not None
        return binding

    def _changed(self, address: str, driver: str) -> None:
        if address != NIC:
            return
        if driver == OWN_DRIVER and self.comes:
            self.make_link()
        elif not driver and "v0" in self.bed.names():
            self.bed.forget("v0")


def drafted(way: WayIn, *, noiommu: bool) -> ClaimRecord:
    """The claim's record before anything is done."""
    link = NicRecord(
        identity=f"pci:{NIC}",
        device="nic-0000-41-00-0",
        group="machines",
        config=NicConfig(mode=AttachMode.VFIO, vfio=way),
        boot_id=BOOT,
    )
    device = HeldDevice(
        result=DeviceResult(request="nic", pool="node/nic", device=link.device),
        identity=link.identity,
        type="nic-vfio",
        attributes={},
        binding=Binding(address=NIC, way=way, allow_noiommu=noiommu, keys=(f"iommu:{NIC_GROUP}",)),
        link=link,
    )
    return ClaimRecord(
        claim=ClaimRef(namespace="team", name=f"claim-{UID}", uid=UID),
        pod_claim_name=None,
        consumers=(Consumer(resource="pods", name="vm", uid="p1"),),
        driver=DRIVER,
        boot_id=BOOT,
        devices=(device,),
    )


@pytest.fixture(name="scene")
def _scene(bed: Bed, node: Node, tmp_path: Path) -> Scene:
    return Scene(bed, node, tmp_path)


def shown(link: Link) -> dict[str, str]:
    """How a link is, but for the number that the kernel gave it."""
    found = {name: str(value) for name, value in originals_of(link).items()}
    own = rf"\b(index|link|oif)={link.index}\b"
    return {name: re.sub(own, r"\1=own", text) for name, text in found.items() if name != "index"}


async def test_nic_is_bound_and_comes_home_as_it_was(scene: Scene) -> None:
    """Name, MTU, addresses, routes and neighbors, under whatever index the kernel gives."""

    before = shown(scene.link)
    record = await scene.prepare()

    assert "v0" not in scene.bed.names()
    assert scene.machine.core.driver(NIC) == VFIO
    (device,) = record.devices
    assert [node.path for node in device.edits.nodes] == [
        "/dev/vfio/vfio",
        f"/dev/vfio/{NIC_GROUP}",
    ]
    assert device.keys == (f"pci:{NIC}", f"iommu:{NIC_GROUP}")
    assert not record.has_nics

    await scene.node.revoke(UID)
    assert await scene.bindings.give_back(UID)

    assert scene.machine.state(NIC) == (OWN_DRIVER, "(null)")
    assert shown(scene.link) == before
    assert scene.binding().stage is Stage.HOME


async def test_next_life_brings_it_home(scene: Scene, node: Node) -> None:
    """What the link was stands in the record, so a restart changes nothing."""

    before = shown(scene.link)
    await scene.prepare()
    await scene.node.revoke(UID)

    second = Node(scene.bed, node.folder)
    await second.records.load()
    scene.node, scene.bindings = second, scene.new_bindings(second)
    assert await scene.bindings.give_back(UID)

    assert shown(scene.link) == before


async def test_bind_that_fails_brings_the_link_back(scene: Scene) -> None:
    """The former driver makes it anew, and everything is put on it again."""

    before = shown(scene.link)
    scene.machine.core.refused.add((VFIO, NIC))

    with pytest.raises(HostError, match="is bound to no driver after a probe"):
        await scene.prepare()

    assert shown(scene.link) == before
    assert scene.binding().stage is Stage.HOME


async def test_link_that_does_not_come_is_waited_for(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver has the function and no link yet: the claim is not over before it is as it was."""

    monkeypatch.setattr(functions, "LINK_S", 0.3)
    before = shown(scene.link)
    await scene.prepare()
    scene.comes = False
    await scene.node.revoke(UID)

    assert not await scene.bindings.give_back(UID)
    assert scene.binding().stage is Stage.RETURNING
    assert "its link" in scene.binding().fault

    scene.make_link()
    assert await scene.bindings.give_back(UID)
    assert shown(scene.link) == before


async def test_nic_without_iommu_needs_leave(bed: Bed, node: Node, tmp_path: Path) -> None:
    """With it the node of its group has the name that says so; without it nothing is done."""

    scene = Scene(bed, node, tmp_path, groups=False)
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
    assert "v0" in scene.bed.names()
