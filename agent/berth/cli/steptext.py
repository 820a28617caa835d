"""Steps of a plan as words: the netlink message and what is in it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import attrs

from berth.host.netlink.address import IFA_F_NODAD, IFA_F_NOPREFIXROUTE, Address
from berth.host.netlink.kinds import Ipvlan, KindData, Macvlan, Vlan, kind_name
from berth.host.netlink.link import IFF_ALLMULTI, IFF_PROMISC, IFF_UP
from berth.host.netlink.linkrequest import LinkChange
from berth.host.netlink.neighbor import Neighbor
from berth.host.netlink.route import RT_TABLE_MAIN, RTNH_F_ONLINK, Route
from berth.host.netlink.rule import Rule
from berth.host.netlink.vf import VF_LINK_STATES, VfChange
from berth.nic.steps import (
    Altnames,
    Change,
    DropAddress,
    DropRule,
    DropVrf,
    JoinVrf,
    MakeChild,
    MakeVrf,
    MoveAway,
    PutAddress,
    PutNeighbor,
    PutRoute,
    PutRule,
    PutSettings,
    PutSwitches,
    RemoveLink,
    SetLink,
    SetVf,
)

_FLAGS: Final = {IFF_UP: "up", IFF_PROMISC: "promiscuous", IFF_ALLMULTI: "all-multicast"}
_SCOPES: Final = {253: "link", 254: "host"}


def words(change: Change) -> str:
    """What one step does: ``RTM_NEWADDR 192.0.2.10/24``."""
    match change:
        case SetLink() | Altnames() | MoveAway() | MakeChild() | RemoveLink():
            return _of_link(change)
        case PutAddress():
            return f"RTM_NEWADDR {_address(change.address)}"
        case DropAddress():
            return f"RTM_DELADDR {_address(change.address)}"
        case SetVf() | MakeVrf() | JoinVrf() | DropVrf():
            return _of_others(change)
        case _:
            return _of_table(change)


def _of_others(change: SetVf | MakeVrf | JoinVrf | DropVrf) -> str:
    match change:
        case SetVf():
            seat = change.seat
            return f"RTM_NEWLINK of PF {seat.pf}, VF {seat.number}: {_vf(change.change)}"
        case MakeVrf():
            return f"RTM_NEWLINK vrf (table {change.table}) {change.name} made, up"
        case JoinVrf():
            return f"RTM_NEWLINK into {change.name}"
        case DropVrf():
            return f"RTM_DELLINK {change.name}"


def _of_table(
    change: PutRoute | PutRule | DropRule | PutNeighbor | PutSettings | PutSwitches,
) -> str:
    match change:
        case PutRoute():
            return f"RTM_NEWROUTE {_route(change.route)}"
        case PutRule():
            return f"RTM_NEWRULE {_rule(change.rule)}"
        case DropRule():
            return f"RTM_DELRULE {_rule(change.rule)}"
        case PutNeighbor():
            return f"RTM_NEWNEIGH {_neighbor(change.neighbor)}"
        case PutSettings():
            return f"/proc/sys/net {_values(change.values)}"
        case PutSwitches():
            return f"ETHTOOL_MSG_FEATURES_SET {_values(change.values)}"


def _of_link(change: SetLink | Altnames | MoveAway | MakeChild | RemoveLink) -> str:
    match change:
        case SetLink():
            return f"RTM_NEWLINK {_link(change.change)}"
        case Altnames():
            parts = [f"RTM_NEWLINKPROP name {name} added" for name in change.add]
            return ", ".join(parts + [f"RTM_DELLINKPROP name {name} off" for name in change.remove])
        case MoveAway():
            rest = _link(attrs.evolve(change.change, name=None))
            moved = f"RTM_NEWLINK into the pod as {change.change.name}"
            return f"{moved}, {rest}" if rest else moved
        case MakeChild():
            rest = _link(change.change)
            made = f"RTM_NEWLINK {_kind(change.kind)} {change.name} made in the pod"
            return f"{made}, {rest}" if rest else made
        case RemoveLink():
            return "RTM_DELLINK"


def _vf(change: VfChange) -> str:
    if change.mac is not None:
        return f"address {change.mac}"
    if change.vlan is not None:
        vlan = change.vlan
        return f"vlan {vlan.id} qos {vlan.qos} proto {vlan.protocol:#06x}"
    if change.rate is not None:
        return f"min_tx_rate {change.rate.min_mbps} max_tx_rate {change.rate.max_mbps}"
    if change.link_state is not None:
        words = {number: word for word, number in VF_LINK_STATES.items()}
        return f"state {words.get(change.link_state, change.link_state)}"
    if change.trust is not None:
        return f"trust {'on' if change.trust else 'off'}"
    return f"spoofchk {'on' if change.spoof_check else 'off'}"


def _link(change: LinkChange) -> str:
    return ", ".join(_link_words(change))


def _link_words(change: LinkChange) -> Iterator[str]:
    numbers = {"mtu": change.mtu, "txqlen": change.txqlen, "group": change.group}
    if change.name is not None:
        yield f"name {change.name}"
    yield from (f"{name} {value}" for name, value in numbers.items() if value is not None)
    if change.mac is not None:
        yield f"address {change.mac}"
    for name, value in attrs.asdict(change.offload).items():
        if value:
            yield f"{name} {value}"
    for flag, word in _FLAGS.items():
        if change.flags_on & flag:
            yield word
        if change.flags_off & flag:
            yield "down" if flag == IFF_UP else f"not {word}"
    if change.ipv4_conf:
        yield _values({f"ipv4/{name}": value for name, value in change.ipv4_conf.items()})
    if change.addr_gen_mode is not None:
        yield f"addr_gen_mode {change.addr_gen_mode}"


def _kind(kind: KindData) -> str:
    mode = f" ({kind.mode})" if isinstance(kind, Macvlan | Ipvlan) else ""
    vlan = f" ({kind.protocol} {kind.id})" if isinstance(kind, Vlan) else ""
    return f"{kind_name(kind)}{mode}{vlan}"


def _address(address: Address) -> str:
    parts = [str(address.ip)]
    if address.peer is not None:
        parts.append(f"peer {address.peer}")
    if address.flags & IFA_F_NODAD:
        parts.append("without duplicate detection")
    if address.flags & IFA_F_NOPREFIXROUTE:
        parts.append("without a route to its network")
    return ", ".join(parts)


def _route(route: Route) -> str:
    parts = ["default" if not route.destination.prefixlen else str(route.destination)]
    for hop in route.hops:
        parts += [f"via {hop.gateway}"] if hop.gateway is not None else []
        parts += ["onlink"] if hop.flags & RTNH_F_ONLINK else []
    if route.preferred_source is not None:
        parts.append(f"src {route.preferred_source}")
    if route.scope in _SCOPES:
        parts.append(f"scope {_SCOPES[route.scope]}")
    if route.table != RT_TABLE_MAIN:
        parts.append(f"table {route.table}")
    if route.priority:
        parts.append(f"metric {route.priority}")
    if route.mtu:
        parts.append(f"mtu {route.mtu}")
    return " ".join(parts)


def _rule(rule: Rule) -> str:
    parts = [f"priority {rule.priority}"]
    parts += [f"from {rule.source}"] if rule.source is not None else []
    parts += [f"to {rule.destination}"] if rule.destination is not None else []
    parts += [f"iif {rule.input_link}"] if rule.input_link else []
    parts += [f"fwmark {rule.mark:#x}"] if rule.mark_mask else []
    return " ".join([*parts, f"table {rule.table}"])


def _neighbor(neighbor: Neighbor) -> str:
    return f"{neighbor.ip} at {neighbor.mac}, permanent"


def _values(values: Mapping[str, int]) -> str:
    """Settings by name; switches are numbers here as well."""
    return " ".join(f"{name}={int(value)}" for name, value in sorted(values.items()))
