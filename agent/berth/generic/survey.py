"""From device nodes and groups to the devices that are offered.

Source: GH §4, §5.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import attrs

from berth.config.doors import settled
from berth.config.finding import toml_text
from berth.config.forms import listed
from berth.config.generic import GenericGroup
from berth.config.template import Template
from berth.errors import printable
from berth.generic.attributes import TYPE, attributes, neutral
from berth.generic.edits import Given, Subject, admin_edits, edits, given
from berth.generic.identity import (
    Memory,
    alike_names,
    identity,
    ids,
    indexes,
    names,
    place,
    serial_identity,
    twins,
)
from berth.generic.matching import Fit, fit, refusal
from berth.host.nodefacts import DevNode, NodeScan
from berth.model.device import Attribute, Capacity, Exclusion
from berth.model.edits import Edits
from berth.model.nodecost import NodeCosts
from berth.model.peripheral import Door, Peripheral

LIST_LIMIT: Final = 3 * 2**20
"""Most bytes of a resource's list; gRPC takes 4 MiB in one message (GH §4)."""

UNIT_BYTES: Final = 48
"""What an id takes in the list beside its own bytes: health, NUMA node, heads of fields."""

IDENTITY_KEY: Final = "gen:"
"""Begins the ledger key of an identity."""


@attrs.frozen(kw_only=True)
class GenericSurvey:
    """The devices of all groups.

    Attributes:
        peripherals: By name; those that are not offered say why.
        warnings: A sentence each, the same as long as nothing changes.
        memory: For the next survey.
        costs: By identity: what it costs the node of its own resources, where it costs any.
        commands: By identity: the command that is asked how a device is, and its arguments.
        binders: By identity: the one that is asked whether it is ready.
    """

    peripherals: tuple[Peripheral, ...] = ()
    commands: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)
    binders: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)
    warnings: tuple[str, ...] = ()
    memory: Memory = attrs.field(factory=Memory)
    costs: Mapping[str, NodeCosts] = attrs.field(factory=dict)


def survey(
    scan: NodeScan,
    groups: Sequence[GenericGroup],
    *,
    driver: str,
    auto: Door = Door.DRA,
    memory: Memory | None = None,
) -> GenericSurvey:
    """What the groups offer of the nodes.

    Args:
        scan: All that `matching.wanted` asked for.
        driver: Name of the driver, for names of resources.
        auto: What ``door = "auto"`` comes to.
        memory: What the survey before left.
    """
    before = memory or Memory()
    fitting = [
        (node, found)
        for node in scan.nodes
        if (found := [(group, way) for group in groups if (way := fit(node, group.match))])
    ]
    subjects, after = _called(fitting, before)
    by_name = {name: node for node in scan.nodes for name in node.names}
    own = neutral(groups)
    surveyor = _Surveyor(by_name=by_name, own=own, driver=driver, auto=auto)
    overlaps = {node.number: [group for group, _ in found] for node, found in fitting}
    alike: dict[str, list[Subject]] = {}
    for subject in subjects:
        alike.setdefault(subject.identity, []).append(subject)
    peripherals = [
        surveyor.peripheral(same[0], overlaps[same[0].node.number], same[1:])
        for same in alike.values()
    ]
    return GenericSurvey(
        peripherals=_within_lists(sorted(peripherals, key=lambda each: each.name)),
        commands=_commands(subjects, lambda group: group.health.command),
        binders=_commands(subjects, lambda group: group.bind.command),
        warnings=tuple(_warnings(scan, groups, fitting, subjects, peripherals)),
        memory=after,
        costs={one.identity: one.group.node_cost for one in subjects if one.group.node_cost},
    )


_Fitting = tuple[DevNode, "list[tuple[GenericGroup, Fit]]"]


