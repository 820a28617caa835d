"""What the device plugin hands out of a NIC: its ids, where it is, and the nodes that go with it.

The link itself is no part of it: a CNI plugin moves that, or the runtime's hook.

Source: network.md §9.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from berth.config.doors import settled
from berth.config.nicgroup import Attach, NicGroup
from berth.host.nicnodes import NicNodes
from berth.model.device import Attribute, Exclusion, NicMode
from berth.model.edits import Edits
from berth.model.names import is_pci_address
from berth.model.peripheral import Door, Peripheral
from berth.nic.access import access_to, info_of
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
    companions: Sequence[str] = (),
) -> Peripheral:
    """The listing of a NIC that was seen.

    Args:
        name: Its slice name.
        companions: Keys of what is given to nobody else while somebody has it.
        exclusion: Why it can be given to nobody now.
        attributes: As its slice tells them, where it stands in one.
    """
    access = access_to(found, group, nodes)
    if access.lacking and exclusion is None:
        exclusion = Exclusion(reason=NO_NODE, detail=f"{', '.join(access.lacking)} is not there")
    numa = found.function.numa_node if found.function is not None else None
    bare = list_absent(found.identity, group, terms, name=name)
    return attrs.evolve(
        bare,
        keys=(*bare.keys, *companions),
        numa=() if numa is None or group.exclude_topology else (numa,),
        pcie_root=found.function.pcie_root if found.function is not None else "",
        bearer=found.function.physfn if found.function is not None else "",
        info=info_of(found, group, bare.path, access),
        attributes=attributes or {"kind": found.kind.value, "driver": found.driver},
        edits=Edits(nodes=access.nodes),
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
