"""The vocabulary of everything that is done to a NIC, as values.

A plan is a tuple of these. They say nothing of sockets, descriptors or indexes that are known only
later; `berth.nic.execute` turns each into a netlink request or a line in ``/proc/sys``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, TypeAlias

import attrs

from berth.host.netlink.address import Address
from berth.host.netlink.kinds import KindData
from berth.host.netlink.linkrequest import LinkChange
from berth.host.netlink.neighbor import Neighbor
from berth.host.netlink.route import Route
from berth.host.netlink.rule import Rule
from berth.host.netlink.vf import VfChange
from berth.nic.vf import VfSeat

FEATURE: Final = "feature/"
"""Before the name of a feature among ethtool's switches."""

FLAG: Final = "flag/"
"""Before the name of a driver's own flag among them."""


class Place(Enum):
    """The namespace in which a step is done."""

    HOME = "home"
    POD = "pod"


@attrs.frozen(kw_only=True)
class SetLink:
    """Change the link in place."""

    change: LinkChange


@attrs.frozen(kw_only=True)
class Altnames:
    """Give the link further names, or take some away."""

    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class MoveAway:
    """Move the link from home into the pod, in one message with all of ``change``.

    Not atomic in the kernel: a refused name, MTU or MAC leaves the link in the pod.
    """

    change: LinkChange


@attrs.frozen(kw_only=True)
class MakeChild:
    """Make a child of the parent straight in the pod; atomic: on an error nothing exists."""

    name: str
    kind: KindData
    change: LinkChange


@attrs.frozen(kw_only=True)
class RemoveLink:
    """Delete the link where it is."""


@attrs.frozen(kw_only=True)
class PutAddress:
    """Add an address; one that is there with equal value counts as added."""

    address: Address


@attrs.frozen(kw_only=True)
class DropAddress:
    """Take an address away."""

    address: Address


@attrs.frozen(kw_only=True)
class PutRoute:
    """Add a route; its hops without index lead out by the link itself.

    Never replaces: a route of another link with the same key is a fault.
    """

    route: Route


@attrs.frozen(kw_only=True)
class PutRule:
    """Add a routing rule to the pod."""

    rule: Rule


@attrs.frozen(kw_only=True)
class DropRule:
    """Take a routing rule out of the pod."""

    rule: Rule


@attrs.frozen(kw_only=True)
class PutNeighbor:
    """Add a permanent neighbor."""

    neighbor: Neighbor


@attrs.frozen(kw_only=True)
class PutSettings:
    """Set per-interface settings under ``/proc/sys/net``, all in one visit of the namespace.

    A link without the family (IPv6 switched off, or an MTU below 1280) has no such setting; there
    it counts as set.

    Attributes:
        values: By ``ipv4/<name>`` and ``ipv6/<name>``.
    """

    values: Mapping[str, int]


@attrs.frozen(kw_only=True)
class PutSwitches:
    """Turn ethtool's switches of a link at home.

    Attributes:
        values: By ``feature/<name>`` and ``flag/<name>``.
        strictly: What the device cannot have now is a fault; else it has it as soon as it can.
    """

    values: Mapping[str, bool]
    strictly: bool = False


@attrs.frozen(kw_only=True)
class SetVf:
    """Set one administrative value of a virtual function, at home and through its PF."""

    seat: VfSeat
    change: VfChange


@attrs.frozen(kw_only=True)
class MakeVrf:
    """Make a VRF in the pod, set up; one that is there counts as made."""

    name: str
    table: int


@attrs.frozen(kw_only=True)
class JoinVrf:
    """Put the link into a VRF of the pod."""

    name: str


@attrs.frozen(kw_only=True)
class DropVrf:
    """Remove a VRF from the pod; its links stay."""

    name: str


Change: TypeAlias = (
    "SetLink | Altnames | MoveAway | MakeChild | RemoveLink | PutAddress | DropAddress"
    " | SetVf | MakeVrf | JoinVrf | DropVrf"
    " | PutRoute | PutRule | DropRule | PutNeighbor | PutSettings | PutSwitches"
)


@attrs.frozen(kw_only=True)
class Step:
    """One change, where it is done, and what it is for.

    Attributes:
        field: The configuration field or the original value that asks for it, for messages.
        undo: What takes it back, in this order, where the link's own way home does not.
    """

    place: Place
    field: str
    change: Change
    undo: tuple[Change, ...] = ()
