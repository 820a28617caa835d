"""What a claim's configuration may say of a link that is made over a shared parent.

Contract: network.md §3.1.
"""

from __future__ import annotations

from typing import Final

from berth.config.forms import Whole
from berth.nic.config.field import Field, Guard
from berth.nic.config.kinds import Word
from berth.nic.config.values import IpvlanFlag, IpvlanMode, MacvlanMode, VlanProtocol

CHILD_FIELDS: Final = (
    Field(
        path="macvlan.mode",
        form=Word(kind=MacvlanMode),
        meaning="How children of one parent reach each other. "
        "`passthru` takes the whole parent: the group has one slot, and it is no uplink.",
        default='"bridge"',
        guarded_values=((MacvlanMode.PASSTHRU, "macvlan.mode"),),
    ),
    Field(
        path="ipvlan.mode",
        form=Word(kind=IpvlanMode),
        meaning="Whether children are told apart by their addresses alone (`l2`), or the node's "
        "routing leads to them as well (`l3`; `l3s` with its packet filter). "
        "One for all children of a parent: what the group's `defaults` say.",
        default='"l2"',
    ),
    Field(
        path="ipvlan.flag",
        form=Word(kind=IpvlanFlag),
        meaning="How children of one parent reach each other: directly, not at all, or by way of "
        "the switch. One for all children of a parent: what the group's `defaults` say.",
        default='"bridge"',
    ),
    Field(
        path="vlan.id",
        form=Whole(least=1, most=4094),
        meaning="VLAN that the child is of; no two children of a parent have the same. "
        "Must be given with `mode` `vlan`.",
        guard=Guard.ALWAYS,
    ),
    Field(
        path="vlan.protocol",
        form=Word(kind=VlanProtocol),
        meaning="Kind of VLAN tag.",
        default='"802.1Q"',
        guard=Guard.ALWAYS,
    ),
)
"""Every such field, in the order of the reference page."""
