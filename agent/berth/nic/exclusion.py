"""Why a NIC is not offered: the first rule that speaks against it, with the finding.

The kernel stops none of this: it moves a bond's slave, a bridge's port or the node's own uplink
into a pod without a word.

Knowingly left out: links that others made over a NIC and moved into namespaces of their own. The
kernel does not tell the carrier of them.

Source: network.md §1.2.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import attrs

from berth.config.doors import Door
from berth.config.nicgroup import NicGroup
from berth.host.netlink.link import Link
from berth.model.device import Exclusion, NicKind, NicMode
from berth.nic.survey import Found, link_mac
from berth.nic.topology import Topology
from berth.vfio.binding import VFIO
from berth.vfio.group import REASON, hindrance, members

_FOREIGN_DRIVERS: Final = re.compile(r"uio.*|igb_uio|.*vfio.*|pci-stub|pciback|xen-pciback")
# Drivers that make no link, on purpose.

_NO_DRIVER: Final = "no-driver"

_IMMOVABLE_KINDS: Final = frozenset({"bond", "bridge", "team", "vrf", "hsr", "batadv", "ppp"})
# Kinds that the kernel moves nowhere; before 6.15 it does not tell so by IFLA_NETNS_IMMUTABLE.
# Source: net/core/dev.h, `netns_immutable` and, before, NETIF_F_NETNS_LOCAL of each driver.


@attrs.frozen(kw_only=True)
class Circumstances:
    """What a rule may look at besides the device.

    Attributes:
        uplinks: Links that the node needs itself, by index, with the path that makes them so.
        uplink_ok: Identities that are offered all the same.
        ambiguous_macs: Addresses that two links have.
        held: Who has a function alone, in words, by its PCI address.
    """

    topology: Topology
    uplinks: Mapping[int, str] = attrs.field(factory=dict)
    uplink_ok: Sequence[str] = ()
    ambiguous_macs: frozenset[str] = frozenset()
    held: Mapping[str, str] = attrs.field(factory=dict)


def exclude(found: Found, groups: Sequence[NicGroup], around: Circumstances) -> Exclusion | None:
    """Why the device is not offered; ``None`` when nothing speaks against it.

    Args:
        groups: The groups whose conditions it meets.
    """
    if not groups:
        return Exclusion(reason="not-selected", detail="no group's conditions hold for it")
    if len(groups) > 1:
        names = ", ".join(f'"{group.name}"' for group in groups)
        return Exclusion(reason="overlap", detail=f"groups {names} all select it")
    group = groups[0]
    away = _without_pf(found, around)
    if away is not None:
        return away
    if group.mode is not NicMode.VFIO:
        return _against_link(found, group, around)
    reason = _against_function(found, group, around)
    if reason is not None or (found.link is None and found.driver == VFIO):
        return reason
    reason = _against_link(found, group, around)
    waits = reason is None or reason.reason == _NO_DRIVER
    return (_unbound(found, group) if waits else None) or reason


def _against_link(found: Found, group: NicGroup, around: Circumstances) -> Exclusion | None:
    """Why a NIC may not be taken from the host as it is."""
    if found.link is None:
        return _without_link(found)
    rules = (rule(found, found.link, group, around) for rule in _RULES[group.mode])
    return next((reason for reason in rules if reason is not None), None)


def _against_function(found: Found, group: NicGroup, around: Circumstances) -> Exclusion | None:
    """Why a NIC may not be bound to vfio-pci, or be given as it is bound."""
    function = found.function
    if function is None or found.identity != f"pci:{function.address}":
        detail = "it is no PCI function" if function is None else "its function has several links"
        return Exclusion(reason="unsupported", detail=f"{detail}, so vfio-pci cannot have it alone")
    others = members(function, around.topology.scan.companions)
    hindered = hindrance(function, others, allow_noiommu=group.allow_noiommu)
    if hindered:
        return Exclusion(reason=REASON, detail=hindered)
    return None


def _unbound(found: Found, group: NicGroup) -> Exclusion | None:
    """Why a NIC that vfio-pci has not goes to no resource: only a claim has it bound."""
    if group.door is not Door.PLUGIN or found.function is None:
        return None
    driver, address = found.function.driver or "no driver", found.function.address
    detail = (
        f"{driver} has it: bind it to {VFIO}, as by driverctl set-override "
        f'{address} {VFIO}, or offer it to claims, which do so themselves (door = "dra")'
    )
    return Exclusion(reason="not-bound", detail=detail)


def _without_link(found: Found) -> Exclusion:
    if found.kind is NicKind.RDMA:
        return Exclusion(reason="unsupported", detail="RDMA without a link is not offered yet")
    if not found.driver:
        return Exclusion(reason=_NO_DRIVER, detail="no driver is bound to it")
    if _FOREIGN_DRIVERS.fullmatch(found.driver):
        return Exclusion(reason="foreign-driver", detail=f"bound to {found.driver}")
    return Exclusion(
        reason="link-elsewhere",
        detail=f"driver {found.driver} is bound, its link is in no namespace of ours",
    )


def _sort(found: Found, link: Link, _: NicGroup, __: Circumstances) -> Exclusion | None:
    """Sorts of link that are no NIC for anybody."""
    if link.loopback:
        return Exclusion(reason="loopback", detail="it is the host's loopback")
    if found.device is not None and found.device.port.wireless:
        return Exclusion(reason="wireless", detail="radios are not offered")
    if found.stands_for:
        detail = f"port {found.stands_for} of the NIC's own switch, not a NIC"
        return Exclusion(reason="unsupported", detail=detail)
    return None


def _immovable(_: Found, link: Link, __: NicGroup, ___: Circumstances) -> Exclusion | None:
    immovable = link.kind in _IMMOVABLE_KINDS if link.immovable is None else link.immovable
    if not immovable:
        return None
    return Exclusion(reason="netns-immovable", detail="the kernel moves it to no namespace")


def _ambiguous(
    found: Found, link: Link, group: NicGroup, around: Circumstances
) -> Exclusion | None:
    if found.alike:
        detail = "two links of its function have one port number and cannot be told apart"
        return Exclusion(reason="ambiguous", detail=detail)
    if group.match.mac and link_mac(link) in around.ambiguous_macs:
        names = [x.name for x in around.topology.scan.links if link_mac(x) == link_mac(link)]
        detail = f"{', '.join(sorted(names))} have the address {link_mac(link)}"
        return Exclusion(reason="ambiguous", detail=detail)
    return None


def _uplink(found: Found, link: Link, _: NicGroup, around: Circumstances) -> Exclusion | None:
    path = around.uplinks.get(link.index)
    if path is None or found.identity in around.uplink_ok:
        return None
    return Exclusion(reason="uplink", detail=path)


def _enslaved(_: Found, link: Link, __: NicGroup, around: Circumstances) -> Exclusion | None:
    if not link.master:
        return None
    master = around.topology.links.get(link.master)
    kind = f" ({link.port_kind})" if link.port_kind else ""
    name = master.name if master is not None else f"link {link.master}"
    return Exclusion(reason="enslaved", detail=f"belongs to {name}{kind}")


def _without_pf(found: Found, around: Circumstances) -> Exclusion | None:
    """Why a VF is not offered while somebody has its PF alone."""
    holder = around.held.get(found.pf.address) if found.pf is not None else None
    return Exclusion(reason="held", detail=f"its PF is {holder}") if holder else None


def _has_vfs(found: Found, _: Link, group: NicGroup, around: Circumstances) -> Exclusion | None:
    count = found.function.num_vfs if found.function is not None else 0
    if not count:
        return None
    if is_beside_vfs(found, group):
        return _with_vfs(found, around)
    exist = "1 VF exists" if count == 1 else f"{count} VFs exist"
    detail = f"{exist}, which the host could not manage without their PF"
    return Exclusion(reason="has-vfs", detail=detail)


def is_beside_vfs(found: Found, group: NicGroup) -> bool:
    """Whether a PF is offered beside its VFs; one with several links is not."""
    function = found.function
    alone = function is not None and found.identity == f"pci:{function.address}"
    return group.beside_vfs and alone and found.kind is NicKind.PF


def _with_vfs(found: Found, around: Circumstances) -> Exclusion | None:
    """Why a PF beside its VFs is not offered now."""
    vfs = around.topology.scan.functions
    own = [vf.address for vf in vfs if vf.physfn == found.identity.removeprefix("pci:")]
    holder = next((around.held[address] for address in own if address in around.held), "")
    return Exclusion(reason="has-vfs", detail=f"a VF of it is {holder}") if holder else None


def _has_children(_: Found, link: Link, __: NicGroup, around: Circumstances) -> Exclusion | None:
    names = sorted(child.name for child in around.topology.children.get(link.index, ()))
    return Exclusion(reason="has-children", detail=f"carries {', '.join(names)}") if names else None


def _in_use(_: Found, link: Link, group: NicGroup, around: Circumstances) -> Exclusion | None:
    if group.take_configured:
        return None
    uses = [
        *(f"the host has {a.ip} on it" for a in around.topology.set_addresses(link.index)),
        *(
            f"the host's route to {route.destination} leads out of it"
            for route in around.topology.set_routes.get(link.index, ())
        ),
    ]
    if not uses:
        return None
    detail = f"{uses[0]}; take_configured = true offers it"
    return Exclusion(reason="in-use-by-host", detail=detail)


_Rule = Callable[[Found, Link, NicGroup, Circumstances], "Exclusion | None"]
_SHARED: Final[tuple[_Rule, ...]] = (_sort, _ambiguous, _enslaved)
# Nothing of a shared parent is moved or set down, so what the host does with it may go on.
_EXCLUSIVE: Final[tuple[_Rule, ...]] = (
    _sort,
    _immovable,
    _ambiguous,
    _uplink,
    _enslaved,
    _has_vfs,
    _has_children,
    _in_use,
)
_RULES: Final = {
    NicMode.EXCLUSIVE: _EXCLUSIVE,
    NicMode.SHARED: _SHARED,
    # What the kernel moves to no other namespace can be bound to another driver all the same.
    NicMode.VFIO: tuple(rule for rule in _EXCLUSIVE if rule is not _immovable),
}
