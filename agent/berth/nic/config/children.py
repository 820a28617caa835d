"""What children of one parent have to do with each other.

The kernel lets macvlan and ipvlan not be over one parent, takes a VLAN of a parent once, and
switches all ipvlan children to the mode of the last one without a word. Source: network.md §3.1,
§10 row 30, tried on Linux 6.12.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from berth.nic.config.decode import RESET
from berth.nic.config.devicefacts import Child, DeviceFacts, HostFacts
from berth.nic.config.group import GroupPolicy
from berth.nic.config.merge import Draft
from berth.nic.config.report import Report, shown
from berth.nic.config.values import AttachMode, IpvlanConfig, NicConfig

_APART: Final = frozenset({AttachMode.MACVLAN.value, AttachMode.IPVLAN.value})
# Each of them takes the parent's one receive handler.


def child_of(config: NicConfig, holder: str = "") -> Child | None:
    """The child that a configuration asks for; ``None`` for a NIC that is moved."""
    if not config.mode.is_child:
        return None
    sort: tuple[str, ...] = ()
    if config.mode is AttachMode.IPVLAN:
        sort = (config.ipvlan.mode.value, config.ipvlan.flag.value)
    elif config.mode is AttachMode.VLAN:
        sort = (str(config.vlan.id), config.vlan.protocol.value)
    return Child(kind=config.mode.value, sort=sort, holder=holder)


def check_children(
    config: NicConfig, draft: Draft, *, facts: DeviceFacts, policy: GroupPolicy, host: HostFacts
) -> None:
    """Note what keeps a child from being made over its parent, or would change another one."""
    child = child_of(config)
    if child is None:
        return
    if facts.link_type != "ether":
        found = f"a {child.kind} child over a link of type {facts.link_type} cannot be made"
        draft.home.say(found)
    if config.mode is AttachMode.IPVLAN:
        _check_ipvlan(config, draft, policy)
    for other in (*facts.children, *host.children.get(facts.identity, ())):
        for path, fault, rule in _between(child, other):
            draft.place(path).say(fault, rule=rule)


def clash(mine: NicConfig, other: NicConfig) -> tuple[str, str]:
    """What two children that are to be made over one parent both want: its field, and in words."""
    one, two = child_of(mine), child_of(other)
    faults = _between(one, two) if one is not None and two is not None else ()
    return next(((path, rule) for path, _, rule in faults), ("", ""))


def _between(child: Child, other: Child) -> Iterator[tuple[str, str, str]]:
    """What speaks against a child beside another one: field, fault, rule."""
    kinds = {child.kind, other.kind}
    if kinds == _APART:
        fault = f'"{child.kind}" beside a child of kind {other.kind} ({other.holder})'
        yield "mode", fault, "a parent carries only one of the two"
    elif kinds == {AttachMode.VLAN.value} and child.sort == other.sort:
        fault = f"{' '.join(reversed(child.sort))} of the parent is in use ({other.holder})"
        yield "vlan.id", fault, "a parent has one child for each VLAN"
    elif kinds == {AttachMode.IPVLAN.value} and child.sort != other.sort:
        fault = f"{'/'.join(child.sort)} beside {'/'.join(other.sort)} ({other.holder})"
        yield "ipvlan.mode", fault, "the parent's other children would be switched over"


def _check_ipvlan(config: NicConfig, draft: Draft, policy: GroupPolicy) -> None:
    """Mode and flag are the parent's, so the node's settings say them."""
    settings = policy.layer(Report()).settings
    for name in ("mode", "flag"):
        path = f"ipvlan.{name}"
        setting = settings.get(path)
        given = setting is not None and setting.sound and setting.value is not RESET
        wanted = setting.value if setting is not None and given else getattr(IpvlanConfig(), name)
        found = getattr(config.ipvlan, name)
        if found is not wanted:
            draft.place(path).say(
                f"{shown(found.value)} is not that of the parent",
                rule=f'group "{policy.name}" says {shown(wanted.value)} for all of its children',
                mend=f"write it into the group's defaults, or drop {path}",
            )
