"""The administrative values of a virtual function: where they are set, wished and seen to differ.

They are set through the physical function, one in each message, and read back from it. The driver
shows only some of them: a value that it does not know reads as none, or as the kernel's default.

Whether a hardware address that the physical function shows was set through it or chosen by the
virtual function's side cannot be read. Only one that the link has because its driver made it up
counts as chosen there; any other counts as set, so that nobody gets rid of one that was. It errs on
that side: a choice of somebody's, or one that igb remembers over a bind of the driver, is set when
it is put back (seen on 6.12).

Source: network.md §4.1, §4.2; Linux ``net/core/rtnetlink.c`` (rtnl_fill_vfinfo).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import attrs

from berth.host.netlink.link import Link
from berth.host.netlink.vf import VF_LINK_STATES, Vf, VfChange, VfRate, VfVlan
from berth.nic.config.values import VLAN_ETHERTYPES, NicConfig, VlanProtocol

NO_MAC: Final = "00:00:00:00:00:00"
"""What the kernel shows, and takes, for no administrative hardware address."""


@attrs.frozen(kw_only=True)
class VfSeat:
    """Where a virtual function hangs.

    Attributes:
        pf: PCI address of its physical function.
        index: Interface index of that function's link, when it was seen last.
        number: Its number among the virtual functions.
    """

    pf: str
    index: int
    number: int


def own_values(vf: Vf, link: Link, *, made_up: bool) -> Vf:
    """What was set of a virtual function, of what its physical function shows.

    Args:
        vf: As it is shown.
        link: Its link at home.
        made_up: The link's driver made up the link's address.
    """
    chosen = vf.mac == link.mac and made_up
    return attrs.evolve(vf, mac=NO_MAC if chosen or not vf.mac else vf.mac)


def wished_values(config: NicConfig, vf: Vf) -> Vf:
    """The values that a configuration asks for, but its address; all others stay."""
    wish = config.vf
    values: dict[str, Any] = {
        "spoof_check": wish.spoof_check,
        "trust": wish.trust,
        "link_state": VF_LINK_STATES[wish.link_state.value] if wish.link_state else None,
        "min_rate_mbps": wish.min_tx_mbps,
        "max_rate_mbps": wish.max_tx_mbps,
    }
    if wish.vlan is not None:
        values["vlan"] = wish.vlan
        values["vlan_qos"] = wish.vlan_qos or 0
        values["vlan_protocol"] = VLAN_ETHERTYPES[wish.vlan_protocol or VlanProtocol.Q]
    return attrs.evolve(vf, **{name: value for name, value in values.items() if value is not None})


def vf_changes(vf: Vf, wanted: Vf) -> Iterator[tuple[str, VfChange]]:
    """What makes a virtual function as it is wanted, one value each, with the value's field.

    Its address goes with that of its link (`berth.nic.addressing`).

    Args:
        vf: As it is now.
        wanted: As it shall be; what is None there is nobody's wish.
    """
    if _vlan(wanted) != _vlan(vf):
        yield "vf.vlan", VfChange(vlan=_vlan(wanted))
    if wanted.spoof_check not in {None, vf.spoof_check}:
        yield "vf.spoofCheck", VfChange(spoof_check=wanted.spoof_check)
    if wanted.trust not in {None, vf.trust}:
        yield "vf.trust", VfChange(trust=wanted.trust)
    if wanted.link_state not in {None, vf.link_state}:
        yield "vf.linkState", VfChange(link_state=wanted.link_state)
    if _rate(wanted) != _rate(vf):
        field = "vf.minTxMbps" if wanted.min_rate_mbps != vf.min_rate_mbps else "vf.maxTxMbps"
        yield field, VfChange(rate=_rate(wanted))


def _vlan(vf: Vf) -> VfVlan:
    if not vf.vlan and not vf.vlan_qos:
        # Without a VLAN the protocol of its tag says nothing.
        return VfVlan()
    return VfVlan(id=vf.vlan, qos=vf.vlan_qos, protocol=vf.vlan_protocol)


def _rate(vf: Vf) -> VfRate:
    return VfRate(min_mbps=vf.min_rate_mbps, max_mbps=vf.max_rate_mbps)
