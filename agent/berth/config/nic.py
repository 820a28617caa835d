"""The ``[nic]`` table: which network devices are offered, to whom, and how.

Contract: network.md §1.4. ``defaults`` and ``claims_may`` speak of a claim's own configuration,
which the ``nic`` package reads and checks; here they are kept as written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from itertools import combinations
from typing import Any, Final

import attrs

from berth.config.attributes import OwnAttributes
from berth.config.bandwidth import BANDWIDTH, MEGABIT
from berth.config.decode import Written, key, table, tables
from berth.config.finding import Cursor, toml_text
from berth.config.forms import AnyTable, Choice, Flag, OrEmpty, Several, Text, Whole, listed
from berth.config.match import DNS_LABEL, NicMatch
from berth.config.overlap import shared_things
from berth.model.device import Attribute, NicMode
from berth.model.names import is_pci_address

OWN_ATTRIBUTES_LIMIT: Final = {NicMode.EXCLUSIVE: 9, NicMode.SHARED: 7}
"""Most attributes that operators may add, over all groups of a mode.

A device takes 32 attributes and capacities together, and all devices of a type carry the same
keys; 20 core and 3 standard attributes are berth's own, and 2 capacities of a shared parent
(network.md §2.1, §2.3).
"""

SLOTS_LIMIT: Final = 1024
"""Most claims that may be let use one parent at once."""


class Door(Enum):
    """The ways by which a device reaches a pod."""

    DRA = "dra"
    PLUGIN = "plugin"
    AUTO = "auto"
    BOTH = "both"


class Scrub(Enum):
    """What is done to a NIC between two holders."""

    RESTORE = "restore"
    REBIND = "rebind"


class ChildKind(Enum):
    """Kinds of link that are made over a shared parent."""

    MACVLAN = "macvlan"
    IPVLAN = "ipvlan"
    VLAN = "vlan"


class CarrierSeverity(Enum):
    """How bad a lost carrier is."""

    DEGRADED = "degraded"
    FAULT = "fault"


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


def _field(text: str) -> str | None:
    return text if re.fullmatch(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*", text) else None


_IDENTITY = Text(
    what='the identity of one device, such as "pci:0000:41:00.0"; `berth devices --json` shows it',
    parse=_identity,
    hint=_identity_hint,
)
_FIELD = Text(what='a field of NicConfig such as "rules"', parse=_field)


@attrs.frozen(kw_only=True)
class NicShared:
    """shared: how a parent is divided among claims."""

    slots: int = key(
        Whole(least=1, most=SLOTS_LIMIT), 32, "Most claims that use the parent at once."
    )
    children: tuple[ChildKind, ...] = key(
        Several(item=Choice(kind=ChildKind, now=(ChildKind.MACVLAN,)), least=1),
        (ChildKind.MACVLAN,),
        "Kinds of link that may be made over the parent; "
        "the first is made unless the claim says otherwise.",
    )
    bandwidth: int | None = key(
        OrEmpty(BANDWIDTH),
        None,
        'Bandwidth of the parent, such as `"25G"`, which the scheduler divides among claims. '
        "It is accounted, not enforced. Empty: not accounted.",
        unit="bit/s",
    )

    def check(self, cursor: Cursor, written: Written) -> None:
        """Each slot must come to at least one step of bandwidth."""
        if self.bandwidth is None or "slots" in written.at_fault:
            return
        if self.bandwidth < self.slots * MEGABIT:
            cursor.at("bandwidth").say(
                f"is less than 1M for each of {self.slots} slots",
                rule="1M is the least that a claim takes",
                mend="give fewer slots or more bandwidth",
            )


@attrs.frozen(kw_only=True)
class NicHealth:
    """health: what counts as sick. Kept for health reports, which a later version makes."""

    carrier: CarrierSeverity = key(
        Choice(kind=CarrierSeverity),
        CarrierSeverity.DEGRADED,
        "How bad a lost carrier is. Without effect in this version.",
    )
    timeout_s: int = key(
        Whole(least=1, most=86400),
        60,
        "Longest that a health report stays valid. Without effect in this version.",
        unit="seconds",
    )


@attrs.frozen(kw_only=True)
class NicGroup:
    """[[nic.group]]: NICs that are offered alike."""

    name: str = key(
        DNS_LABEL,
        "",
        "Name of the group, published as the attribute `group`; no two are alike.",
        required=True,
    )
    match: NicMatch = table(
        NicMatch,
        "Which NICs belong to the group: all conditions given must hold, "
        "the items of one are alternatives.",
        required=True,
    )
    excepts: tuple[str, ...] = key(
        Several(item=DNS_LABEL),
        (),
        "Groups further up in the file whose NICs this one leaves to them: "
        "whatever meets their conditions is not taken, also when it meets these.",
        name="except",
        known_as=("exclude", "excepts", "not"),
    )
    mode: NicMode = key(
        Choice(kind=NicMode, now=(NicMode.EXCLUSIVE, NicMode.SHARED)),
        NicMode.EXCLUSIVE,
        "`exclusive`: the NIC moves into one pod. "
        "`shared`: it stays at home and claims get links made over it.",
    )
    door: Door = key(
        Choice(kind=Door, now=(Door.DRA,)), Door.DRA, "The way by which the devices reach pods."
    )
    order: int = key(
        Whole(least=-1000, most=1000),
        0,
        "Groups of a lower number are published first, and first fit takes them first. "
        "Among equals dedicated NICs come before shared parents, "
        "then the order of the file decides.",
    )
    attributes: Mapping[str, Attribute] = key(
        OwnAttributes(),
        {},
        "Own attributes of the devices, for selectors: text, whole numbers, true or false, "
        'or `{ version = "1.2.3" }`.',
    )
    take_configured: bool = key(
        Flag(),
        False,
        "Whether NICs are offered that carry an address or a static route of the host.",
    )
    claims_may: tuple[str, ...] = key(
        Several(item=_FIELD),
        (),
        "Guarded fields that the author of a claim may set; else only a DeviceClass may.",
    )
    claims_deny: tuple[str, ...] = key(
        Several(item=_FIELD), (), "Other fields that the author of a claim may not set."
    )
    defaults: Mapping[str, Any] = key(
        AnyTable("table: a NicConfig without apiVersion and kind"),
        {},
        "Settings that hold for every claim on the group unless a class or claim sets them.",
    )
    scrub: Scrub = key(
        Choice(kind=Scrub, now=(Scrub.RESTORE,)),
        Scrub.RESTORE,
        "What is done when a NIC comes home. `restore`: everything is set as it was before.",
    )
    health: NicHealth = table(NicHealth, "What counts as sick.")
    shared: NicShared = table(NicShared, "How a parent is divided; with mode `shared`.")

    def check(self, cursor: Cursor, written: Written) -> None:
        """Tables that go with a mode, and fields that are both given and taken away."""
        unshared = "mode" not in written.at_fault and self.mode is not NicMode.SHARED
        if unshared and "shared" in written.given:
            cursor.at("shared").say(
                f'is given with mode "{self.mode.value}"',
                rule='it says how a parent of mode "shared" is divided',
                mend='write mode = "shared", or drop it',
            )
        for field in sorted({*self.claims_may} & {*self.claims_deny}):
            cursor.at("claims_deny").say(
                f'holds "{field}", which claims_may holds as well', mend="drop one of the two"
            )
        if "health" in written.given:
            cursor.at("health").warn("has no effect in this version")


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
        "Runtime handlers that run pods in virtual machines, into which no interface can be moved.",
    )
    groups: tuple[NicGroup, ...] = tables(
        NicGroup, "NICs that are offered alike.", name="group", check=_check_groups
    )
