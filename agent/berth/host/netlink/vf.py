"""Virtual functions as their physical function tells and sets them.

Asked for one physical function at a time: the list is long, and dumps must stay small.
Several values in one message are not set as one: a refused one leaves those before it in place
(seen with igb), so a request here carries exactly one.

Source: include/uapi/linux/if_link.h (struct ifla_vf_*), net/core/rtnetlink.c (do_setvfinfo).
"""

from __future__ import annotations

import struct
import sys
from typing import TYPE_CHECKING, Any, Final

import attrs

from berth.errors import LocalProtocolError, RemoteProtocolError
from berth.host.netlink import attributes as nla
from berth.host.netlink.mac import pack_mac

if TYPE_CHECKING:
    from berth.host.netlink.attributes import Attributes

_IFLA_VF_INFO: Final = 1
_IFLA_VF_MAC: Final = 1
_IFLA_VF_VLAN: Final = 2
_IFLA_VF_SPOOFCHK: Final = 4
_IFLA_VF_LINK_STATE: Final = 5
_IFLA_VF_RATE: Final = 6
_IFLA_VF_TRUST: Final = 9
_IFLA_VF_IB_NODE_GUID: Final = 10
_IFLA_VF_IB_PORT_GUID: Final = 11
_IFLA_VF_VLAN_LIST: Final = 12
_IFLA_VF_VLAN_INFO: Final = 1

_MAC: Final = struct.Struct("=I32s")
_PAIR: Final = struct.Struct("=II")
_TRIPLE: Final = struct.Struct("=III")
_VLAN: Final = struct.Struct("=IIIHxx")
_GUID: Final = struct.Struct("=I4xQ")
_UNSUPPORTED: Final = 0xFFFFFFFF
_WHERE: Final = "netlink"

ETH_P_8021Q: Final = 0x8100
VF_LINK_STATES: Final = {"auto": 0, "enable": 1, "disable": 2}


@attrs.frozen(kw_only=True)
class Vf:
    """Administrative values of a virtual function; None where the driver knows no such value.

    Attributes:
        number: Its number under the physical function, from 0.
        mac: Administrative hardware address; all zero when none is set.
        vlan: VLAN number that the function is held in, 0 for none.
        vlan_qos: Priority of that VLAN.
        vlan_protocol: EtherType of that VLAN's tag.
        spoof_check: Packets with a foreign source address are dropped.
        trust: It may set addresses and modes by itself.
        link_state: A value of `VF_LINK_STATES`.
        min_rate_mbps: Guaranteed rate in Mbit/s, 0 for none.
        max_rate_mbps: Limit of the rate in Mbit/s, 0 for none.
        node_guid: InfiniBand node GUID.
        port_guid: InfiniBand port GUID.
    """

    number: int
    mac: str = ""
    vlan: int = 0
    vlan_qos: int = 0
    vlan_protocol: int = ETH_P_8021Q
    spoof_check: bool | None = None
    trust: bool | None = None
    link_state: int | None = None
    min_rate_mbps: int = 0
    max_rate_mbps: int = 0
    node_guid: int | None = None
    port_guid: int | None = None


@attrs.frozen(kw_only=True)
class VfVlan:
    """The VLAN that a virtual function is held in.

    Attributes:
        id: Its number, 0 for none.
        qos: Priority in its tag.
        protocol: EtherType of its tag.
    """

    id: int = 0
    qos: int = 0
    protocol: int = ETH_P_8021Q


@attrs.frozen(kw_only=True)
class VfRate:
    """Both transmit rates of a virtual function in Mbit/s, 0 for none; drivers take them as one."""

    min_mbps: int = 0
    max_mbps: int = 0


@attrs.frozen(kw_only=True)
class VfChange:
    """One administrative value to set; the others are None.

    Attributes:
        mac: Administrative hardware address; all zero takes it away.
        vlan: VLAN with priority and protocol.
        spoof_check: Whether packets with a foreign source address are dropped.
        trust: Whether it may set addresses and modes by itself.
        link_state: A value of `VF_LINK_STATES`.
        rate: Both rates.
    """

    mac: str | None = None
    vlan: VfVlan | None = None
    spoof_check: bool | None = None
    trust: bool | None = None
    link_state: int | None = None
    rate: VfRate | None = None


def parse_vfs(listed: Attributes, mac_bytes: int) -> tuple[Vf, ...]:
    """Decode IFLA_VFINFO_LIST.

    Args:
        listed: The list's content.
        mac_bytes: Length of the link's hardware addresses; the list pads them to 32.

    Raises:
        RemoteProtocolError: A value is too short.
    """
    return tuple(_parse_vf(found, mac_bytes) for found in listed.nests(_IFLA_VF_INFO))


