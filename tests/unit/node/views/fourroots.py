"""A machine of two NUMA nodes with two PCIe roots each, and pods that have parts of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from berth.host.numanodes import read_numa_nodes
from berth.model.device import Device, Nic, NicKind
from berth.model.inventory import Inventory
from berth.model.peripheral import Door, Peripheral
from berth.model.provision import ContainerProvision, MemoryBlock, PodProvision, UnitBlock
from berth.model.resource import ClaimUsage, ContainerRef
from berth.node.views import Layout, addresses
from tests.sysfs_tree import SysfsTree

NEAR, FAR, SFP = "nic-0000-21-00-0", "nic-0000-a1-00-0", "nic-0000-c1-00-2"
GPU = "gpu-0000-31-00-0"
GIB = 1 << 30


def tree(root: Path) -> SysfsTree:
    """Its sysfs: of four NICs and a GPU."""
    made = SysfsTree(root)
    made.numa_node(0, cpus="0-3,8-11", memory_kib=64 << 20)
    made.numa_node(1, cpus="4-7,12-15", memory_kib=64 << 20)
    for bus, device, numa in (("20", "21", 0), ("30", "31", 0), ("a0", "a1", 1), ("c0", "c1", 1)):
        under = f"pci0000:{bus}/0000:{bus}:01.0"
        made.function(f"0000:{device}:00.0", under=under, numa_node=numa)
    made.function("0000:c1:00.2", under="pci0000:c0/0000:c0:01.0", numa_node=1)
    return made


def _nic(name: str, pci: str, ifname: str, **more: Any) -> Nic:
    return Nic(
        identity=f"pci:{pci}", name=name, kind=NicKind.PF, group="fast", ifname=ifname, pci=pci,
        **more,
    )  # fmt: skip


INVENTORY = Inventory(
    nics=(
        _nic(NEAR, "0000:21:00.0", "ens1", held_by=("default/uplink",)),
        _nic(FAR, "0000:a1:00.0", "ens2"),
        _nic(SFP, "0000:c1:00.2", "ens3"),
        Nic(identity="link:boot:9", name="veth9", kind=NicKind.VIRTUAL, ifname="veth9"),
    ),
    peripherals=(
        Peripheral(
            identity="gpu:1",
            name=GPU,
            kind="gpu",
            type="gpu",
            group="all",
            keys=("gpu:1",),
            door=Door.PLUGIN,
            resource="berth.dev/gpu",
            ids=("GPU-1::0", "GPU-1::1"),
            slots=2,
            numa=(0,),
            pcie_root="pci0000:30",
            attributes={"resource.kubernetes.io/pciBusID": "0000:31:00.0"},
            path="/dev/nvidia0",
        ),
    ),
    devices=tuple(
        Device(name=name, identity=name, type="nic", group="fast", attributes={})
        for name in (NEAR, FAR, SFP)
    ),
)


def container(pod: str, name: str, **has: Any) -> ContainerProvision:
    """One container of a pod in the namespace ``default``."""
    return ContainerProvision(
        container=ContainerRef(namespace="default", pod=pod, container=name), **has
    )


def claimed(
    pod: str, name: str, device: str, *, claim: str = "uplink", driver: str = "berth.dev"
) -> ClaimUsage:
    """A device that a container has of a claim."""
    return ClaimUsage(
        container=ContainerRef(namespace="default", pod=pod, container=name),
        namespace="default",
        name=claim,
        driver=driver,
        pool="worker-7",
        device=device,
    )


def pod(name: str, *containers: ContainerProvision, **has: Any) -> PodProvision:
    """One pod in the namespace ``default``."""
    return PodProvision(namespace="default", name=name, containers=containers, **has)


def near() -> PodProvision:
    """All of it on node 0, its NIC and its GPU below different roots."""
    shares = UnitBlock(resource="berth.dev/gpu", ids=("GPU-1::0", "GPU-1::1"), numa=(0,))
    return pod(
        "near",
        container(
            "near",
            "main",
            cpus=(2, 3),
            memory=(MemoryBlock(type="memory", size_bytes=GIB, numa=(0,)),),
            units=(shares,),
            claims=(claimed("near", "main", NEAR),),
        ),
        container("near", "side"),
    )


def torn() -> PodProvision:
    """CPUs and huge pages on node 0, and another plugin's VF, known by its address, on node 1."""
    vf = UnitBlock(resource="intel.com/vf", ids=("0000:c1:00.0",))
    return pod(
        "torn",
        container(
            "torn",
            "main",
            cpus=(8, 9),
            memory=(MemoryBlock(type="hugepages-2Mi", size_bytes=GIB // 4, numa=(0,)),),
            units=(vf,),
            claims=(claimed("torn", "main", "tpu-0", claim="tpu", driver="tpu.example.com"),),
        ),
    )


def whole() -> PodProvision:
    """A pod that kubelet manages as a whole: one container has a CPU, the other shares the rest."""
    return pod(
        "whole",
        container("whole", "own", cpus=(4,)),
        container("whole", "pool"),
        cpus=(4, 5, 6),
        memory=(MemoryBlock(type="memory", size_bytes=GIB, numa=(1,)),),
    )


PODS = (torn(), near(), whole(), pod("idle", container("idle", "main")))


def layout(root: Path, *pods: PodProvision, **changes: Any) -> Layout:
    """What is known of the machine while these pods run."""
    sysfs = tree(root).sysfs
    functions = {one: sysfs.function(one) for one in addresses(INVENTORY, pods)}
    known = {
        "node": "worker-7",
        "driver": "berth.dev",
        "inventory": INVENTORY,
        "numa": read_numa_nodes(root),
        "functions": {address: one for address, one in functions.items() if one is not None},
        "pods": pods,
    }
    return Layout(**{**known, **changes})
