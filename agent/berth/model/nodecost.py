"""What a device costs its node of the node's own resources, such as CPU, memory and huge pages.

Amounts are in thousandths of the resource's unit: of a CPU, of a byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import attrs


@attrs.frozen(kw_only=True)
class NodeCost:
    """What a device costs of one resource while a pod has it; the parts add up.

    Attributes:
        device_milli: For each device that a claim has; the claim is one pod's alone then.
        capacity: Name of a capacity of the device of which the claim consumes some; empty for none.
        times_milli: For each unit of that capacity; the claim is one pod's alone then.
        pod_milli: For each pod that refers to the claim.
        container_milli: For each of its containers that does.
    """

    device_milli: int = 0
    capacity: str = ""
    times_milli: int = 0
    pod_milli: int = 0
    container_milli: int = 0


NodeCosts: TypeAlias = "Mapping[str, NodeCost]"
"""By the name of the resource, as the node's allocatable has it."""
