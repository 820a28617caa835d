"""PodResources answers with CPUs, memory and devices, as values."""

from __future__ import annotations

from berth.deviceplugin.provisions import read_provisions
from berth.model.provision import ContainerProvision, MemoryBlock, PodProvision, UnitBlock
from berth.model.resource import ContainerRef
from berth.pb import podresources_v1_pb2 as pb


def topology(*nodes: int) -> pb.TopologyInfo:
    """What kubelet tells of a place."""
    return pb.TopologyInfo(nodes=[pb.NUMANode(ID=node) for node in nodes])


def test_read_provisions_gives_everything_with_its_place() -> None:
    """Entries of one resource stay apart by their NUMA nodes; one without ids is none."""

    pages = pb.ContainerMemory(memory_type="hugepages-2Mi", size=4 << 20, topology=topology(1, 0))
    main = pb.ContainerResources(
        name="main",
        cpu_ids=[3, 2, 3],
        memory=[pages],
        devices=[
            pb.ContainerDevices(resource_name="x/y", device_ids=["a"], topology=topology(0)),
            pb.ContainerDevices(resource_name="x/y", device_ids=["b"]),
            pb.ContainerDevices(resource_name="x/z", topology=topology(1)),
        ],
        dynamic_resources=[
            pb.DynamicResource(
                claim_name="claim",
                claim_namespace="ns",
                claim_resources=[pb.ClaimResource(driver_name="d", device_name="one")],
            )
        ],
    )
    side = pb.ContainerResources(name="side")
    whole = pb.PodResources(namespace="ns", name="pod", cpu_ids=[2, 3, 4], containers=[main, side])
    whole.memory.append(pb.ContainerMemory(memory_type="memory", size=7))

    (pod,) = read_provisions([whole])

    assert (pod.namespace, pod.name, pod.cpus) == ("ns", "pod", (2, 3, 4))
    assert pod.memory == (MemoryBlock(type="memory", size_bytes=7),)
    first, second = pod.containers
    assert (first.cpus, [claim.device for claim in first.claims]) == ((2, 3), ["one"])
    assert first.memory == (MemoryBlock(type="hugepages-2Mi", size_bytes=4 << 20, numa=(0, 1)),)
    assert first.units == (
        UnitBlock(resource="x/y", ids=("a",), numa=(0,)),
        UnitBlock(resource="x/y", ids=("b",)),
    )
    ref = ContainerRef(namespace="ns", pod="pod", container="side")
    assert second == ContainerProvision(container=ref)


def test_read_provisions_of_an_older_kubelet_has_nothing_of_pods() -> None:
    """Fields that it does not know are empty."""

    pods = [pb.PodResources(namespace="ns", name="pod")]

    assert read_provisions(pods) == (PodProvision(namespace="ns", name="pod"),)


def test_read_provisions_takes_no_number_that_the_kernel_cannot_have() -> None:
    """A plugin says -1 where it does not know; such a device has no place."""

    devices = pb.ContainerDevices(resource_name="x/y", device_ids=["a"], topology=topology(-1))
    main = pb.ContainerResources(name="main", cpu_ids=[-2, 5, 1 << 16, 1 << 62], devices=[devices])
    main.memory.append(
        pb.ContainerMemory(memory_type="memory", size=7, topology=topology(1, 1 << 40))
    )

    (pod,) = read_provisions([pb.PodResources(containers=[main])])

    (read,) = pod.containers
    assert (read.cpus, read.memory[0].numa, read.units[0].numa) == ((5,), (1,), ())
