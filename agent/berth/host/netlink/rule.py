"""Rules: which routing table answers for which packets.

Source: include/uapi/linux/fib_rules.h, net/core/fib_rules.c.
"""

from __future__ import annotations

import struct
from typing import Final

import attrs

from berth.errors import RemoteProtocolError
from berth.host.netlink import attributes as nla
from berth.host.netlink.attributes import Attributes, parse_attributes
from berth.host.netlink.ip import AF_INET, IpNetwork, family_known, parse_network
from berth.host.netlink.message import NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, Message, Request

RTM_NEWRULE: Final = 32
RTM_DELRULE: Final = 33
RTM_GETRULE: Final = 34

FR_ACT_TO_TABLE: Final = 1
FR_ACT_GOTO: Final = 2
FIB_RULE_INVERT: Final = 2

_FRA_DST: Final = 1
_FRA_SRC: Final = 2
_FRA_IIFNAME: Final = 3
_FRA_GOTO: Final = 4
_FRA_PRIORITY: Final = 6
_FRA_FWMARK: Final = 10
_FRA_SUPPRESS_PREFIXLEN: Final = 14
_FRA_TABLE: Final = 15
_FRA_FWMASK: Final = 16
_FRA_OIFNAME: Final = 17
_FRA_L3MDEV: Final = 19
_FRA_UID_RANGE: Final = 20
_FRA_PROTOCOL: Final = 21
_FRA_IP_PROTO: Final = 22
_FRA_SPORT_RANGE: Final = 23
_FRA_DPORT_RANGE: Final = 24

_HEAD: Final = struct.Struct("=BBBBBxxBI")
_UIDS: Final = struct.Struct("=II")
_PORTS: Final = struct.Struct("=HH")
_NOT_SUPPRESSED: Final = 0xFFFFFFFF
_WHERE: Final = "netlink"


@attrs.frozen(kw_only=True)
class Rule:
    """A routing rule.

    Attributes:
        family: AF_INET or AF_INET6.
        priority: Lower is asked first; the kernel's own are 0, 32766 and 32767.
        table: Routing table it leads to.
        action: FR_ACT_*; 1 leads to the table.
        source: Only packets from there.
        destination: Only packets to there.
        input_link: Only packets that came in by the link of this name.
        output_link: Only packets of sockets bound to the link of this name.
        mark: Firewall mark.
        mark_mask: Bits of the mark that are compared; 0 when no mark is.
        tos: Type of service.
        goto: Priority of the rule to go on with, for action 2.
        suppress_prefix_length: Answers with prefixes up to this length do not count; -1 for off.
        l3mdev: Leads to the table of the packet's VRF.
        uids: Range of user ids, None for all.
        ip_protocol: Number of the IP protocol, 0 for all.
        source_ports: Range of ports, None for all.
        destination_ports: Range of ports, None for all.
        protocol: Who set it, RTPROT_*.
        flags: FIB_RULE_*; `FIB_RULE_INVERT` is a wish, the rest the kernel's findings.
    """

    family: int = AF_INET
    priority: int = 0
    table: int = 254
    action: int = FR_ACT_TO_TABLE
    source: IpNetwork | None = None
    destination: IpNetwork | None = None
    input_link: str = ""
    output_link: str = ""
    mark: int = 0
    mark_mask: int = 0
    tos: int = 0
    goto: int = 0
    suppress_prefix_length: int = -1
    l3mdev: bool = False
    uids: tuple[int, int] | None = None
    ip_protocol: int = 0
    source_ports: tuple[int, int] | None = None
    destination_ports: tuple[int, int] | None = None
    protocol: int = 4
    flags: int = 0


def parse_rule(message: Message) -> Rule | None:
    """Decode RTM_NEWRULE or RTM_DELRULE; None for one that is not of IP.

    Raises:
        RemoteProtocolError: The message is malformed.
    """
    if len(message.body) < _HEAD.size:
        raise RemoteProtocolError(_WHERE, f"a rule message of {len(message.body)} bytes")
    family, dst_len, src_len, tos, table, action, flags = _HEAD.unpack_from(message.body)
    if not family_known(family):
        return None
    found = parse_attributes(message.body[_HEAD.size :])
    suppressed = found.u32(_FRA_SUPPRESS_PREFIXLEN, _NOT_SUPPRESSED)
    return Rule(
        family=family,
        priority=found.u32(_FRA_PRIORITY),
        table=found.u32(_FRA_TABLE, table),
        action=action,
        source=parse_network(found.raw(_FRA_SRC), src_len, family) if src_len else None,
        destination=parse_network(found.raw(_FRA_DST), dst_len, family) if dst_len else None,
        input_link=found.text(_FRA_IIFNAME),
        output_link=found.text(_FRA_OIFNAME),
        mark=found.u32(_FRA_FWMARK),
        mark_mask=found.u32(_FRA_FWMASK),
        tos=tos,
        goto=found.u32(_FRA_GOTO),
        suppress_prefix_length=-1 if suppressed == _NOT_SUPPRESSED else suppressed,
        l3mdev=bool(found.u8(_FRA_L3MDEV)),
        uids=_range(_UIDS, found, _FRA_UID_RANGE),
        ip_protocol=found.u8(_FRA_IP_PROTO),
        source_ports=_range(_PORTS, found, _FRA_SPORT_RANGE),
        destination_ports=_range(_PORTS, found, _FRA_DPORT_RANGE),
        protocol=found.u8(_FRA_PROTOCOL),
        flags=flags,
    )