def _called(fitting: Sequence[_Fitting], before: Memory) -> tuple[list[Subject], Memory]:
    """The nodes that fit, each with its identity, name and number in its group."""
    known = twins(node for node, _ in fitting).union(before.twins)
    bare = [
        Subject(node=node, group=found[0][0], fit=found[0][1], identity=identity(node, known))
        for node, found in fitting
    ]
    owned = [(subject.group.name, subject.identity) for subject in bare]
    alike = alike_names(owned).union(before.alike)
    after = Memory(
        twins=tuple(sorted(known)),
        alike=tuple(sorted(alike)),
        indexes=indexes(owned, before.indexes),
    )
    called = names(owned, alike)
    return [
        attrs.evolve(subject, name=called[each], index=after.indexes["/".join(each)])
        for subject, each in zip(bare, owned, strict=True)
    ], after


@attrs.frozen(kw_only=True)
class _Surveyor:
    """Makes devices of nodes."""

    by_name: Mapping[str, DevNode]
    own: Mapping[str, Attribute]
    driver: str
    auto: Door

    def peripheral(
        self, subject: Subject, groups: Sequence[GenericGroup], same: Sequence[Subject]
    ) -> Peripheral:
        """The device that a node is, offered or not.

        Args:
            groups: Those that select it.
            same: Other nodes that would be the same device.
        """
        group, node = subject.group, subject.node
        door = settled(group.door, self.auto)
        nodes, made, reason = self._made(subject, groups, same)
        numa = node.pci.numa_node if node.pci is not None else None
        return Peripheral(
            identity=subject.identity,
            name=subject.name,
            kind=TYPE,
            type=TYPE,
            group=group.name,
            keys=_keys(subject, nodes),
            door=door,
            resource=resource_of(group, self.driver) if door.opens_plugin else "",
            ids=ids(subject.name, group.count) if door.opens_plugin else (),
            slots=group.count,
            inject=group.inject.value,
            numa=() if numa is None else (numa,),
            pcie_root=node.pci.pcie_root if node.pci is not None else "",
            attributes=attributes(node, group, self.own),
            capacity=_capacity(group.count),
            edits=made,
            admin=admin_edits(made, group),
            path=printable(node.path),
            exclusion=reason,
        )

    def _made(
        self, subject: Subject, groups: Sequence[GenericGroup], same: Sequence[Subject]
    ) -> tuple[tuple[Given, ...], Edits, Exclusion | None]:
        """The nodes and edits of a device; nothing of one that is not offered."""
        reason = _refused(subject, groups, same)
        if reason is not None:
            return (), Edits(), reason
        nodes = given(subject, self.by_name)
        if isinstance(nodes, Exclusion):
            return (), Edits(), nodes
        made = edits(subject, nodes)
        if isinstance(made, Exclusion):
            return (), Edits(), made
        return nodes, made, None


def resource_of(group: GenericGroup, driver: str) -> str:
    """Name of the resource of a group's devices at the plugin door."""
    return group.resource or f"{driver}/{group.name}"


def _refused(
    subject: Subject, groups: Sequence[GenericGroup], same: Sequence[Subject]
) -> Exclusion | None:
    if len(groups) > 1:
        told = listed([toml_text(group.name) for group in groups])
        return Exclusion(reason="overlap", detail=f"groups {told} all select it")
    if same:
        told = listed([printable(each.node.path) for each in (subject, *same)])
        detail = f"{told} are all {subject.identity}, and nothing tells them apart"
        return Exclusion(reason="ambiguous", detail=detail)
    return refusal(subject.node, subject.group)


def _commands(
    subjects: Iterable[Subject], command: Callable[[GenericGroup], Sequence[Template]]
) -> Mapping[str, tuple[str, ...]]:
    """A command of each device whose group has one, by identity."""
    return {
        subject.identity: tuple(word.filled(subject.values) for word in words)
        for subject in subjects
        if (words := command(subject.group))
    }


