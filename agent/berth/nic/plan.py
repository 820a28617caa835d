"""From a NIC's configuration to the steps that make it so, and to what is still missing of it.

Everything that can fail for reasons of the device is a step at home, done at prepare; the hook
does only what needs the pod's namespace. A plan made from what is there already holds only what is
missing, so doing it again repairs and never doubles.

Source: network.md §4.2 and §4.3, for the order and for what the kernel refuses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from ipaddress import IPv6Address, IPv6Interface
from typing import Final

import attrs

from berth.errors import ClaimError
from berth.host.netlink.address import IFA_F_NODAD, IFA_F_NOPREFIXROUTE, Address
from berth.host.netlink.ip import AF_INET, AF_INET6
from berth.host.netlink.kinds import Ipvlan, KindData, Macvlan, Vlan
from berth.host.netlink.link import IFF_ALLMULTI, IFF_PROMISC, IFF_UP, Link
from berth.host.netlink.linkrequest import LinkChange
from berth.host.netlink.neighbor import Neighbor
from berth.host.netlink.route import RTNH_F_ONLINK, Hop, Route, mtu_metric
from berth.host.netlink.rule import Rule
from berth.model.claim import NetworkData
from berth.nic.config.values import (
    AddressConfig,
    AttachMode,
    InterfaceConfig,
    NicConfig,
    RouteConfig,
    RouteScope,
    RuleConfig,
)
from berth.nic.staging import differing, link_steps, offload_of
from berth.nic.steps import (
    Altnames,
    Change,
    DropRule,
    MakeChild,
    MoveAway,
    Place,
    PutAddress,
    PutNeighbor,
    PutRoute,
    PutRule,
    PutSettings,
    SetLink,
    Step,
)
from berth.nic.view import View
from berth.nic.vrf import join

IPS_LIMIT: Final = 16
"""Most addresses that a claim's status takes. Source: ``resource/v1/types.go``."""

_SCOPES: Final = {RouteScope.GLOBAL: 0, RouteScope.LINK: 253, RouteScope.HOST: 254}
_ADDR_GEN_MODE: Final = "addr_gen_mode"
_WHOLE_MARK: Final = 0xFFFFFFFF


def require_free_names(
    config: NicConfig, *, pod: str, taken: Mapping[str, str], own: Set[str] = frozenset()
) -> None:
    """Refuse when the pod has a wanted name already.

    Args:
        pod: The pod, for the message.
        taken: Every name and altname in the pod, with the link that it finds.
        own: Names of this very NIC, in case it is in the pod already.

    Raises:
        ClaimError: The name is somebody else's; moving the link would fail half-way.
    """
    for field, name in config.names:
        if name in taken and name not in own:
            raise ClaimError(
                f"pod {pod}",
                f"has a link {taken[name]!r} that the name {name!r} finds",
                rule="the NIC stays at home",
                mend=f"give {field} another value",
            )


def enter(config: NicConfig, link: Link, *, taken: Set[str]) -> tuple[Step, ...]:
    """The steps from a staged link at home into the pod, where it gets the rest by `settle`.

    Args:
        link: As it is at home now; what drifted since it was staged is set again.
        taken: Every name and altname in the pod.
    """
    clashing = tuple(n for n in link.altnames if n in taken and n != config.interface.name)
    steps = list(link_steps(config, link))
    if clashing:
        steps.append(_home("interface", Altnames(remove=clashing)))
    change = attrs.evolve(_in_message(config), name=config.interface.name)
    return (*steps, _home("interface.name", MoveAway(change=change)))


def make(config: NicConfig) -> tuple[Step, ...]:
    """The step that makes a child in the pod, where it gets the rest by `settle`."""
    interface = config.interface
    change = LinkChange(
        mtu=interface.mtu,
        mac=interface.hardware_addr,
        txqlen=interface.tx_queue_len,
        offload=offload_of(interface),
    )
    child = MakeChild(name=interface.name, kind=_kind(config), change=change)
    return (_home(config.mode.value, child),)


def _kind(config: NicConfig) -> KindData:
    """What a child says of its kind."""
    if config.mode is AttachMode.IPVLAN:
        return Ipvlan(mode=config.ipvlan.mode.value, isolation=config.ipvlan.flag.value)
    if config.mode is AttachMode.VLAN and config.vlan.id is not None:
        return Vlan(id=config.vlan.id, protocol=config.vlan.protocol.value.lower())
    return Macvlan(mode=config.macvlan.mode.value)


