"""What the device plugin hands out of a NIC: its ids, where it is, and the nodes that go with it.

The link itself is no part of it: a CNI plugin moves that, or the runtime's hook. Which nodes a NIC
comes with follows from its driver and companions, so they are what the look of now shows.

Source: network.md §9; §1.1 for the companions of an RDMA device.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from berth.config.doors import settled
from berth.config.nicgroup import Attach, NicGroup
from berth.host.nicnodes import RDMA_CM, TUN, VHOST_NET, NicNodes
from berth.model.device import Attribute, Exclusion, NicMode
from berth.model.edits import Edits
from berth.model.names import is_pci_address
from berth.model.peripheral import Door, PciInfo, Peripheral
from berth.nic.attributes import type_of
from berth.nic.survey import Found

KIND: Final = "nic"
"""Kind of every listing of a NIC."""

NO_NODE: Final = "no-node"
"""Why a NIC is unhealthy that a container could not be given whole."""


@attrs.frozen(kw_only=True)
class Terms:
    """How the NICs of a group are asked for.

    Attributes:
        door: ``auto`` is decided.
        resource: Empty where the device plugin offers none of them.
        slots: Ids of each NIC.
    """

    door: Door
    resource: str = ""
    attach: Attach = Attach.CNI
    slots: int = 1


def terms_of(group: NicGroup, *, driver: str, auto: Door) -> Terms:
    """The terms of a group.

    Args:
        driver: Our driver's name, for the resource's.
        auto: What ``auto`` comes to on this node.
    """
    door = settled(group.door, auto)
    return Terms(
        door=door,
        resource=(group.resource or f"{driver}/{group.name}") if door.opens_plugin else "",
        attach=group.attach,
        slots=group.shared.slots if group.mode is NicMode.SHARED else 1,
    )


def ids_of(identity: str, name: str, slots: int) -> tuple[str, ...]:
    """The ids of a NIC: its PCI address, or its slice name where it has none.

    One that is shared has an id for each share. A port of a function with several has the port's
    number behind the address, which alone would name them all.
    """
    address = _address(identity) or name
    if slots == 1:
        return (address,)
    return tuple(f"{address}::{number}" for number in range(slots))


def list_nic(
    found: Found,
    group: NicGroup,
    terms: Terms,
    *,
    name: str,
    nodes: NicNodes,
    exclusion: Exclusion | None = None,
    attributes: Mapping[str, Attribute] | None = None,
) -> Peripheral:
    """The listing of a NIC that was seen.

    Args:
        name: Its slice name.
        exclusion: Why it can be given to nobody now.
        attributes: As its slice tells them, where it stands in one.
    """
    paths = _paths(found, group, nodes)
    lacking = tuple(path for path in paths if path not in nodes.known)
    if lacking and exclusion is None:
        exclusion = Exclusion(reason=NO_NODE, detail=f"{', '.join(lacking)} is not there")
    numa = found.function.numa_node if found.function is not None else None
    bare = list_absent(found.identity, group, terms, name=name)
    return attrs.evolve(
        bare,
        numa=() if numa is None or group.exclude_topology else (numa,),
        pcie_root=found.function.pcie_root if found.function is not None else "",
        bearer=found.function.physfn if found.function is not None else "",
        info=_info(bare.path, found, paths, vhost=group.vhost),
        attributes=attributes or {"kind": found.kind.value, "driver": found.driver},
        edits=Edits(nodes=tuple(nodes.known[path] for path in paths if path in nodes.known)),
        exclusion=exclusion,
        unhealthy=exclusion.reason if exclusion is not None else "",
    )


def list_absent(identity: str, group: NicGroup, terms: Terms, *, name: str) -> Peripheral:
    """What of a NIC's listing follows from its identity alone."""
    return Peripheral(
        identity=identity,
        name=name,
        kind=KIND,
        type=type_of(group),
        group=group.name,
        keys=(identity,),
        door=terms.door,
        resource=terms.resource,
        ids=ids_of(identity, name, terms.slots) if terms.door.opens_plugin else (),
        slots=terms.slots,
        inject=group.inject.value,
        stays=True,
        guarded=True,
        path=_address(identity).partition("/")[0] or name,
    )


def _address(identity: str) -> str:
    address = identity.removeprefix("pci:")
    return address if is_pci_address(address.partition("/")[0]) else ""


def _paths(found: Found, group: NicGroup, nodes: NicNodes) -> tuple[str, ...]:
    """Paths of the nodes that go with a NIC."""
    devices = found.function.rdma if found.function is not None else ()
    rdma = [path for device in devices for path in nodes.rdma.get(device, ())]
    return (
        *rdma,
        *((RDMA_CM,) if rdma else ()),
        *((VHOST_NET, TUN) if group.vhost else ()),
    )


def _info(address: str, found: Found, paths: Iterable[str], *, vhost: bool) -> PciInfo:
    devices = found.function.rdma if found.function is not None else ()
    rdma = {
        name: path
        for path in paths
        if (name := path.rpartition("/")[2].rstrip("0123456789")) in _RDMA_NAMES
    }
    sections: dict[str, Mapping[str, str]] = {"generic": {"deviceID": address}}
    if rdma:
        sections["rdma"] = {**rdma, "rdma_dev": devices[0]}
    if vhost:
        sections["vhost"] = {"net-mount": VHOST_NET, "tun-mount": TUN}
    return PciInfo(
        address=address,
        pf=found.function.physfn if found.function is not None else "",
        rdma_device=devices[0] if devices else "",
        vhost=VHOST_NET if vhost else "",
        sections=sections,
    )


_RDMA_NAMES: Final = frozenset({"uverbs", "umad", "issm", "rdma_cm"})