def _keys(subject: Subject, nodes: Iterable[Given]) -> tuple[str, ...]:
    """What a device is in the ledger: its identity, and the numbers of its own nodes.

    By the identity it stays held when it comes back under another number. By the numbers it stays
    held when its identity changes (a second device with its serial number is plugged in), and
    nobody gets another device that was given its number: the container of the holder may still
    open that. Nodes that a group names without a place are the system's, such as ``/dev/snd/timer``
    beside each card, and no keys, as the control nodes of GPUs are none (GH §5.3).
    """
    numbers = [subject.node.number, *(each.node.number for each in nodes if each.own)]
    return (f"{IDENTITY_KEY}{subject.identity}", *dict.fromkeys(numbers))


def _capacity(count: int) -> Mapping[str, Capacity]:
    """Slots of a device for several; a claim takes one, as it takes one place in the ledger."""
    return {"slots": Capacity(value=count, default=1, values=(1,))} if count > 1 else {}


def _within_lists(peripherals: Iterable[Peripheral]) -> tuple[Peripheral, ...]:
    """The devices, without those for which a resource's list has no room."""
    used: dict[str, int] = {}
    kept = []
    for each in peripherals:
        size = sum(len(text) + UNIT_BYTES for text in each.ids)
        if each.exclusion is None and used.get(each.resource, 0) + size > LIST_LIMIT:
            detail = f"the list of {each.resource} would be longer than 3 MiB; lower count"
            reason = Exclusion(reason="list-too-long", detail=detail)
            kept.append(attrs.evolve(each, exclusion=reason, edits=Edits(), admin=Edits()))
            continue
        if each.exclusion is None:
            used[each.resource] = used.get(each.resource, 0) + size
        kept.append(each)
    return tuple(kept)


def _warnings(
    scan: NodeScan,
    groups: Sequence[GenericGroup],
    fitting: Sequence[_Fitting],
    subjects: Sequence[Subject],
    peripherals: Sequence[Peripheral],
) -> Iterator[str]:
    if scan.cut and groups:
        yield "there are more device nodes than are looked at: narrow the conditions of the groups"
    used = {group.name for _, found in fitting for group, _ in found}
    for group in groups:
        if group.name not in used:
            yield f"group {toml_text(group.name)} matches no device node{_oddities(scan, group)}"
        if group.match.properties and not scan.udev:
            yield (
                f"group {toml_text(group.name)} asks for properties of udev, which does not run: "
                "it matches nothing"
            )
    for node, found in fitting:
        if len(found) > 1:
            told = listed([toml_text(group.name) for group, _ in found])
            yield f"{printable(node.path)} is selected by groups {told}: no one gets it"
    yield from _twin_warnings(subjects)
    yield from _shared_nodes(peripherals)


def _oddities(scan: NodeScan, group: GenericGroup) -> str:
    """What lies at a group's path instead of a node."""
    paths = [glob for glob in group.match.path if glob.wildcards == 0]
    for oddity in scan.oddities:
        if any(glob.text == oddity.path for glob in paths):
            return f": {oddity.path} {oddity.found}"
    return ""


def _twin_warnings(subjects: Sequence[Subject]) -> Iterator[str]:
    places: dict[str, list[str]] = {}
    for subject in subjects:
        serial = serial_identity(subject.node)
        if serial and subject.identity != printable(serial):
            places.setdefault(serial, []).append(place(subject.node))
    for serial, found in places.items():
        if len(found) > 1:
            yield (
                f"{len(found)} devices are {printable(serial)}: they are told apart by where "
                f"they are plugged in, {listed(sorted(found))}"
            )


def _shared_nodes(peripherals: Sequence[Peripheral]) -> Iterator[str]:
    """Devices that can never be held at the same time, since one node is of both."""
    owners: dict[str, list[Peripheral]] = {}
    for each in peripherals:
        if each.exclusion is None:
            for key in each.keys[1:]:
                owners.setdefault(key, []).append(each)
    for key, found in owners.items():
        if len(found) > 1:
            told = listed([each.name for each in found])
            yield f"{told} have the node {key.partition(':')[2]} in common: only one can be held"
