"""What is read of a sysfs tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth.host.hardware import Bearer, PciFunction, Port
from berth.host.sysfs import Sysfs
from tests.sysfs_tree import BRIDGE, INFINIBAND, SysfsTree

PF = "0000:41:00.0"


@pytest.fixture(name="tree")
def _tree(tmp_path: Path) -> SysfsTree:
    return SysfsTree(tmp_path / "sys")


def test_function_is_read_with_all_that_it_tells(tree: SysfsTree) -> None:
    """Ids, place, driver and RDMA device of a physical function."""

    tree.function(
        PF,
        numa_node=1,
        acpi_index=3,
        iommu_group=12,
        total_vfs=8,
        rdma=("mlx5_1", "mlx5_0"),
    )

    assert tree.sysfs.functions() == (
        PciFunction(
            address=PF,
            class_code=0x020000,
            vendor="15b3",
            device="1019",
            subsystem_vendor="15b3",
            subsystem_device="0069",
            driver="mlx5_core",
            numa_node=1,
            pcie_root="pci0000:40",
            total_vfs=8,
            acpi_index=3,
            iommu_group=12,
            rdma=("mlx5_0", "mlx5_1"),
        ),
    )


def test_unknown_facts_are_unknown_not_zero(tree: SysfsTree) -> None:
    """What a machine does not tell must not match what another does not tell."""

    tree.function(PF, driver="")
    (function,) = tree.sysfs.functions()

    assert (function.numa_node, function.acpi_index, function.iommu_group) == (None, None, None)
    assert (function.driver, function.physfn, function.vf_index) == ("", "", None)
    assert function.rdma == ()


def test_virtual_functions_know_their_pf_and_number(tree: SysfsTree) -> None:
    """The number is the PF's, whatever the addresses are."""

    tree.function(PF, total_vfs=8)
    tree.vf("0000:41:10.2", pf=PF, number=1)
    tree.vf("0000:41:10.0", pf=PF, number=11)
    pf, first, second = tree.sysfs.functions()

    assert (pf.num_vfs, pf.total_vfs, pf.vf_index) == (2, 8, None)
    assert (first.address, first.physfn, first.vf_index) == ("0000:41:10.0", PF, 11)
    assert (second.address, second.physfn, second.vf_index) == ("0000:41:10.2", PF, 1)


def test_other_functions_are_left_out_unless_they_carry_links(tree: SysfsTree) -> None:
    """Neither bridges nor other controllers are NICs; one that has a link is looked at."""

    tree.function("0000:40:00.0", class_code=BRIDGE)
    tree.function("0000:42:00.0", class_code=0x120000)
    tree.function(PF)
    (tree.root / "bus/pci/devices/README").touch()

    assert [f.address for f in tree.sysfs.functions()] == [PF]
    assert [f.address for f in tree.sysfs.functions({"0000:42:00.0"})] == [PF, "0000:42:00.0"]


def test_soft_rdma_devices_by_their_link(tree: SysfsTree) -> None:
    """Software that makes one says of which link; a device of hardware says none."""

    tree.function("0000:41:00.0", rdma=("mlx5_0",))
    for name in ("rxe1", "rxe0"):
        folder = tree.root / "devices/virtual"
        tree.rdma(name, folder)
        (folder / "infiniband" / name / "parent").write_text("ens1\n")

    assert tree.sysfs.soft_rdma() == {"ens1": ("rxe0", "rxe1")}
    assert tree.sysfs.functions()[0].rdma == ("mlx5_0",)


def test_rdma_device_makes_a_function_of_another_class_known(tree: SysfsTree) -> None:
    """Not every HCA says that it is a network controller."""

    tree.function("0000:43:00.0", class_code=0x0C0600, rdma=("mthca0",))
    tree.function("0000:44:00.0", class_code=INFINIBAND)

    assert [(f.address, f.rdma) for f in tree.sysfs.functions()] == [
        ("0000:43:00.0", ("mthca0",)),
        ("0000:44:00.0", ()),
    ]


def test_soft_rdma_device_is_on_no_function(tree: SysfsTree) -> None:
    """A soft one hangs from no hardware, and must not make a NIC of something."""

    tree.rdma("rxe0", tree.root / "devices/virtual")
    tree.function(PF)
    (function,) = tree.sysfs.functions()

    assert function.rdma == ()


