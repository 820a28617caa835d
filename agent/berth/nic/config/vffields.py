"""What a claim's configuration may set of a virtual function through its physical function.

All of it reaches beyond the pod: a VLAN, a foreign hardware address or trust are matters of the
network's other tenants, so all of it is guarded. Contract: network.md §3.1.
"""

from __future__ import annotations

from typing import Final

from berth.config.forms import Flag, Whole
from berth.nic.config.field import Field, Guard
from berth.nic.config.kinds import Word
from berth.nic.config.values import VfLinkState, VlanProtocol

RATE_LIMIT: Final = 1_600_000
"""Largest rate in Mbit/s: the fastest Ethernet that is being specified (IEEE P802.3dj)."""

_RATE: Final = Whole(least=0, most=RATE_LIMIT)

VF_FIELDS: Final = (
    Field(
        path="vf.vlan",
        form=Whole(least=0, most=4094),
        meaning="VLAN that the VF is held in; 0 is none. The pod sees untagged packets.",
        default="what the VF has",
        guard=Guard.ALWAYS,
    ),
    Field(
        path="vf.vlanQoS",
        form=Whole(least=0, most=7),
        meaning="Priority in its VLAN tag.",
        default="0",
        guard=Guard.ALWAYS,
    ),
    Field(
        path="vf.vlanProtocol",
        form=Word(kind=VlanProtocol),
        meaning="Kind of VLAN tag.",
        default='"802.1Q"',
        guard=Guard.ALWAYS,
    ),
    Field(
        path="vf.spoofCheck",
        form=Flag(),
        meaning="Drop packets that carry another hardware address than the VF's.",
        default="what the VF has",
        guard=Guard.ALWAYS,
    ),
    Field(
        path="vf.trust",
        form=Flag(),
        meaning="Let it go promiscuous and change its address.",
        default="what the VF has",
        guard=Guard.ALWAYS,
    ),
    Field(
        path="vf.linkState",
        form=Word(kind=VfLinkState),
        meaning="Its carrier: as the PF's, always there, or never.",
        default="what the VF has",
        guard=Guard.ALWAYS,
    ),
    Field(
        path="vf.minTxMbps",
        form=_RATE,
        meaning="Transmit rate that it is assured of, in Mbit/s; 0 is none.",
        default="what the VF has",
        guard=Guard.ALWAYS,
    ),
    Field(
        path="vf.maxTxMbps",
        form=_RATE,
        meaning="Largest transmit rate, in Mbit/s; 0 is no limit.",
        default="what the VF has",
        guard=Guard.ALWAYS,
    ),
    Field(
        path="vf.adminMAC",
        form=Flag(),
        meaning="Set `interface.hardwareAddr` through the PF too, so that the VF keeps to it.",
        default="false",
        guard=Guard.ALWAYS,
    ),
)
"""Every such field, in the order of the reference page."""
