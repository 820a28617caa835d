"""Why a NIC is not offered: the first rule that speaks against it, with the finding.

The kernel stops none of this: it moves a bond's slave, a bridge's port or the node's own uplink
into a pod without a word.

Source: network.md §1.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import attrs

from berth.config.nic import NicGroup, NicTable
from berth.host.netlink.link import Link
from berth.host.netlink.route import RTPROT_KERNEL, RTPROT_RA, RTPROT_REDIRECT
from berth.host.scan import HostScan
from berth.model.device import Exclusion, NicKind, NicMode
from berth.nic.survey import Found

_CHILD_KINDS: Final = frozenset({"macvlan", "macvtap", "ipvlan", "ipvtap", "vlan"})
_LEARNT: Final = frozenset({RTPROT_KERNEL, RTPROT_RA, RTPROT_REDIRECT})


@attrs.frozen(kw_only=True)
class Circumstances:
    """What a rule may look at besides the device.

    Attributes:
        uplinks: Links that the node needs itself, by index, with the path that makes them so.
        ambiguous_macs: Addresses that two links have.
    """

    scan: HostScan
    table: NicTable
    uplinks: Mapping[int, str]
    ambiguous_macs: frozenset[str] = frozenset()


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
    if found.link is None:
        return _without_link(found)
    rules = _SHARED if group.mode is NicMode.SHARED else _EXCLUSIVE
    for rule in rules:
        reason = rule(found, found.link, group, around)
        if reason is not None:
            return reason
    return None


def _without_link(found: Found) -> Exclusion | None:
    function = found.function
    if function is None:
        return Exclusion(reason="link-elsewhere", detail="its link is not in this namespace")
    if found.kind is NicKind.RDMA:
        return Exclusion(reason="unsupported", detail="RDMA without a link is not offered yet")
    if not function.driver:
        return Exclusion(reason="no-driver", detail=f"{function.address} has no driver bound")
    if found.has_foreign_driver:
        return Exclusion(reason="foreign-driver", detail=f"bound to {function.driver}")
    return Exclusion(
        reason="link-elsewhere",
        detail=f"driver {function.driver} is bound, its link is in no namespace of ours",
    )


def _kind(found: Found, link: Link, _: NicGroup, __: Circumstances) -> Exclusion | None:
    if link.loopback:
        return Exclusion(reason="loopback")
    if found.device is not None and found.device.wireless:
        return Exclusion(reason="wireless")
    if link.immovable:
        return Exclusion(reason="netns-immovable", detail="the kernel moves it to no namespace")
    return None


def _mac(found: Found, link: Link, group: NicGroup, around: Circumstances) -> Exclusion | None:
    mac = link.perm_mac or link.mac
    if group.match.mac and mac in around.ambiguous_macs:
        return Exclusion(reason="ambiguous", detail=f"two links have the address {mac}")
    del found
    return None


def _uplink(found: Found, link: Link, _: NicGroup, around: Circumstances) -> Exclusion | None:
    path = around.uplinks.get(link.index)
    if path is None and found.kind is NicKind.PF:
        path = _uplink_vf(found, around)
    if path is None or found.identity in around.table.uplink_ok:
        return None
    return Exclusion(reason="uplink", detail=path)


def _uplink_vf(found: Found, around: Circumstances) -> str | None:
    """A PF goes with its VFs: one of them as the node's uplink makes the PF one too."""
    if found.function is None:
        return None
    address = found.function.address
    vfs = {f.address for f in around.scan.functions if f.physfn == address}
    for device in around.scan.net_devices:
        if device.function in vfs and device.index in around.uplinks:
            return f"{around.uplinks[device.index]} → {link_name(found)}"
    return None


def link_name(found: Found) -> str:
    """What people call it: its link's name, else its identity."""
    return found.link.name if found.link is not None else found.identity


def _enslaved(_: Found, link: Link, __: NicGroup, around: Circumstances) -> Exclusion | None:
    if not link.master:
        return None
    master = next((x.name for x in around.scan.links if x.index == link.master), str(link.master))
    kind = f" ({link.port_kind})" if link.port_kind else ""
    return Exclusion(reason="enslaved", detail=f"belongs to {master}{kind}")


def _has_vfs(found: Found, _: Link, __: NicGroup, ___: Circumstances) -> Exclusion | None:
    function = found.function
    if function is None or not function.num_vfs:
        return None
    return Exclusion(
        reason="has-vfs",
        detail=f"{function.num_vfs} VFs exist; the host could not manage them without their PF",
    )


def _has_children(_: Found, link: Link, __: NicGroup, around: Circumstances) -> Exclusion | None:
    names = [
        other.name
        for other in around.scan.links
        if other.kind in _CHILD_KINDS
        and other.parent == link.index
        and other.parent_netnsid is None
    ]
    if not names:
        return None
    return Exclusion(reason="has-children", detail=f"carries {', '.join(sorted(names))}")


def _in_use(_: Found, link: Link, group: NicGroup, around: Circumstances) -> Exclusion | None:
    if group.take_configured:
        return None
    for address in around.scan.addresses:
        if address.index == link.index and not address.ip.ip.is_link_local:
            return Exclusion(
                reason="in-use-by-host",
                detail=f"the host has {address.ip} on it; take_configured = true offers it",
            )
    for route in around.scan.routes:
        if route.protocol not in _LEARNT and any(h.index == link.index for h in route.hops):
            return Exclusion(
                reason="in-use-by-host",
                detail=f"the host's route to {route.destination} uses it; "
                "take_configured = true offers it",
            )
    return None


_Rule = Callable[[Found, Link, NicGroup, Circumstances], "Exclusion | None"]
_SHARED: Final[tuple[_Rule, ...]] = (_kind, _mac, _enslaved)
# Nothing of a shared parent is moved or set down, so what the host does with it may go on.
_EXCLUSIVE: Final[tuple[_Rule, ...]] = (
    _kind,
    _mac,
    _uplink,
    _enslaved,
    _has_vfs,
    _has_children,
    _in_use,
)