def _range(form: struct.Struct, found: Attributes, kind: int) -> tuple[int, int] | None:
    data = found.raw(kind)
    if not data:
        return None
    if len(data) != form.size:
        raise RemoteProtocolError(_WHERE, f"a range of {len(data)} bytes in a rule")
    first, last = form.unpack(data)
    return first, last


def dump_rules(family: int) -> Request:
    """Ask for all rules of a family."""
    body = _HEAD.pack(family, 0, 0, 0, 0, 0, 0)
    return Request(type=RTM_GETRULE, flags=NLM_F_DUMP, body=body, label="RTM_GETRULE")


def new_rule(rule: Rule) -> Request:
    """Add a rule; EEXIST when an equal one is there."""
    return _request(RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, rule)


def delete_rule(rule: Rule) -> Request:
    """Take a rule away; ENOENT when none fits all that the value says."""
    return _request(RTM_DELRULE, 0, rule)


def _request(kind: int, flags: int, rule: Rule) -> Request:
    head = _HEAD.pack(
        rule.family,
        rule.destination.prefixlen if rule.destination else 0,
        rule.source.prefixlen if rule.source else 0,
        rule.tos,
        rule.table if rule.table < 256 else 0,
        rule.action,
        rule.flags & FIB_RULE_INVERT,
    )
    name = "RTM_NEWRULE" if kind == RTM_NEWRULE else "RTM_DELRULE"
    body = head + b"".join([*_selectors(rule), *_outcome(rule)])
    return Request(type=kind, flags=flags, body=body, label=f"{name} {rule.priority}")


def _selectors(rule: Rule) -> list[bytes]:
    """Give what a packet is compared with."""
    parts = []
    if rule.destination is not None and rule.destination.prefixlen:
        parts.append(nla.attribute(_FRA_DST, rule.destination.network_address.packed))
    if rule.source is not None and rule.source.prefixlen:
        parts.append(nla.attribute(_FRA_SRC, rule.source.network_address.packed))
    if rule.input_link:
        parts.append(nla.text(_FRA_IIFNAME, rule.input_link))
    if rule.output_link:
        parts.append(nla.text(_FRA_OIFNAME, rule.output_link))
    if rule.mark or rule.mark_mask:
        parts.append(nla.u32(_FRA_FWMARK, rule.mark))
        parts.append(nla.u32(_FRA_FWMASK, rule.mark_mask))
    if rule.uids is not None:
        parts.append(nla.attribute(_FRA_UID_RANGE, _UIDS.pack(*rule.uids)))
    if rule.ip_protocol:
        parts.append(nla.u8(_FRA_IP_PROTO, rule.ip_protocol))
    if rule.source_ports is not None:
        parts.append(nla.attribute(_FRA_SPORT_RANGE, _PORTS.pack(*rule.source_ports)))
    if rule.destination_ports is not None:
        parts.append(nla.attribute(_FRA_DPORT_RANGE, _PORTS.pack(*rule.destination_ports)))
    return parts


def _outcome(rule: Rule) -> list[bytes]:
    """Give what becomes of a packet that fits."""
    parts = [
        nla.u32(_FRA_PRIORITY, rule.priority),
        nla.u32(_FRA_TABLE, rule.table),
        nla.u8(_FRA_PROTOCOL, rule.protocol),
    ]
    if rule.goto:
        parts.append(nla.u32(_FRA_GOTO, rule.goto))
    if rule.suppress_prefix_length >= 0:
        parts.append(nla.u32(_FRA_SUPPRESS_PREFIXLEN, rule.suppress_prefix_length))
    if rule.l3mdev:
        parts.append(nla.u8(_FRA_L3MDEV, 1))
    return parts