@pytest.mark.parametrize(
    ("address", "under", "root"),
    [
        (PF, "pci0000:40/0000:40:01.0", "pci0000:40"),
        ("0000:00:1f.6", "pci0000:00", "pci0000:00"),
        ("10000:01:00.0", "pci0000:00/0000:00:0e.0/pci10000:00/10000:00:02.0", ""),
        ("0001:41:00.0", "platform/soc/pci0001:00", ""),
    ],
)
def test_pcie_root_is_first_part_of_the_way(
    tree: SysfsTree, address: str, under: str, root: str
) -> None:
    """KC §4.7: neither for a domain of five digits nor for a way of another form."""

    tree.function(address, under=under)
    (function,) = tree.sysfs.functions()

    assert function.pcie_root == root


def test_five_digit_domain_keeps_its_digits(tree: SysfsTree) -> None:
    """Behind a VMD controller; the standard attributes do not know such addresses."""

    tree.function("10000:01:00.0")
    (function,) = tree.sysfs.functions()

    assert function.address == "10000:01:00.0"
    assert not function.is_standard


def test_driver_and_vf_count_are_read_anew(tree: SysfsTree) -> None:
    """They change while the function stays."""

    folder = tree.function(PF, total_vfs=8)
    before = tree.sysfs.functions()[0]
    tree.bind(folder, "vfio-pci")
    tree.vf("0000:41:10.0", pf=PF, number=0)
    after = tree.sysfs.functions()[0]

    assert (before.driver, before.num_vfs) == ("mlx5_core", 0)
    assert (after.driver, after.num_vfs) == ("vfio-pci", 1)


def test_another_function_at_the_same_address_is_read_anew(tree: SysfsTree) -> None:
    """A card was replaced: nothing of the former one may stick."""

    tree.function(PF, device="1019")
    tree.sysfs.functions()
    tree.remove(PF)
    gone = tree.sysfs.functions()
    tree.function(PF, device="101e")

    assert gone == ()
    assert tree.sysfs.functions()[0].device == "101e"


def test_function_that_vanishes_meanwhile_is_left_out(tree: SysfsTree) -> None:
    """Its entry leads nowhere any more."""

    tree.function(PF)
    tree.function("0000:42:00.0")
    for file in tree.folder("0000:42:00.0").iterdir():
        file.unlink()

    assert [f.address for f in tree.sysfs.functions()] == [PF]


def test_machine_without_pci_has_no_functions(tmp_path: Path) -> None:
    """An empty tree is a machine too."""

    assert Sysfs(tmp_path).functions() == ()


def test_has_function_follows_the_machine(tree: SysfsTree) -> None:
    """It is how a lost device is told from one that is away."""

    tree.function(PF)
    assert tree.sysfs.has_function(PF)
    tree.remove(PF)
    assert not tree.sysfs.has_function(PF)


def test_bearer_on_pci_is_the_function(tree: SysfsTree) -> None:
    """The plain case."""

    tree.function(PF)

    assert tree.sysfs.bearer("pci", PF) == Bearer(function=PF, below=PF)


def test_bearer_on_virtio_is_the_function_that_has_it(tree: SysfsTree) -> None:
    """Its driver is the one that makes the link, not the bus's."""

    tree.function(PF, driver="virtio-pci")
    tree.virtio("virtio3", on=PF)

    assert tree.sysfs.bearer("virtio", "virtio3") == Bearer(
        function=PF, below=PF, driver="virtio_net"
    )


def test_bearer_of_a_sub_function_is_not_the_function(tree: SysfsTree) -> None:
    """It hangs from the PF, but the PF's own link is another."""

    tree.function(PF)
    tree.subfunction("mlx5_core.sf.4", on=PF)

    assert tree.sysfs.bearer("auxiliary", "mlx5_core.sf.4") == Bearer(
        below=PF, driver="mlx5_core.sf"
    )


@pytest.mark.parametrize(
    ("on", "ports", "path"),
    [
        ("pci0000:00/0000:00:14.0", "2", "pci-0000:00:14.0-usb-0:2:1.0"),
        ("pci0000:00/0000:00:14.0", "2.4", "pci-0000:00:14.0-usb-0:2.4:1.0"),
        ("platform/xhci-hcd.0.auto", "1", "platform-xhci-hcd.0.auto-usb-0:1:1.0"),
    ],
)
@pytest.mark.parametrize("bus", [1, 3])
def test_usb_path_is_made_of_places_not_of_numbers(
    tree: SysfsTree, on: str, ports: str, path: str, bus: int
) -> None:
    """The number of the bus depends on who was first at boot, and is left out."""

    tree.usb(ports, on=on, bus=bus, product="Ethernet Dongle")

    assert tree.sysfs.bearer("usb", f"{bus}-{ports}:1.0") == Bearer(
        usb_path=path, product="Ethernet Dongle", driver="cdc_ncm"
    )


