"""What the device plugin lists of NICs: those of groups that its door is open for, and held ones.

A NIC that cannot be given now keeps its place in the list, as unhealthy: with it the number of
units stays what the machine has, and an old pod's NIC is not taken for one that was unplugged. One
that a container has is well wherever its link is; that its link is not at home is what it was given
for.

Source: network.md §9; gpu-and-health.md L9, L13.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs

from berth.config.nicgroup import Attach, NicGroup
from berth.model.device import RESTORE_FAILED, RETURNING, Attribute, Device, Exclusion, NicMode
from berth.model.peripheral import ABSENT, Peripheral
from berth.nic.facts import companions
from berth.nic.listing import Terms, list_absent, list_nic, terms_of
from berth.nic.record import Stage
from berth.nic.topology import Topology
from berth.node.holders.holding import Holding
from berth.node.inventory.sighting import Outlook, Sighting
from berth.node.records.given import GivenDevice

HELD = "held"
"""Why a NIC is unhealthy that a claim has and the host does not show, or whose group is held."""


def listings(
    seen: Sequence[Sighting],
    held: Mapping[str, Holding],
    outlook: Outlook,
    *,
    published: Iterable[Device],
    topology: Topology,
) -> tuple[Peripheral, ...]:
    """What the device plugin hands out of NICs, by name.

    Args:
        published: What slices tell of them.
        topology: The machine that they were seen on.
    """
    attributes = {device.name: device.attributes for device in published}
    here = {one.found.identity for one in seen}
    found = [*_of_absent({i: held[i] for i in held.keys() - here}, outlook)]
    members = _members(held.values())
    found += [
        one
        for each in seen
        if (one := _of_seen(each, outlook, attributes, topology, members)) is not None
    ]
    # A virtual link that was made anew has the name of the one that somebody still holds.
    by_name = {one.name: one for one in reversed(found)}
    return tuple(by_name[name] for name in sorted(by_name))


def _of_seen(
    one: Sighting,
    outlook: Outlook,
    attributes: Mapping[str, Mapping[str, Attribute]],
    topology: Topology,
    members: Mapping[str, Holding],
) -> Peripheral | None:
    given = one.holding.given if one.holding is not None else None
    if one.group is None:
        return None if given is None or one.holding is None else _kept(given, one.holding)
    terms = _terms(one.group, outlook)
    if given is None and not terms.door.opens_plugin:
        return None
    now = list_nic(
        one.found,
        one.group,
        terms,
        name=one.name,
        nodes=topology.scan.nodes,
        exclusion=_against(one, terms, outlook) or _against_member(one, members),
        attributes=attributes.get(one.name),
        companions=companions(one.found, topology) if one.group.mode is NicMode.VFIO else (),
    )
    if given is None or one.holding is None:
        return now
    kept = _kept(given, one.holding)
    # What speaks against a parent speaks against the shares that nobody has yet.
    ill = one.against.reason if one.against is not None and kept.slots > 1 else ""
    return attrs.evolve(
        kept,
        info=now.info,
        edits=now.edits,
        exclusion=now.exclusion,
        unhealthy=kept.unhealthy or ill,
    )


def _against(one: Sighting, terms: Terms, outlook: Outlook) -> Exclusion | None:
    """Why it can be given to nobody now; what is about slices alone does not count here."""
    if not outlook.table.enabled:
        return one.exclusion
    if one.against is None and terms.attach is Attach.NRI:
        return outlook.closed
    return one.against


def _members(held: Iterable[Holding]) -> Mapping[str, Holding]:
    """Who has something that the device plugin gave, by all keys of it."""
    return {
        key: holding
        for holding in held
        if holding.given is not None
        for key in holding.given.peripheral.keys
    }


def _against_member(one: Sighting, members: Mapping[str, Holding]) -> Exclusion | None:
    """Why a function is given to nobody whose IOMMU group somebody has by another one."""
    holding = members.get(one.found.identity)
    if holding is None or one.holding is not None:
        return None
    detail = f"its IOMMU group is with {holding.name}, which {', '.join(holding.holders)} has"
    return Exclusion(reason=HELD, detail=detail)


def _of_absent(held: Mapping[str, Holding], outlook: Outlook) -> Iterator[Peripheral]:
    """NICs that the host does not show: in a pod, or gone."""
    groups = {group.name: group for group in outlook.table.groups}
    for identity, holding in held.items():
        if holding.given is not None:
            yield _kept(holding.given, holding, is_seen=False)
            continue
        group = groups.get(holding.group)
        if group is not None and (terms := _terms(group, outlook)).door.opens_plugin:
            absent = list_absent(identity, group, terms, name=holding.name)
            yield attrs.evolve(absent, unhealthy=HELD)


def _kept(given: GivenDevice, holding: Holding, *, is_seen: bool = True) -> Peripheral:
    """A NIC as it was given."""
    lost = given.nic is not None and given.nic.stage is Stage.LOST
    gone = not is_seen and given.peripheral.identity.startswith("pci:")
    return attrs.evolve(
        given.peripheral,
        exclusion=None,
        unhealthy=ABSENT if lost or gone else _unrestored(given, holding),
        held_by=holding.holders,
    )


def _unrestored(given: GivenDevice, holding: Holding) -> str:
    """Why the next one could not have it; empty while it is its holder's, or as it was."""
    nic = given.nic
    if nic is None or nic.stage is not Stage.RETURNING:
        return ""
    if nic.fault:
        return RESTORE_FAILED
    return "" if holding.is_living else RETURNING


def _terms(group: NicGroup, outlook: Outlook) -> Terms:
    return terms_of(group, driver=outlook.driver, auto=outlook.auto)
