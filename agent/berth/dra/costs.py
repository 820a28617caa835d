"""What devices cost the node, on the way to a server: told only where it is kept and accounted.

An older server knows another field or none, one with the gate off drops it, and one whose kubelet
here does not declare the feature refuses the whole slice (403, seen on 1.37.2). The device is then
published without: it is the node's room that nobody watches, and no pod gets another's device.

Source: KC §9.6, §4.5.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs

from berth.errors import KubeError
from berth.features.states import FeatureState
from berth.model.device import Device

KEY: Final = "node-allocatable-resources"
"""Of the feature."""

_REFUSED: Final = "does not support DRANodeAllocatableResources"


def costless(device: Device) -> Device:
    """The device without what it costs."""
    return attrs.evolve(device, costs={}) if device.costs else device


def refuses_costs(error: KubeError) -> bool:
    """Whether a write was refused since the node's kubelet does not know costs."""
    return error.status == 403 and _REFUSED in str(error)


def unaccounted(devices: Iterable[Device], state: FeatureState) -> str:
    """What an operator should know where costs are given and the cluster does not count them.

    Empty where none are given.
    """
    groups = sorted({device.group for device in devices if device.costs})
    return f"node_cost of {', '.join(groups)} is not accounted: {state.why}" if groups else ""
