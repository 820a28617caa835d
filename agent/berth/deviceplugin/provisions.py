"""What kubelet's PodResources says that pods have of CPUs, memory and devices, as values of ours.

Names are not checked: nothing is done with them but to compare and to show them.

Source: KC §10.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from berth.deviceplugin.listing import claim_usages
from berth.model.provision import ContainerProvision, MemoryBlock, PodProvision, UnitBlock
from berth.model.resource import ContainerRef
from berth.pb import podresources_v1_pb2 as pb

NUMBERS: Final = range(1 << 16)
"""Numbers that a CPU or a NUMA node can have, more than any kernel has (8192 and 1024 on x86).

Some plugins say -1 for a place that they do not know, and whatever is no number of the kernel's is
nowhere either.
"""


def read_provisions(pods: Iterable[pb.PodResources]) -> tuple[PodProvision, ...]:
    """What every pod has, in kubelet's order."""
    return tuple(
        PodProvision(
            namespace=pod.namespace,
            name=pod.name,
            cpus=_numbers(pod.cpu_ids),
            memory=_memory(pod.memory),
            containers=tuple(_container(pod, container) for container in pod.containers),
        )
        for pod in pods
    )


def _container(pod: pb.PodResources, container: pb.ContainerResources) -> ContainerProvision:
    ref = ContainerRef(namespace=pod.namespace, pod=pod.name, container=container.name)
    return ContainerProvision(
        container=ref,
        cpus=_numbers(container.cpu_ids),
        memory=_memory(container.memory),
        units=tuple(
            UnitBlock(
                resource=devices.resource_name,
                ids=tuple(devices.device_ids),
                numa=_nodes(devices.topology),
            )
            for devices in container.devices
            if devices.device_ids
        ),
        claims=tuple(claim_usages(ref, container)),
    )


def _memory(blocks: Iterable[pb.ContainerMemory]) -> tuple[MemoryBlock, ...]:
    return tuple(
        MemoryBlock(type=block.memory_type, size_bytes=block.size, numa=_nodes(block.topology))
        for block in blocks
    )


def _nodes(topology: pb.TopologyInfo) -> tuple[int, ...]:
    return _numbers(node.ID for node in topology.nodes)


def _numbers(numbers: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted({number for number in numbers if number in NUMBERS}))