@pytest.mark.parametrize("bus", ["usb", "virtio", "vmbus"])
def test_bearer_that_is_gone_tells_nothing(tree: SysfsTree, bus: str) -> None:
    """A link's device may go while it is asked about."""

    assert tree.sysfs.bearer(bus, "none") == Bearer()


def test_port_is_read_of_the_link_of_that_number_alone(tree: SysfsTree) -> None:
    """A folder of that name may be another link's, after a rename or in another namespace."""

    folder = tree.function(PF, ptp=True)
    tree.link("ens1f0", 7, on=folder, dev_port=1)

    assert tree.sysfs.port("ens1f0", 7) == Port(dev_port=1, ptp=True)
    assert tree.sysfs.port("ens1f0", 8) is None
    assert tree.sysfs.port("ens1f1", 7) is None


def test_radio_is_known_by_its_phy(tree: SysfsTree) -> None:
    """Wireless links are never offered."""

    tree.link("wlp2s0", 7, wireless=True)

    assert tree.sysfs.port("wlp2s0", 7) == Port(wireless=True)


@pytest.mark.parametrize(("speed", "told"), [(25000, 25000), (-1, None), (0, None), (None, None)])
def test_speed_is_told_only_when_there_is_one(
    tree: SysfsTree, speed: int | None, told: int | None
) -> None:
    """Drivers without one say -1, or nothing."""

    tree.link("ens1f0", 7, speed=speed)

    assert tree.sysfs.speed_mbps("ens1f0") == told


def test_model_is_the_same_for_all_copies(tree: SysfsTree) -> None:
    """By it a product's name is asked for once."""

    tree.function(PF)
    tree.function("0000:42:00.0")
    models = {function.model for function in tree.sysfs.functions()}

    assert models == {"15b3:1019:15b3:0069"}


def test_chosen_functions_come_with_their_iommu_groups(tree: SysfsTree) -> None:
    """What shares a group with a GPU decides whether that can be given to a machine."""

    gpu, sound, other = "0000:3b:00.0", "0000:3b:00.1", "0000:3c:00.0"
    tree.function(gpu, class_code=0x030200, vendor="10de", driver="vfio-pci", iommu_group=7)
    tree.function(sound, class_code=0x040300, vendor="10de", driver="snd", iommu_group=7)
    tree.function(other, class_code=0x030000, vendor="1002", driver="amdgpu", iommu_group=8)
    tree.function(PF, iommu_group=9)

    found = tree.sysfs.chosen(lambda function: function.is_nvidia_gpu)

    assert [(each.address, each.driver) for each in found] == [(gpu, "vfio-pci"), (sound, "snd")]
    assert [each.address for each in tree.sysfs.functions()] == [PF]


def test_functions_that_share_a_group_are_found(tree: SysfsTree) -> None:
    """Whatever their class; without groups nobody shares one."""

    nic, disk, far, bare = (f"0000:41:00.{number}" for number in range(4))
    tree.function(nic, iommu_group=7)
    tree.function(disk, class_code=0x010802, driver="nvme", iommu_group=7)
    tree.function(far, class_code=0x010802, driver="nvme", iommu_group=8)
    tree.function(bare, class_code=0x010802, driver="nvme")
    sysfs = tree.sysfs

    found = sysfs.sharing(sysfs.functions())

    assert [(each.address, each.driver) for each in found] == [(nic, "mlx5_core"), (disk, "nvme")]
    assert sysfs.sharing(()) == ()


def test_group_that_comes_with_the_driver_is_seen(tree: SysfsTree) -> None:
    """Without an IOMMU vfio-pci makes one, and deals its number anew each time."""
    folder = tree.function(PF)
    sysfs = tree.sysfs
    (before,) = sysfs.functions()

    seen: list[PciFunction] = []
    for number in (3, 4):
        group = tree.root / f"kernel/iommu_groups/{number}"
        group.mkdir(parents=True)
        (group / "name").write_text("vfio-noiommu\n")
        (folder / "iommu_group").unlink(missing_ok=True)
        (folder / "iommu_group").symlink_to(group)
        tree.bind(folder, "vfio-pci")
        seen += sysfs.functions()

    assert (before.iommu_group, before.noiommu) == (None, False)
    assert [(each.iommu_group, each.noiommu) for each in seen] == [(3, True), (4, True)]