def settings_of(config: NicConfig) -> dict[str, int]:
    """The settings that go through ``/proc/sys``, by ``ipv6/<name>``.

    IPv6 is switched on for a link that gets an IPv6 address: runtimes may switch it off in a pod.
    """
    values = {f"ipv6/{n}": v for n, v in config.sysctls.ipv6.items() if n != _ADDR_GEN_MODE}
    if any(item.address.version == 6 for item in config.addresses):
        values.setdefault("ipv6/disable_ipv6", 0)
    return dict(sorted(values.items()))


def settle(config: NicConfig, view: View | None, rules: Sequence[Rule] = ()) -> tuple[Step, ...]:
    """What is missing of the configuration in the pod, in the order that the kernel takes it.

    Args:
        view: The link in the pod, with the settings of `settings_of`; ``None`` for one that has
            just arrived and has nothing but what came in the message that moved it.
        rules: The pod's rules.
    """
    steps = [*_missing_settings(config, view)]
    steps.extend(_missing_addresses(config, view))
    steps.extend(_missing_flags(config.interface, view))
    if config.interface.up:
        steps.extend(_missing_routes(config, view))
    steps.extend(_missing_rules(config, rules))
    steps.extend(_missing_neighbors(config, view))
    return tuple(steps)


def lacking(
    config: NicConfig, view: View, rules: Sequence[Rule], *, known: bool = False
) -> tuple[str, ...]:
    """Fields that the pod's link does not show, after everything was said to be done.

    Args:
        known: The link was there before: another name, MTU or MAC is the pod's own affair then,
            and a duplicate address no reason to take the NIC from it.
    """
    fields = [step.field for step in (*join(config, view), *settle(config, view, rules))]
    if not known:
        fields.extend(f"addresses ({a.ip} is a duplicate)" for a in view.addresses if a.dad_failed)
        if view.link.name != config.interface.name:
            fields.append("interface.name")
        if is_moved(config):
            # Whoever changed it between our last look at home and the move.
            fields.extend(differing(config, view.link))
    return tuple(dict.fromkeys(fields))


def network_data(config: NicConfig, view: View) -> NetworkData:
    """What containers and the claim's status are told of the link."""
    order = {item.address: index for index, item in enumerate(config.addresses)}
    found = [a.ip for a in view.addresses if a.scope == 0 and not a.ip.ip.is_link_local]
    found.sort(key=lambda ip: (order.get(ip, len(order)), ip.version, int(ip.ip)))
    return NetworkData(
        interface_name=view.link.name,
        ips=tuple(str(ip) for ip in found[:IPS_LIMIT]),
        hardware_address=view.link.mac,
    )


def route_of(config: RouteConfig, *, table: int | None = None) -> Route:
    """The kernel's route for a configured one; its hop leads out by the link itself.

    Args:
        table: That of the VRF that the link is in.
    """
    return Route(
        destination=config.to,
        hops=(Hop(gateway=config.via, flags=RTNH_F_ONLINK if config.on_link else 0),),
        table=config.table if table is None else table,
        scope=0 if config.to.version == 6 else _SCOPES[config.scope],
        preferred_source=config.source,
        priority=config.metric,
        metrics=mtu_metric(config.mtu or 0),
    )


def rules_of(config: NicConfig, rule: RuleConfig) -> tuple[Rule, ...]:
    """The kernel's rules for a configured one: one per family that it is meant for."""
    return tuple(
        Rule(
            family=AF_INET if version == 4 else AF_INET6,
            priority=rule.priority,
            table=rule.table,
            source=rule.from_,
            destination=rule.to,
            input_link=rule.iif or "",
            mark=rule.fwmark or 0,
            mark_mask=_WHOLE_MARK if rule.fwmark is not None else 0,
        )
        for version in config.rule_versions(rule)
    )


def address_of(config: AddressConfig) -> Address:
    """The kernel's address for a configured one."""
    no_dad = config.no_dad and isinstance(config.address, IPv6Interface)
    flags = (IFA_F_NODAD if no_dad else 0) | (IFA_F_NOPREFIXROUTE if config.no_prefix_route else 0)
    return Address(index=0, ip=config.address, peer=config.peer, flags=flags)


def _in_message(config: NicConfig) -> LinkChange:
    """The settings that the kernel takes in a message about a link."""
    return LinkChange(
        ipv4_conf=dict(config.sysctls.ipv4),
        addr_gen_mode=config.sysctls.ipv6.get(_ADDR_GEN_MODE),
    )


