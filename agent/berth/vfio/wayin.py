"""By which device nodes a function comes into its machine.

Through its IOMMU group: the node of the interface and that of the group. Through iommufd: the
function's own node and that of the IOMMU. Without an IOMMU the group's node has another name, and
only root may open it.

Source: Linux ``Documentation/driver-api/vfio.rst``; gpu-and-health.md §3.4; network.md §4.6.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs

from berth.host.nvidiafiles import HostNode
from berth.model.edits import DeviceNode

API: Final = "/dev/vfio/vfio"
IOMMUFD: Final = "/dev/iommu"
VHOST: Final = ("/dev/vhost-net", "/dev/net/tun")


@attrs.frozen(kw_only=True)
class WayIn:
    """How a function comes into its machine.

    Attributes:
        iommufd: By its own node instead of that of its IOMMU group.
        api_device: Whether the node of the VFIO interface is given with the group's.
        vhost: Whether the nodes are given by which a machine reaches the host's network.
    """

    iommufd: bool = False
    api_device: bool = True
    vhost: bool = False


def node_paths(
    way: WayIn, *, group: int | None, name: str, noiommu: bool = False
) -> tuple[str, ...]:
    """The nodes that are needed, the function's own last.

    Args:
        group: Number of its IOMMU group; ``None`` when it is in none yet.
        name: The function as a VFIO device, such as ``vfio0``; empty when it is none yet.
        noiommu: Its group is one without an IOMMU.
    """
    beside = VHOST if way.vhost else ()
    if way.iommufd:
        return (*beside, IOMMUFD, f"/dev/vfio/devices/{name or '?'}")
    number = "?" if group is None else group
    own = f"/dev/vfio/noiommu-{number}" if noiommu else f"/dev/vfio/{number}"
    return (*beside, API, own) if way.api_device else (*beside, own)


def handed(node: HostNode) -> DeviceNode:
    """A node of the host as a container gets it."""
    return DeviceNode(
        path=node.path,
        host_path=node.path,
        type=node.type,
        major=node.major,
        minor=node.minor,
        file_mode=node.mode,
        uid=node.uid,
        gid=node.gid,
    )


def addresses_entry(resource: str, addresses: Iterable[str]) -> str:
    """The environment entry in which what starts machines looks up the functions of a resource.

    Slashes and dots become underscores there and nothing else, so a hyphen stays.

    Source: gpu-and-health.md §3.4; KubeVirt ``ResourceNameToEnvVar`` in ``pkg/util``.
    """
    name = resource.upper().replace("/", "_").replace(".", "_")
    return f"PCI_RESOURCE_{name}={','.join(sorted(addresses))}"
