"""By which nodes a container reaches a NIC that the device plugin gives, and what it is told of it.

Which they are follows from the driver that has the function now: vfio-pci comes with the nodes of
its interface and of the function's IOMMU group, all others with those of the RDMA device.

Source: network.md §9; §1.1 for the companions of an RDMA device.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import attrs

from berth.config.nicgroup import NicGroup
from berth.host.nicnodes import RDMA_CM, TUN, VHOST_NET, NicNodes
from berth.model.device import NicMode
from berth.model.edits import DeviceNode
from berth.model.peripheral import PciInfo
from berth.nic.survey import Found
from berth.vfio.binding import VFIO
from berth.vfio.wayin import WayIn, node_paths

_RDMA_NAMES: Final = frozenset({"uverbs", "umad", "issm", "rdma_cm"})

_Parts: TypeAlias = "tuple[Mapping[str, str], Mapping[str, Mapping[str, str]]]"
# Paths in the container by those on the host, and sections.


@attrs.frozen(kw_only=True)
class RdmaNodes:
    """By which nodes the RDMA devices of a NIC are reached.

    Attributes:
        lacking: Paths of those that are not there.
    """

    nodes: tuple[DeviceNode, ...] = ()
    lacking: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Access:
    """What goes with a NIC.

    Attributes:
        nodes: Those of its nodes that are there.
        lacking: Paths of those that are not.
        sections: What the container's environment says of it, by subject and name.
    """

    nodes: tuple[DeviceNode, ...]
    lacking: tuple[str, ...]
    sections: Mapping[str, Mapping[str, str]]


def access_to(found: Found, group: NicGroup, nodes: NicNodes) -> Access:
    """What goes with a NIC that was seen; one that waits for vfio-pci has no node yet."""
    paths: Mapping[str, str] = {}
    sections: Mapping[str, Mapping[str, str]] = {}
    if group.mode is not NicMode.VFIO:
        paths, sections = _by_rdma(found.rdma_in(group), nodes)
    elif found.driver == VFIO:
        paths, sections = _by_vfio(found, way_in(group), nodes)
    if way_in(group).vhost:
        paths = {**paths, VHOST_NET: VHOST_NET, TUN: TUN}
        sections = {**sections, "vhost": {"net-mount": VHOST_NET, "tun-mount": TUN}}
    return Access(
        nodes=tuple(
            attrs.evolve(nodes.known[path], path=inside)
            for path, inside in paths.items()
            if path in nodes.known
        ),
        lacking=tuple(path for path in paths if path not in nodes.known),
        sections=sections,
    )


def rdma_of(found: Found, group: NicGroup, nodes: NicNodes) -> RdmaNodes:
    """The nodes of a NIC's RDMA devices; none of a function that vfio-pci has, or is to have."""
    if group.mode is NicMode.VFIO:
        return RdmaNodes()
    paths, _ = _by_rdma(found.rdma_in(group), nodes)
    return RdmaNodes(
        nodes=tuple(nodes.known[path] for path in paths if path in nodes.known),
        lacking=tuple(path for path in paths if path not in nodes.known),
    )


def info_of(found: Found, group: NicGroup, address: str, access: Access) -> PciInfo:
    """What programs in the container, and CNI plugins, are told of it.

    Args:
        address: Its PCI address; its slice name where it has none.
    """
    rdma = found.rdma_in(group)
    return PciInfo(
        address=address,
        pf=found.function.physfn if found.function is not None else "",
        rdma_device=rdma[0] if rdma else "",
        vhost=VHOST_NET if way_in(group).vhost else "",
        sections={"generic": {"deviceID": address}, **access.sections},
    )


def way_in(group: NicGroup) -> WayIn:
    """How NICs of a group come to whoever asked by resource; a claim may say otherwise.

    All but `vhost` is about functions that vfio-pci has.
    """
    told = group.defaults.get("vfio")
    told = told if isinstance(told, Mapping) else {}
    return WayIn(
        iommufd=told.get("iommufd") is True,
        api_device=told.get("apiDevice") is not False,
        vhost=group.vhost or told.get("vhost") is True,
    )


def _by_vfio(found: Found, way: WayIn, nodes: NicNodes) -> _Parts:
    """The node of a group without an IOMMU has another name on the host than in the container.

    Programs that were made for other device plugins look for it by its number alone.
    """
    function = found.function
    group = function.iommu_group if function is not None else None
    noiommu = function is not None and function.noiommu
    name = nodes.vfio.get(function.address, "") if function is not None else ""
    plain = attrs.evolve(way, vhost=False)
    *beside, own = node_paths(plain, group=group, name=name, noiommu=noiommu)
    inside = node_paths(plain, group=group, name=name)[-1]
    section = {"mount": beside[0], "dev-mount": inside} if beside else {"dev-mount": inside}
    return {**{path: path for path in beside}, own: inside}, {"vfio": section}


def _by_rdma(devices: Sequence[str], nodes: NicNodes) -> _Parts:
    paths = [path for device in devices for path in nodes.rdma.get(device, ())]
    if not paths:
        return {}, {}
    paths.append(RDMA_CM)
    section = {**dict(_named(paths)), "rdma_dev": devices[0]}
    return {path: path for path in paths}, {"rdma": section}


def _named(paths: Iterable[str]) -> Iterable[tuple[str, str]]:
    for path in paths:
        name = path.rpartition("/")[2].rstrip("0123456789")
        if name in _RDMA_NAMES:
            yield name, path
