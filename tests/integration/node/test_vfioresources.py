"""NICs of vfio-pci that are asked for as resources, on a machine of files."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Iterable
from pathlib import Path
from typing import Any

import pytest

from berth.config.doors import Door
from berth.config.match import NicMatch, PciPattern
from berth.config.nic import NicTable
from berth.config.nicgroup import NicGroup
from berth.errors import ClaimError
from berth.host.nicnodes import NicNodeReader
from berth.host.scan import Scanner
from berth.host.sysfs import Sysfs
from berth.model.device import NicMode
from berth.model.peripheral import Peripheral
from berth.model.resource import Grant
from berth.node.inventory.discovery import Discovery
from berth.node.ledger import Ledger
from berth.node.plugin.allotments import Allotments, given_shelf
from berth.node.plugin.deviceinfofiles import DeviceInfoFiles
from berth.node.plugin.nicloans import NicLoans
from berth.node.records.given import Given
from berth.node.records.records import Records
from berth.node.records.shelf import Shelf
from berth.rehearsal.drivercore import VFIO
from tests.integration.nic.beds import BOOT
from tests.integration.node.boundbeds import machine_of
from tests.integration.node.nodebeds import Node
from tests.sysfs_tree import SysfsTree
from tests.vfio_tree import NIC, NIC_GROUP, VfioMachine

pytestmark = pytest.mark.root

RESOURCE = "lab.example/dpdk"
OTHER = "0000:41:00.1"


class NoFiles:
    """CDI files that nobody asks for."""

    async def write(self, peripherals: Iterable[Peripheral]) -> None:
        """Write none."""
        assert not any(one.is_by_cdi for one in peripherals)

    def id(self, one: Peripheral, id_: str) -> str:
        """Name none."""
        raise AssertionError(one, id_)


class Desk:
    """The device plugin's side of a node whose functions are files."""

    def __init__(self, node: Node, folder: Path, machine: VfioMachine, group: NicGroup) -> None:
        sys, dev = machine.root / "sys", machine.root / "dev"
        self.machine = machine
        self.given: Shelf[Given] = given_shelf(folder / "ledger")
        self.discovery = Discovery(
            Records(folder / "claims"),
            table=NicTable(groups=(group,)),
            sysfs=Sysfs(sys),
            toward=lambda: (),
            own_addresses=lambda: (),
            stirred=lambda: None,
            given=self.given,
            scanner=Scanner(Sysfs(sys), nodes=NicNodeReader(sys, dev)),
        )
        self.allotments = Allotments(
            self.given,
            ledger=Ledger(),
            inventory=self.discovery.inventory,
            files=NoFiles(),
            boot_id=BOOT,
            loans=NicLoans(
                self.given,
                nics=node.nics,
                eyes=self.discovery,
                groups=[group],
                boot_id=BOOT,
                files=DeviceInfoFiles(folder / "dp"),
            ),
        )

    def bind(self) -> None:
        """Bind the NIC to vfio-pci, as an operator does."""
        drivers = self.machine.drivers
        drivers.set_override(NIC, VFIO)
        if driver := self.machine.core.driver(NIC):
            drivers.unbind(NIC, driver)
        drivers.probe(NIC)

    async def obstacle(self) -> str:
        """Why the NIC cannot be had now."""
        inventory = (await self.discovery.look()).inventory
        return next(one.obstacle for one in inventory.listings if one.ids == (NIC,))

    async def give(self, address: str = NIC) -> Grant:
        """Ask for one as kubelet does."""
        return await self.allotments.allocate(RESOURCE, (address,))

    def free(self) -> Awaitable[None]:
        """Let kubelet forget whoever has one."""
        (given,) = self.given.all()
        return self.allotments.free(given)


def nodes_of(grant: Grant) -> list[tuple[str, str]]:
    """What a container finds, and what it is on the host."""
    return [(node.path, node.host_path) for node in grant.edits.nodes]


def env_of(grant: Grant) -> dict[str, str]:
    """What stands in its environment."""
    return dict(entry.split("=", 1) for entry in grant.edits.env)


async def set_desk(node: Node, machine: VfioMachine, **keys: Any) -> Desk:
    """The desk of a group that selects both functions of the NIC."""
    match = NicMatch(pci=(PciPattern("0000:41:*"),))
    group = NicGroup(
        name="dpdk",
        match=match,
        mode=NicMode.VFIO,
        door=Door.PLUGIN,
        resource=RESOURCE,
        **keys,
    )
    desk = Desk(node, node.folder, machine, group)
    await desk.given.load()
    await desk.discovery.look()
    return desk


