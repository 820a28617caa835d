"""The ``[nic]`` table: which network devices are offered, and what holds among its groups.

Contract: network.md §1.4.
"""

from __future__ import annotations

import re
from enum import Enum
from itertools import combinations
from typing import Final

import attrs

from berth.config.decode import key, tables
from berth.config.finding import Cursor, toml_text
from berth.config.forms import Choice, Flag, Several, Text, listed
from berth.config.match import DNS_LABEL
from berth.config.nicgroup import NicGroup
from berth.config.overlap import shared_things
from berth.model.device import NicMode
from berth.model.names import is_pci_address

OWN_ATTRIBUTES_LIMIT: Final = {NicMode.EXCLUSIVE: 9, NicMode.SHARED: 7, NicMode.VFIO: 9}
"""Most attributes that operators may add, over all groups of a mode.

A device takes 32 attributes and capacities together, and all devices of a type carry the same
keys; 20 core and 3 standard attributes are berth's own, and 2 capacities of a shared parent
(network.md §2.1, §2.3).
"""


class AliasSet(Enum):
    """Attributes under the names that other drivers use (network.md §2.2)."""

    DRA_NET = "dra.net"
    SRIOV = "sriov"
    MULTUS = "multus"


def _identity(text: str) -> str | None:
    kind, _, rest = text.partition(":")
    if kind == "pci":
        address, slash, port = rest.lower().partition("/")
        good = is_pci_address(address) and (port.isdigit() if slash else True)
        return f"pci:{rest.lower()}" if good else None
    pattern = {"usb": r"[^\s*?\[\]]+", "link": r"[0-9a-f-]{36}:[1-9][0-9]*"}.get(kind)
    return text if pattern and re.fullmatch(pattern, rest) else None


def _identity_hint(text: str) -> str:
    if any(sign in text for sign in "*?["):
        return "wildcards are not taken here: name each device"
    return f'write "pci:{text.lower()}"' if is_pci_address(text.lower()) else ""


_IDENTITY = Text(
    what='the identity of one device, such as "pci:0000:41:00.0"; `berth devices --json` shows it',
    parse=_identity,
    hint=_identity_hint,
)


def _check_groups(groups: tuple[NicGroup, ...], cursor: Cursor) -> None:
    """What must hold among groups: names differ, no NIC is named twice, attributes fit."""
    for (first, one), (second, other) in combinations(enumerate(groups, start=1), 2):
        here = cursor.at(second - 1)
        if one.name and one.name == other.name:
            here.at("name").say(
                f'is "{other.name}", as is that of group {first}', mend="choose another name"
            )
        left = one.name in other.excepts
        for matcher, thing in () if left else shared_things(one.match, other.match):
            named = f' "{one.name}"' if one.name else ""
            here.at("match", matcher).say(
                f"takes {thing}, as does group {first}{named}",
                rule="a NIC belongs to one group",
                mend=f"drop it from one of the two{_leaving(one)}",
            )
    _check_exceptions(groups, cursor)
    _check_attributes(groups, cursor)


def _leaving(first: NicGroup) -> str:
    return f', or write except = ["{first.name}"] here' if first.name else ""


def _check_exceptions(groups: tuple[NicGroup, ...], cursor: Cursor) -> None:
    """A group leaves NICs to groups above it alone, so that the first of all that fit has them."""
    above: dict[str, None] = {}
    for number, group in enumerate(groups):
        for position, name in enumerate(group.excepts):
            if name not in above:
                there = listed([toml_text(each) for each in above], last="or")
                cursor.at(number, "except", position).say(
                    f'holds "{name}"',
                    rule=f"it must name a group further up: {there or 'there is none'}",
                )
        above[group.name] = None


def _check_attributes(groups: tuple[NicGroup, ...], cursor: Cursor) -> None:
    """Devices of one mode carry the attributes of all its groups, and have room for so many."""
    for mode, limit in OWN_ATTRIBUTES_LIMIT.items():
        names: dict[str, None] = {}
        for number, group in enumerate(groups):
            if group.mode is not mode or names.keys() >= group.attributes.keys():
                continue
            names.update(dict.fromkeys(group.attributes))
            if len(names) > limit:
                cursor.at(number, "attributes").say(
                    f"makes {len(names)} own attributes over the groups of mode "
                    f'"{mode.value}": {listed(list(names))}',
                    rule=f"there is room for {limit}, since all devices of a mode carry the same",
                )


@attrs.frozen(kw_only=True)
class NicTable:
    """[nic]: network devices."""

    enabled: bool = key(
        Flag(),
        True,
        "Whether NICs are offered; without a group they are listed by `berth devices` only.",
    )
    publish_volatile: bool = key(
        Flag(),
        False,
        "Whether carrier, state and addresses are published as attributes. "
        "Each change of theirs is a write to the API server.",
    )
    aliases: tuple[AliasSet, ...] = key(
        Several(item=Choice(kind=AliasSet)),
        (),
        "Sets of attributes that are published a second time under the names of other drivers.",
    )
    uplink_ok: tuple[str, ...] = key(
        Several(item=_IDENTITY),
        (),
        "Devices that are offered although the node itself is reached through them. "
        "Each is named by its identity, as `berth devices --json` shows it, and logged at each "
        "start.",
    )
    vm_handlers: tuple[str, ...] = key(
        Several(item=DNS_LABEL),
        (),
        "Runtime handlers that run pods in virtual machines, into which no interface can be moved. "
        "Their pods are refused every device but functions that vfio-pci has, RDMA devices and "
        "block devices.",
    )
    groups: tuple[NicGroup, ...] = tables(
        NicGroup, "NICs that are offered alike.", name="group", check=_check_groups
    )