def _parse_vf(found: Attributes, mac_bytes: int) -> Vf:
    number, mac = _values(_MAC, found.raw(_IFLA_VF_MAC), (0, b""))
    vlan, qos, protocol = _parse_vlan(found)
    _, min_rate, max_rate = _values(_TRIPLE, found.raw(_IFLA_VF_RATE), (number, 0, 0))
    return Vf(
        number=number,
        mac=mac[:mac_bytes].hex(":") if mac else "",
        vlan=vlan,
        vlan_qos=qos,
        vlan_protocol=protocol,
        spoof_check=_switch(found.raw(_IFLA_VF_SPOOFCHK)),
        trust=_switch(found.raw(_IFLA_VF_TRUST)),
        link_state=_setting(found.raw(_IFLA_VF_LINK_STATE)),
        min_rate_mbps=min_rate,
        max_rate_mbps=max_rate,
        node_guid=_guid(found.raw(_IFLA_VF_IB_NODE_GUID)),
        port_guid=_guid(found.raw(_IFLA_VF_IB_PORT_GUID)),
    )


def _parse_vlan(found: Attributes) -> tuple[int, int, int]:
    """Give VLAN number, priority and EtherType: from the list, else from its older form."""
    entries = found.nest(_IFLA_VF_VLAN_LIST).raw(_IFLA_VF_VLAN_INFO)
    if entries:
        _, vlan, qos, protocol = _values(_VLAN, entries, (0, 0, 0, 0))
        # The one field in network byte order.
        return vlan, qos, int.from_bytes(struct.pack("=H", protocol), "big") or ETH_P_8021Q
    _, vlan, qos = _values(_TRIPLE, found.raw(_IFLA_VF_VLAN), (0, 0, 0))
    return vlan, qos, ETH_P_8021Q


def _values(form: struct.Struct, data: bytes, absent: tuple[Any, ...]) -> tuple[Any, ...]:
    if not data:
        return absent
    if len(data) < form.size:
        raise RemoteProtocolError(_WHERE, f"a VF's value of {len(data)} bytes")
    return form.unpack_from(data)


def _setting(data: bytes) -> int | None:
    """Give a 32-bit setting; the kernel writes all ones where the driver has no answer."""
    _, value = _values(_PAIR, data, (0, _UNSUPPORTED))
    return None if value == _UNSUPPORTED else value


def _switch(data: bytes) -> bool | None:
    value = _setting(data)
    return None if value is None else bool(value)


def _guid(data: bytes) -> int | None:
    _, value = _values(_GUID, data, (0, 0))
    return int(value) if data else None


def vf_value(number: int, change: VfChange) -> bytes:
    """Give the one value of a request that makes a change.

    Raises:
        LocalProtocolError: It holds none, or several, which the kernel would not set as one.
    """
    values = []
    if change.mac is not None:
        values.append(vf_mac(number, change.mac))
    if change.vlan is not None:
        vlan = change.vlan
        values.append(vf_vlan(number, vlan.id, qos=vlan.qos, protocol=vlan.protocol))
    if change.spoof_check is not None:
        values.append(vf_spoof_check(number, on=change.spoof_check))
    if change.trust is not None:
        values.append(vf_trust(number, on=change.trust))
    if change.link_state is not None:
        values.append(vf_link_state(number, change.link_state))
    if change.rate is not None:
        rate = change.rate
        values.append(vf_rate(number, min_mbps=rate.min_mbps, max_mbps=rate.max_mbps))
    if len(values) != 1:
        raise LocalProtocolError(
            _WHERE, f"{len(values)} values of a VF in one request", rule="exactly one is sent"
        )
    return values[0]


def vf_mac(number: int, mac: str) -> bytes:
    """Give the one value of a request that sets the administrative hardware address."""
    return nla.attribute(_IFLA_VF_MAC, _MAC.pack(number, pack_mac(mac)))


def vf_vlan(number: int, vlan: int, *, qos: int = 0, protocol: int = ETH_P_8021Q) -> bytes:
    """Give the one value of a request that sets the VLAN; number 0 takes it away."""
    big = int.from_bytes(protocol.to_bytes(2, "big"), sys.byteorder)
    entry = nla.attribute(_IFLA_VF_VLAN_INFO, _VLAN.pack(number, vlan, qos, big))
    return nla.nest(_IFLA_VF_VLAN_LIST, entry)


def vf_spoof_check(number: int, *, on: bool) -> bytes:
    """Give the one value of a request that switches the spoof check."""
    return nla.attribute(_IFLA_VF_SPOOFCHK, _PAIR.pack(number, on))


def vf_trust(number: int, *, on: bool) -> bytes:
    """Give the one value of a request that switches trust."""
    return nla.attribute(_IFLA_VF_TRUST, _PAIR.pack(number, on))


def vf_link_state(number: int, state: int) -> bytes:
    """Give the one value of a request that sets the link state, of `VF_LINK_STATES`."""
    return nla.attribute(_IFLA_VF_LINK_STATE, _PAIR.pack(number, state))


def vf_rate(number: int, *, min_mbps: int, max_mbps: int) -> bytes:
    """Give the one value of a request that sets both rates in Mbit/s, 0 for none."""
    return nla.attribute(_IFLA_VF_RATE, _TRIPLE.pack(number, min_mbps, max_mbps))


def vf_info(value: bytes) -> bytes:
    """Give the content of IFLA_VFINFO_LIST for one value of the functions above."""
    return nla.nest(_IFLA_VF_INFO, value)