async def test_function_is_given_as_it_is_bound(node: Node, tmp_path: Path) -> None:
    """With its nodes and what programs look for; nothing is done to it before or after."""

    desk = await set_desk(node, machine_of(tmp_path))
    assert "mlx5_core is bound" in await desk.obstacle()
    desk.bind()
    assert await desk.obstacle() == ""

    grant = await desk.give()
    own = f"/dev/vfio/{NIC_GROUP}"
    assert nodes_of(grant) == [("/dev/vfio/vfio", "/dev/vfio/vfio"), (own, own)]
    env = env_of(grant)
    assert env["PCIDEVICE_LAB_EXAMPLE_DPDK"] == NIC
    assert json.loads(env["PCIDEVICE_LAB_EXAMPLE_DPDK_INFO"]) == {
        NIC: {
            "generic": {"deviceID": NIC},
            "vfio": {"mount": "/dev/vfio/vfio", "dev-mount": own},
        }
    }
    (told,) = (tmp_path / "dp").iterdir()
    assert json.loads(told.read_bytes())["pci"] == {"pci-address": NIC}

    await desk.free()
    assert desk.machine.state(NIC) == (VFIO, VFIO)
    assert list((tmp_path / "dp").iterdir()) == []


async def test_member_of_the_group_is_given_to_nobody_else(node: Node, tmp_path: Path) -> None:
    """While it has its kernel driver it is in the way, and once bound it is held with the other."""

    tree = SysfsTree.at(machine_of(tmp_path).root / "sys")
    tree.function(OTHER, iommu_group=NIC_GROUP)
    desk = await set_desk(node, machine_of(tmp_path))
    desk.bind()
    assert f"{OTHER} of the same group is bound to mlx5_core" in await desk.obstacle()

    tree.bind(tree.folder(OTHER), VFIO)
    await desk.give()
    with pytest.raises(ClaimError, match="its IOMMU group is with"):
        await desk.give(OTHER)


async def test_group_without_iommu_is_read_anew(node: Node, tmp_path: Path) -> None:
    """Its number is dealt with each binding; the container finds the node by that number."""

    desk = await set_desk(node, machine_of(tmp_path, groups=False), allow_noiommu=True)
    desk.bind()
    await desk.discovery.look()
    before = desk.machine.files.facts(NIC).group
    desk.machine.drivers.unbind(NIC, VFIO)
    desk.bind()
    number = desk.machine.files.facts(NIC).group
    assert number != before

    own = (f"/dev/vfio/{number}", f"/dev/vfio/noiommu-{number}")
    assert nodes_of(await desk.give())[-1] == own


async def test_group_without_iommu_is_given_by_leave_alone(node: Node, tmp_path: Path) -> None:
    """Nothing keeps the DMA of such a function from the node's memory."""

    desk = await set_desk(node, machine_of(tmp_path, groups=False))
    desk.bind()

    assert "a group without an IOMMU" in await desk.obstacle()
    with pytest.raises(ClaimError, match="is not offered now"):
        await desk.give()


async def test_function_is_given_by_its_own_node_if_its_group_says_so(
    node: Node, tmp_path: Path
) -> None:
    """With that of iommufd; programs find both paths where they find those of groups."""

    machine = machine_of(tmp_path, iommufd=True)
    desk = await set_desk(node, machine, defaults={"vfio": {"iommufd": True}})
    desk.bind()
    assert await desk.obstacle() == ""

    grant = await desk.give()
    own = f"/dev/vfio/devices/{machine.files.facts(NIC).name}"
    assert nodes_of(grant) == [("/dev/iommu", "/dev/iommu"), (own, own)]
    told = json.loads(env_of(grant)["PCIDEVICE_LAB_EXAMPLE_DPDK_INFO"])[NIC]
    assert told["vfio"] == {"mount": "/dev/iommu", "dev-mount": own}


async def test_function_without_a_node_of_its_own_is_not_given_by_it(
    node: Node, tmp_path: Path
) -> None:
    """Nor is it by its group's, which whoever asks by iommufd could not use."""

    desk = await set_desk(node, machine_of(tmp_path), defaults={"vfio": {"iommufd": True}})
    desk.bind()

    assert "/dev/iommu, /dev/vfio/devices/? is not there" in await desk.obstacle()
    with pytest.raises(ClaimError, match="is not offered now"):
        await desk.give()


async def test_container_is_given_what_the_group_says_beside_a_function(
    node: Node, tmp_path: Path
) -> None:
    """Without the interface's node, where its runtime adds that."""

    defaults = {"vfio": {"apiDevice": False}}
    desk = await set_desk(node, machine_of(tmp_path), defaults=defaults)
    desk.bind()
    grant = await desk.give()

    own = f"/dev/vfio/{NIC_GROUP}"
    assert nodes_of(grant) == [(own, own)]
    told = json.loads(env_of(grant)["PCIDEVICE_LAB_EXAMPLE_DPDK_INFO"])[NIC]
    assert told["vfio"] == {"dev-mount": own}