def _missing_settings(config: NicConfig, view: View | None) -> Iterator[Step]:
    wanted = _in_message(config)
    if view is not None:
        wanted = _differing(wanted, view.link)
    elif is_moved(config):
        # They came in the message that moved the link; one that makes a link takes none.
        wanted = LinkChange()
    if wanted != LinkChange():
        yield _pod("sysctls", SetLink(change=wanted))
    values = settings_of(config)
    if view is not None:
        values = {n: v for n, v in values.items() if view.sysctls.get(n, v) != v}
    if values:
        field = ", ".join(f"sysctls.{name.replace('/', '.')}" for name in values)
        yield _pod(field, PutSettings(values=values))


def _differing(wanted: LinkChange, link: Link) -> LinkChange:
    """Of the settings in a link message, those that the link does not show."""
    told = link.ipv4_conf
    mode = wanted.addr_gen_mode
    return LinkChange(
        ipv4_conf={n: v for n, v in wanted.ipv4_conf.items() if told.get(n, v) != v},
        addr_gen_mode=mode if link.addr_gen_mode not in {None, mode} else None,
    )


def _missing_addresses(config: NicConfig, view: View | None) -> Iterator[Step]:
    present = {(a.ip, a.peer) for a in view.addresses} if view else set()
    for index, item in enumerate(config.addresses):
        if (item.address, item.peer) not in present:
            yield _pod(f"addresses[{index}]", PutAddress(address=address_of(item)))


def _missing_flags(interface: InterfaceConfig, view: View | None) -> Iterator[Step]:
    wanted = {
        IFF_UP: interface.up,
        IFF_PROMISC: interface.promiscuous,
        IFF_ALLMULTI: interface.allmulticast,
    }
    flags = view.link.flags if view else 0
    on = sum(flag for flag, wish in wanted.items() if wish and not flags & flag)
    if on:
        yield _pod("interface.up", SetLink(change=LinkChange(flags_on=on)))


def _missing_routes(config: NicConfig, view: View | None) -> Iterator[Step]:
    present = {_route_key(r) for r in view.routes} if view else set()
    table = config.vrf.table if config.vrf.name else None
    routes = [(index, route_of(item, table=table)) for index, item in enumerate(config.routes)]
    for index, route in sorted(routes, key=lambda pair: pair[1].hops[0].gateway is not None):
        if _route_key(route) not in present:
            yield _pod(f"routes[{index}]", PutRoute(route=route))


def _missing_rules(config: NicConfig, present: Sequence[Rule]) -> Iterator[Step]:
    keys = {_rule_key(rule) for rule in present}
    for index, item in enumerate(config.rules):
        for rule in rules_of(config, item):
            if _rule_key(rule) not in keys:
                undo = (DropRule(rule=rule),)
                yield _pod(f"rules[{index}]", PutRule(rule=rule), undo=undo)


def _missing_neighbors(config: NicConfig, view: View | None) -> Iterator[Step]:
    present = {(n.ip, n.mac) for n in view.own_neighbors} if view else set()
    for index, item in enumerate(config.neighbors):
        if (item.address, item.hardware_addr) not in present:
            neighbor = Neighbor(index=0, ip=item.address, mac=item.hardware_addr)
            yield _pod(f"neighbors[{index}]", PutNeighbor(neighbor=neighbor))


def _route_key(route: Route) -> tuple[object, ...]:
    # IPv6 turns a metric of 0 into 1024, and tells it so.
    is_v6 = isinstance(route.destination.network_address, IPv6Address)
    priority = route.priority or (1024 if is_v6 else 0)
    return route.destination, route.table, priority, tuple(hop.gateway for hop in route.hops)


def _rule_key(rule: Rule) -> tuple[object, ...]:
    return (
        rule.family,
        rule.priority,
        rule.table,
        rule.source,
        rule.destination,
        rule.input_link,
        rule.mark,
    )


def _home(field: str, change: Change) -> Step:
    return Step(place=Place.HOME, field=field, change=change)


def _pod(field: str, change: Change, *, undo: tuple[Change, ...] = ()) -> Step:
    return Step(place=Place.POD, field=field, change=change, undo=undo)


def is_moved(config: NicConfig) -> bool:
    """Whether the link itself goes into the pod, rather than a child of it."""
    return config.mode is AttachMode.MOVE
