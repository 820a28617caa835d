"""Who publishes, and what follows from that alone: names of pools and of slices.

Source: KC §4.3; network.md §0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

from berth.dra.counters import tells_kind
from berth.kube.slices import Owner

NIC_TYPES: Final = frozenset({"nic", "nic-shared", "nic-vfio", "rdma"})
"""Types that live in the pool of NICs, whose comings and goings must not touch GPUs."""

GENERATED_LIMIT: Final = 58
"""Characters of ``generateName`` that the server keeps before its five random ones.

Source: apiserver ``pkg/storage/names/generate.go``."""

_INDEX: Final = re.compile(r"([0-9a-f]{5,8})-")


@attrs.frozen(kw_only=True)
class Origin:
    """Who publishes: a driver on a node.

    Attributes:
        kind: Bare name of the attribute that tells what part of its whole a device is; empty where
            nobody is told which.
    """

    driver: str
    owner: Owner
    kind: str = ""

    @property
    def node_name(self) -> str:
        """Name of the node."""
        return self.owner.name

    def generate_name(self, index: int) -> str:
        """The prefix of the object's name; it sorts slices in the order of their index."""
        return f"{index:05x}-{self.driver}-{self.node_name}-"

    def index_of(self, name: str) -> int | None:
        """The index that a name was generated from; ``None`` when it is not one of ours."""
        match = _INDEX.match(name)
        if match is None:
            return None
        index = int(match[1], 16)
        return index if name.startswith(self.generate_name(index)[:GENERATED_LIMIT]) else None

    def partition_type(self, devices: Iterable[Mapping[str, Any]]) -> str:
        """What a slice of these devices says of that attribute; empty where it may say nothing."""
        return f"{self.driver}/{self.kind}" if self.kind and tells_kind(devices, self.kind) else ""

    def pool_of(self, device_type: str) -> str:
        """The pool that devices of a type belong to."""
        return pool_of(self.node_name, device_type)


def pools_of(node: str) -> frozenset[str]:
    """Every pool of a node."""
    return frozenset({pool_of(node, ""), pool_of(node, "nic")})


def pool_of(node: str, device_type: str) -> str:
    """The pool of a node that devices of a type belong to."""
    return f"{node}/nic" if device_type in NIC_TYPES else node
