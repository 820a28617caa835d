"""What kubelet has set apart for pods: CPUs, memory and devices, as its PodResources lists them.

Source: KC §10.
"""

from __future__ import annotations

import attrs

from berth.model.resource import ClaimUsage, ContainerRef


@attrs.frozen(kw_only=True)
class MemoryBlock:
    """Memory that kubelet's memory manager has set apart.

    Attributes:
        type: ``memory``, or a size of huge pages such as ``hugepages-2Mi``.
        numa: NUMA nodes that it comes from, as a whole.
    """

    type: str
    size_bytes: int
    numa: tuple[int, ...] = ()


@attrs.frozen(kw_only=True)
class UnitBlock:
    """Ids of one extended resource that are near to the same NUMA nodes.

    Attributes:
        numa: By the word of whichever plugin gave them; empty when it tells none.
    """

    resource: str
    ids: tuple[str, ...]
    numa: tuple[int, ...] = ()


@attrs.frozen(kw_only=True)
class ContainerProvision:
    """What is one container's.

    Attributes:
        cpus: CPUs that nobody else has; none while it shares the others.
        units: What it was given of extended resources.
        claims: Devices of its claims.
    """

    container: ContainerRef
    cpus: tuple[int, ...] = ()
    memory: tuple[MemoryBlock, ...] = ()
    units: tuple[UnitBlock, ...] = ()
    claims: tuple[ClaimUsage, ...] = ()


@attrs.frozen(kw_only=True)
class PodProvision:
    """What is one active pod's.

    Attributes:
        cpus: Of the pod as a whole, its containers' own included; none where kubelet does not
            manage pods as wholes.
        memory: The same of memory.
    """

    namespace: str
    name: str
    cpus: tuple[int, ...] = ()
    memory: tuple[MemoryBlock, ...] = ()
    containers: tuple[ContainerProvision, ...] = ()
