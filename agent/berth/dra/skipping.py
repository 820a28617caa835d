"""Whether slices may say that kubelet need not ask us for the claims of a device.

They may where the server and this node's kubelet know of it (`berth.dra.capabilities`), and where
we see the claims by ourselves: a claim that nobody tells us of, and that we do not see, would leave
its device free to the other door. Everywhere else the devices are published without it, and
prepared as ever.

Kubelet's PodResources is no second witness: it names such a claim without its devices, and not
before its pod starts, nor if no container refers to it. So kubelet's own credentials, which list no
claims, do not do.

Source: KC §8 (KEP-5945); ``GetDynamicResources`` and ``prepareResources`` in kubelet of 1.37.2, and
seen there.
"""

from __future__ import annotations

from typing import Final

import attrs

from berth.dra.capabilities import Capabilities
from berth.features.registry import BY_KEY
from berth.model.device import Device

FEATURE: Final = "optional-node-operations"
"""Its key in the table of features."""

UNWATCHED: Final = "nobody watches them"
"""Why claims are not seen where nobody was to."""


def unskipped(device: Device) -> Device:
    """The device as one for which kubelet asks everything."""
    return attrs.evolve(device, skips=()) if device.skips else device


def hindrance(capabilities: Capabilities, unseen: str | None) -> str:
    """Why slices may not say it, for people; empty when they may.

    Args:
        capabilities: What the cluster can do.
        unseen: Why claims are not seen; ``None`` when they are.
    """
    if not capabilities.tries(FEATURE):
        return f"feature gate {BY_KEY[FEATURE].gate} is {capabilities.states.get().of(FEATURE)}"
    return f"claims are not seen: {unseen}" if unseen is not None else ""
