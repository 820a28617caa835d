"""What kubelet's device manager writes down: which container has which ids, and the answers it got.

Source: KC §2.2 (checkpoint, capacity and allocatable); the member names are kubelet's.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

from berth.model.resource import ContainerRef
from berth.pb import deviceplugin_v1beta1_pb2 as pb

CHECKPOINT: Final = "kubelet_internal_checkpoint"

GRACE_S: Final = 300.0
"""How long a resource whose plugin is gone keeps its capacity, in seconds."""


@attrs.frozen(kw_only=True)
class Allotment:
    """Ids that a container has, and what the plugin answered for them.

    Attributes:
        answer: A serialized ``ContainerAllocateResponse``.
    """

    container: ContainerRef
    resource: str
    ids: tuple[str, ...]
    answer: bytes

    def read_answer(self) -> pb.ContainerAllocateResponse:
        """What the container is given."""
        return pb.ContainerAllocateResponse.FromString(self.answer)


@attrs.frozen(kw_only=True)
class ResourceState:
    """A resource as kubelet sees it.

    Attributes:
        devices: Every id of the last list, and whether it is healthy.
        ended_at: When the plugin's list ended, on trio's clock; ``None`` while it is open.
    """

    devices: Mapping[str, bool]
    ended_at: float | None = None

    def capacity(self, now: float) -> int:
        """What the node says to have."""
        gone = self.ended_at is not None and now - self.ended_at >= GRACE_S
        return 0 if gone else len(self.devices)

    @property
    def healthy(self) -> tuple[str, ...]:
        """Ids that may be given; none of a plugin that is gone."""
        if self.ended_at is not None:
            return ()
        return tuple(name for name, well in self.devices.items() if well)


def write_checkpoint(allotments: Iterable[Allotment]) -> str:
    """The checkpoint; kubelet's has a checksum besides."""
    entries = [
        {
            "PodUID": f"{item.container.namespace}/{item.container.pod}",
            "ContainerName": item.container.container,
            "ResourceName": item.resource,
            "DeviceIDs": {"-1": item.ids},
            "AllocResp": base64.b64encode(item.answer).decode(),
        }
        for item in allotments
    ]
    return json.dumps({"Data": {"PodDeviceEntries": entries}})


def read_checkpoint(text: str) -> tuple[Allotment, ...]:
    """What the life before wrote down."""
    return tuple(_allotment(entry) for entry in json.loads(text)["Data"]["PodDeviceEntries"])


def _allotment(entry: Mapping[str, Any]) -> Allotment:
    namespace, _, pod = entry["PodUID"].partition("/")
    return Allotment(
        container=ContainerRef(namespace=namespace, pod=pod, container=entry["ContainerName"]),
        resource=entry["ResourceName"],
        ids=tuple(entry["DeviceIDs"]["-1"]),
        answer=base64.b64decode(entry["AllocResp"]),
    )
