"""Every field of a claim's configuration: how it is read, who may set it, what it means.

Reading, hints at unknown fields, rights, the records on disk and the reference page all follow from
this table. A field of a later version becomes available when it moves here from
`berth.nic.config.laterfields` with its real form, and gets an attribute of its name in
`berth.nic.config.values`. Contract: network.md §3.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from berth.config.forms import Flag, Whole
from berth.nic.config.childfields import CHILD_FIELDS
from berth.nic.config.field import Field, Guard
from berth.nic.config.kinds import Objects, Switches, TableNumber, Word, Words, Written
from berth.nic.config.laterfields import LATER_FIELDS
from berth.nic.config.notation import (
    INTERFACE_RULE,
    OWN_NAME,
    destination,
    hardware_address,
    host_address,
    incoming_interface,
    interface_name,
    ip,
    network,
)
from berth.nic.config.sysctls import SYSCTL_FIELDS
from berth.nic.config.values import AttachMode, RdmaUse, RouteScope
from berth.nic.config.vffields import VF_FIELDS

MTU_LIMIT: Final = 65535
"""Longest IP packet without jumbograms, in bytes."""

SWITCHES_LIMIT: Final = 64
"""Most features, and most private flags, of one text."""

_MOST: Final = 2**32 - 1

_MTU: Final = Whole(least=68, most=MTU_LIMIT)
_OFFLOAD: Final = Whole(least=0, most=524280)
_SEGMENT: Final = Whole(least=512, most=524280)
"""The kernel refuses what a TCP header does not fit in: 192 bytes on Linux 6.18 (tried there), at
most 384 in other builds of it (``MAX_TCP_HEADER``)."""
_IP: Final = Written(what='an address without prefix, such as "10.0.0.1"', parse=ip)
_NETWORK: Final = Written(what='a network with its prefix, such as "10.1.0.0/16"', parse=network)
_HARDWARE: Final = Written(
    what='a unicast address of 6 octets, such as "02:00:00:00:00:01"', parse=hardware_address
)

FIELDS: Final = (
    Field(
        path="mode",
        form=Word(kind=AttachMode),
        meaning="How the pod gets the NIC: the NIC itself, a link made over it, "
        "or the PCI function without a link.",
        default="by the device: `move`, the first of the group's `shared.children`, or `vfio`",
    ),
    Field(
        path="interface.name",
        form=Written(what=INTERFACE_RULE, parse=interface_name),
        meaning="Name of the interface in the pod.",
        default="`net1`, `net2` … in the order of claims, requests and devices",
        guarded_values=((OWN_NAME, OWN_NAME),),
        known_as=("ifName", "interfaceName"),
    ),
    Field(
        path="interface.mtu",
        form=_MTU,
        meaning="Largest packet, in bytes: within what the device takes, not above the PF's or the "
        "parent's, at least 1280 with IPv6 addresses.",
        default="what the device has",
    ),
    Field(
        path="interface.hardwareAddr",
        form=_HARDWARE,
        meaning="Hardware address; no other link of the node has it. "
        "Not for InfiniBand, not with `ipvlan`, and not with `macvlan.mode` `passthru`.",
        default="what the device has, or the parent; macvlan: made from claim and device, the same "
        "each time",
        guard=Guard.FOREIGN_LINK,
        known_as=("mac", "macAddress"),
    ),
    Field(
        path="interface.gsoMaxSize",
        form=_SEGMENT,
        meaning="Largest packet that is left to the device to segment, in bytes.",
        default="what the device has",
    ),
    Field(
        path="interface.groMaxSize",
        form=_OFFLOAD,
        meaning="Largest packet that is put together on receipt, in bytes.",
        default="what the device has",
    ),
    Field(
        path="interface.gsoIPv4MaxSize",
        form=_SEGMENT,
        meaning="`gsoMaxSize` for IPv4.",
        default="what the device has",
    ),
    Field(
        path="interface.groIPv4MaxSize",
        form=_OFFLOAD,
        meaning="`groMaxSize` for IPv4.",
        default="what the device has",
    ),
    Field(
        path="interface.txQueueLen",
        form=Whole(least=0, most=100000),
        meaning="Length of the transmit queue, in packets.",
        default="what the device has",
    ),
    Field(
        path="interface.up",
        form=Flag(),
        meaning="Set the interface up. Routes need it.",
        default="true",
    ),
    Field(
        path="interface.promiscuous",
        form=Flag(),
        meaning="Take packets for every hardware address.",
        default="false",
        guard=Guard.ALWAYS,
    ),
    Field(
        path="interface.allmulticast",
        form=Flag(),
        meaning="Take packets for every group.",
        default="false",
        guard=Guard.ALWAYS,
    ),
    *CHILD_FIELDS,
    *VF_FIELDS,
    Field(
        path="vfio.iommufd",
        form=Flag(),
        meaning="By `/dev/iommu` and the function's own node in place of its group's; "
        "refused where the kernel has not both.",
        default="false",
    ),
    Field(
        path="vfio.apiDevice",
        form=Flag(),
        meaning="Whether `/dev/vfio/vfio` goes with the group's node.",
        default="true",
    ),
    Field(
        path="vfio.vhost",
        form=Flag(),
        meaning="Whether `/dev/vhost-net` and `/dev/net/tun` are given too.",
        default="false",
    ),
    Field(
        path="addresses",
        form=Objects(limit=16),
        meaning="Addresses of the interface, each once in a pod.",
        known_as=("address", "ips"),
    ),
    Field(
        path="addresses[].address",
        form=Written(
            what='the address of a host with its prefix, such as "10.0.0.5/24"', parse=host_address
        ),
        meaning="The address with its network's prefix.",
        required=True,
        known_as=("ip", "cidr"),
    ),
    Field(
        path="addresses[].noDAD",
        form=Flag(),
        meaning="Use the address at once. `false`: only after a search for duplicates, which takes "
        "up to 1.7 s; IPv6 only.",
        default="true",
    ),
    Field(
        path="addresses[].noPrefixRoute",
        form=Flag(),
        meaning="Make no route to the address's network.",
        default="false",
    ),
    Field(
        path="addresses[].peer",
        form=_IP,
        meaning="The other end of a point-to-point link.",
    ),
    Field(
        path="routes",
        form=Objects(limit=64),
        meaning="Routes through the interface; no two in a pod have the same destination, table "
        "and metric.",
    ),
    Field(
        path="routes[].to",
        form=Written(
            what='a network with its prefix, such as "10.1.0.0/16", or "default"',
            parse=destination,
        ),
        meaning="Destination. `default` stands for `0.0.0.0/0` or `::/0`, as `via` or `source` "
        "tell.",
        required=True,
        known_as=("destination", "dst"),
    ),
    Field(
        path="routes[].via",
        form=_IP,
        meaning="Gateway: within the network of an address, or of a link-scope route in the same "
        "table or `main`, or IPv6 link-local, or anything with `onLink`.",
        known_as=("gateway", "gw", "nexthop"),
    ),
    Field(
        path="routes[].source",
        form=_IP,
        meaning="Source address for packets that have none yet: one of `addresses`.",
        known_as=("src", "prefsrc"),
    ),
    Field(
        path="routes[].scope",
        form=Word(kind=RouteScope),
        meaning="How far away the destination is; `host` is of IPv4.",
        default="`global` with `via`, `link` without",
    ),
    Field(
        path="routes[].table",
        form=TableNumber(),
        meaning="Routing table.",
        default='"main"',
    ),
    Field(
        path="routes[].metric",
        form=Whole(least=0, most=_MOST),
        meaning="Of several routes to one destination the lowest is used. IPv6 has no 0.",
        default="0; IPv6: 1024",
        known_as=("priority",),
    ),
    Field(
        path="routes[].mtu",
        form=_MTU,
        meaning="Largest packet to this destination, in bytes, not above the interface's.",
    ),
    Field(
        path="routes[].onLink",
        form=Flag(),
        meaning="The gateway is reachable although no network of the interface holds it.",
        default="false",
    ),
    Field(
        path="rules",
        form=Objects(limit=32),
        meaning="Which packets use which routing table.",
        guard=Guard.ALWAYS,
    ),
    Field(
        path="rules[].priority",
        form=Whole(least=1, most=32765),
        meaning="Rules are tried from the lowest to the highest.",
        required=True,
        known_as=("pref", "preference"),
    ),
    Field(
        path="rules[].from",
        form=_NETWORK,
        meaning="Network of the packet's source.",
        known_as=("source", "src"),
    ),
    Field(
        path="rules[].to",
        form=_NETWORK,
        meaning="Network of the packet's destination.",
        known_as=("destination", "dst"),
    ),
    Field(
        path="rules[].table",
        form=TableNumber(),
        meaning="The table to use: one of `routes`. A rule without `from` and `to` is made for "
        "each family that the table has routes of.",
        required=True,
        known_as=("lookup",),
    ),
    Field(
        path="rules[].iif",
        form=Written(what=f'{INTERFACE_RULE}, or "lo"', parse=incoming_interface),
        meaning="Interface of the pod by which the packet came; `lo`: the pod's own packets.",
    ),
    Field(
        path="rules[].fwmark",
        form=Whole(least=1, most=_MOST),
        meaning="Mark of the packet.",
        known_as=("mark",),
    ),
    Field(
        path="neighbors",
        form=Objects(limit=64),
        meaning="Permanent entries of the neighbor table.",
    ),
    Field(
        path="neighbors[].address",
        form=_IP,
        meaning="The neighbor's address.",
        required=True,
        known_as=("ip",),
    ),
    Field(
        path="neighbors[].hardwareAddr",
        form=_HARDWARE,
        meaning="The neighbor's hardware address.",
        required=True,
        known_as=("mac", "lladdr"),
    ),
    *SYSCTL_FIELDS,
    Field(
        path="vrf.name",
        form=Written(what=INTERFACE_RULE, parse=interface_name),
        meaning="A VRF of this name is made in the pod, and the interface put into it: its "
        "addresses' networks and its `routes` are in the VRF's table. Not with `rules` and "
        "`routes[].table`.",
        guarded_values=((OWN_NAME, OWN_NAME),),
    ),
    Field(
        path="vrf.table",
        form=TableNumber(main=False),
        meaning="Its routing table, which nothing in the pod uses yet.",
        default="the first free one from 1000 on",
    ),
    Field(
        path="ethtool.features",
        form=Switches(limit=SWITCHES_LIMIT),
        meaning="Offloads by the kernel's names, as `ethtool -k` lists them: `rx-gro`, "
        "`tx-tcp-segmentation`. One that the device cannot switch is refused.",
        default="what the device has",
    ),
    Field(
        path="ethtool.privateFlags",
        form=Switches(limit=SWITCHES_LIMIT),
        meaning="Flags of the driver, as `ethtool --show-priv-flags` lists them.",
        default="what the device has",
        guard=Guard.ALWAYS,
        known_as=("privFlags",),
    ),
    Field(
        path="rdma",
        form=Word(kind=RdmaUse),
        meaning="Whether the pod gets the nodes of the NIC's RDMA devices: those that it has, "
        "never, or always, so that a NIC without one is refused. A node that should be there and "
        "is not refuses the claim, unless `none` is said.",
        default='"auto"',
    ),
    Field(
        path="announce",
        form=Flag(),
        meaning="Tell the network of the addresses once there is carrier; of IPv4 addresses, of "
        "the first in each network.",
        default="true",
    ),
    Field(
        path="inherit",
        form=Words(("addresses", "routes", "neighbors")),
        meaning="Take over what the NIC has on the node: what a person or a program set, not what "
        "the kernel or a router did. With `mode` `move` only.",
        guard=Guard.ALWAYS,
    ),
    *LATER_FIELDS,
)
"""The table, in the order of the reference page."""

BY_PATH: Final[Mapping[str, Field]] = {field.path: field for field in FIELDS}
"""Fields by path."""


def join(path: str, name: str) -> str:
    """The path of a member of the object at ``path``; the top has the empty path."""
    return f"{path}.{name}" if path else name


def _members() -> Mapping[str, Mapping[str, Field | None]]:
    members: dict[str, dict[str, Field | None]] = {"": {}}
    for field in FIELDS:
        parts = field.path.split(".")
        for depth, part in enumerate(parts[:-1]):
            if not part.endswith("[]"):
                members[".".join(parts[:depth])].setdefault(part, None)
            members.setdefault(".".join(parts[: depth + 1]), {})
        members[".".join(parts[:-1])][parts[-1]] = field
    return members


MEMBERS: Final = _members()
"""What each object holds, by its path: fields, and ``None`` for objects in it."""
