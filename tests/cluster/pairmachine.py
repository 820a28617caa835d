"""A machine with four PCIe roots, each with a GPU and a NIC, two to a socket, each a NUMA node.

The NICs are functions that vfio-pci has: a link of this machine cannot hang from another's root.
Their addresses run against those of the GPUs, so the first of each kind are far from each other.
"""

from __future__ import annotations

from pathlib import Path

from berth.rehearsal.nvml.cards import whole
from tests.cluster.gpumachine import LOCAL_MAJOR, GpuMachine

ROOTS = ("pci0000:15", "pci0000:37", "pci0000:59", "pci0000:7a")
"""By NUMA node; the first two and the last two are in one socket."""
GPUS = ("0000:16:00.0", "0000:38:00.0", "0000:5a:00.0", "0000:7b:00.0")
NICS = ("0000:42:00.0", "0000:41:00.0", "0000:32:00.0", "0000:31:00.0")
CARDS = tuple(whole(number, address) for number, address in enumerate(GPUS))
DISTANCES = ("10 12 21 21", "12 10 21 21", "21 21 10 12", "21 21 12 10")
SETTINGS = f"""
[[gpu.group]]
name = "near"
match = {{ type = ["gpu"] }}
inject = "cdi"

[[nic.group]]
name = "near"
mode = "vfio"
match = {{ pci = [{", ".join(f'"{address}"' for address in NICS)}] }}
"""
"""The GPUs and NICs of such a machine, for claims."""


def _device(kind: str, address: str) -> str:
    return f"{kind}-{address.replace(':', '-').replace('.', '-')}"


def gpu(root: int) -> str:
    """The device that the GPU of a root is published as."""
    return _device("gpu", GPUS[root])


def nic(root: int) -> str:
    """The device that the NIC of a root is published as."""
    return _device("nic", NICS[root])


def root_of(device: str) -> int:
    """The root that a device hangs from."""
    return next(n for n in range(len(ROOTS)) if device in {gpu(n), nic(n)})


EVERY = tuple(make(root) for make in (gpu, nic) for root in range(len(ROOTS)))


class PairMachine(GpuMachine):
    """The trees of it.

    Args:
        folder: Where they lie, on a file system with device nodes.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, ())
        # Where links are without hardware is this machine's.
        (self.tree / "sys/devices/virtual").mkdir(parents=True)
        (self.tree / "sys/bus/pci/drivers/vfio-pci").mkdir(parents=True)
        (self.tree / "dev/vfio").mkdir()
        self.node("vfio/vfio", 10, 196)
        for root in range(len(ROOTS)):
            self._hang(root, GPUS[root])
            self._plug_nic(root, self._hang(root, NICS[root]))
        self.show(CARDS)
        for root in range(len(ROOTS)):
            self._place(root)

    def _hang(self, root: int, address: str) -> Path:
        """Let a function be there, below a root."""
        folder = self.tree / "sys/devices" / ROOTS[root] / address
        folder.mkdir(parents=True)
        entry = self.tree / "sys/bus/pci/devices" / address
        entry.symlink_to(f"../../../devices/{ROOTS[root]}/{address}")
        return folder

    def _plug_nic(self, root: int, folder: Path) -> None:
        for name, value in (
            *(("class", "0x020000"), ("vendor", "0x15b3"), ("device", "0x101e")),
            ("driver_override", "(null)"),
        ):
            (folder / name).write_text(f"{value}\n", encoding="utf-8")
        (folder / "driver").symlink_to("../../../bus/pci/drivers/vfio-pci")
        (folder / "iommu_group").symlink_to(f"../../../kernel/iommu_groups/{_group(root)}")
        self.node(f"vfio/{_group(root)}", LOCAL_MAJOR, _group(root))

    def _place(self, number: int) -> None:
        """Put the functions of a root on its NUMA node, which is there with one CPU."""
        for address in (GPUS[number], NICS[number]):
            file = self.tree / "sys/bus/pci/devices" / address / "numa_node"
            file.write_text(f"{number}\n", encoding="utf-8")
        node = self.tree / f"sys/devices/system/node/node{number}"
        node.mkdir(parents=True)
        (node / "distance").write_text(f"{DISTANCES[number]}\n", encoding="utf-8")
        (node / "cpulist").write_text(f"{number}\n", encoding="utf-8")
        topology = self.tree / f"sys/devices/system/cpu/cpu{number}/topology"
        topology.mkdir(parents=True)
        socket = f"{number // 2}\n"
        (topology / "physical_package_id").write_text(socket, encoding="utf-8")


def _group(root: int) -> int:
    """The IOMMU group of a root's NIC."""
    return 40 + root
