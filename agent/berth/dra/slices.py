"""The slices that should exist, and the writes that lead there from those that do.

A pool is read as a whole: only slices of the highest generation count, and a pool whose slices are
not as many as they say offers nothing. An `Edition` is what one generation of a pool stands for.
It is kept between plans, and recovered from the server after a restart. From it follow the rules:

* Wanted content that differs in at most one slice keeps the generation and rewrites that slice.
* Otherwise the pool gets the highest generation ever seen plus one, in all of its slices.
* What is missing or was edited by others is put back as it was, in the same generation: no reader
  can have seen other content of ours under that number. So an interrupted round is just continued.

What the server made of an earlier write counts as that write (`Accepted`), so a field that it drops
is not sent again and again.

Source: KC §4.3, §4.4, §4.5; network.md §0, §2.3.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from itertools import chain
from typing import Any, Final, TypeAlias

import attrs

from berth.dra.placement import place
from berth.kube.compare import device_differences, differences, keep_taint_times
from berth.kube.slices import Owner, Slice, device_json
from berth.model.device import Device

NIC_TYPES: Final = frozenset({"nic", "nic-shared", "nic-vfio", "rdma"})
"""Types that live in the pool of NICs, whose comings and goings must not touch GPUs."""

GENERATED_LIMIT: Final = 58
"""Characters of ``generateName`` that the server keeps before its five random ones.

Source: apiserver ``pkg/storage/names/generate.go``."""

_INDEX: Final = re.compile(r"([0-9a-f]{5,8})-")

DeviceJson: TypeAlias = "Mapping[str, Any]"


@attrs.frozen(kw_only=True)
class Origin:
    """Who publishes: a driver on a node."""

    driver: str
    owner: Owner

    @property
    def node_name(self) -> str:
        """Name of the node."""
        return self.owner.name

    def generate_name(self, index: int) -> str:
        """The prefix of the object's name; it sorts slices in the order of their index."""
        return f"{index:05x}-{self.driver}-{self.node_name}-"

    def index_of(self, name: str) -> int | None:
        """The index that a name was generated from; ``None`` when it is not one of ours."""
        match = _INDEX.match(name)
        if match is None:
            return None
        index = int(match[1], 16)
        return index if name.startswith(self.generate_name(index)[:GENERATED_LIMIT]) else None

    def pool_of(self, device_type: str) -> str:
        """The pool that devices of a type belong to."""
        return f"{self.node_name}/nic" if device_type in NIC_TYPES else self.node_name


@attrs.frozen(kw_only=True)
class Edition:
    """What a generation of a pool stands for.

    Attributes:
        slots: Devices as JSON, by slice.
    """

    pool: str
    generation: int
    slots: tuple[tuple[DeviceJson, ...], ...]

    @property
    def names(self) -> tuple[tuple[str, ...], ...]:
        """Device names by slice."""
        return tuple(tuple(str(device["name"]) for device in slot) for slot in self.slots)

    @property
    def device_count(self) -> int:
        """Devices in all slices."""
        return sum(map(len, self.slots))

    def slices(self, origin: Origin) -> tuple[Slice, ...]:
        """The slices as they are to be, without the names that the server gives."""
        return tuple(
            Slice(
                driver=origin.driver,
                pool=self.pool,
                generation=self.generation,
                slice_count=len(self.slots),
                node_name=origin.node_name,
                devices=devices,
                generate_name=origin.generate_name(index),
                owner=origin.owner,
            )
            for index, devices in enumerate(self.slots)
        )


@attrs.frozen(kw_only=True)
class Accepted:
    """A write that the server stored otherwise than it was sent."""

    sent: Slice
    got: Slice


class Verb(Enum):
    """What is done to a slice."""

    DELETE = "delete"
    UPDATE = "update"
    CREATE = "create"


@attrs.frozen(kw_only=True)
class Write:
    """One request that is due.

    Attributes:
        slice: What is to be stored, or what is to be deleted.
        index: Which slice of the pool it is; -1 for one that must not be.
    """

    verb: Verb
    slice: Slice
    index: int = -1


@attrs.frozen(kw_only=True)
class PoolPlan:
    """What is due for one pool; the writes are to be made in their order.

    Attributes:
        edition: What the pool is to be; ``None`` for a pool that must not be.
    """

    pool: str
    edition: Edition | None
    writes: tuple[Write, ...]


AcceptedSlices: TypeAlias = "Mapping[tuple[str, int], Accepted]"
"""By pool and index."""


def plan(
    origin: Origin,
    devices: Iterable[Device],
    existing: Iterable[Slice],
    *,
    editions: Mapping[str, Edition],
    accepted: AcceptedSlices,
) -> tuple[PoolPlan, ...]:
    """What is due for every pool of the node, in the order of pool names.

    A pool is published once it has a device, and stays, though empty, while it has a slice or was
    published by this process.

    Args:
        origin: Who publishes.
        devices: What is to be offered, in the order of publication.
        existing: All slices of the driver on the node, as the server has them.
        editions: What each pool was last to be, by pool.
        accepted: What the server made of earlier writes.
    """
    offered: dict[str, list[Device]] = {}
    for device in devices:
        offered.setdefault(origin.pool_of(device.type), []).append(device)
    found: dict[str, list[Slice]] = {}
    for item in existing:
        found.setdefault(item.pool, []).append(item)
    ours = {origin.node_name, origin.pool_of("nic")}
    plans = []
    for pool in sorted({*offered, *found, *editions}):
        slices = found.get(pool, ())
        if pool in ours:
            edition = _next_edition(
                origin, pool, offered.get(pool, ()), slices, edition=editions.get(pool)
            )
            writes = _writes(origin, edition, slices, accepted)
            plans.append(PoolPlan(pool=pool, edition=edition, writes=writes))
        else:
            plans.append(PoolPlan(pool=pool, edition=None, writes=tuple(map(_delete, slices))))
    return tuple(plans)


def recovered(origin: Origin, pool: str, existing: Iterable[Slice]) -> Edition | None:
    """The edition that the server holds, ``None`` when its newest generation is no whole pool."""
    slices = list(existing)
    newest = max((item.generation for item in slices), default=0)
    by_index = {origin.index_of(item.name): item for item in slices if item.generation == newest}
    whole = [by_index[index] for index in range(len(by_index)) if index in by_index]
    counted = sum(item.generation == newest for item in slices)
    if not whole or any(item.slice_count != counted for item in whole) or len(whole) != counted:
        return None
    if not all(isinstance(device.get("name"), str) for item in whole for device in item.devices):
        return None
    return Edition(pool=pool, generation=newest, slots=tuple(item.devices for item in whole))


def _next_edition(
    origin: Origin,
    pool: str,
    devices: Sequence[Device],
    existing: Sequence[Slice],
    *,
    edition: Edition | None,
) -> Edition:
    newest = max((item.generation for item in existing), default=0)
    if edition is None or newest > edition.generation:
        edition = recovered(origin, pool, existing)
    wanted = {device.name: device_json(device) for device in devices}
    if edition is None:
        slots = _contents(place((), devices), wanted)
        return Edition(pool=pool, generation=newest + 1, slots=slots)
    known = {device["name"]: device for device in chain.from_iterable(edition.slots)}
    changed = frozenset(
        name
        for name, content in wanted.items()
        if name in known and not _same_device(content, known[name])
    )
    slots = _contents(place(edition.names, devices, changed=changed), wanted)
    after = Edition(pool=pool, generation=edition.generation, slots=slots)
    if _differing(edition, after, changed) > 1:
        return attrs.evolve(after, generation=max(newest, edition.generation) + 1)
    return after


def _contents(
    slots: tuple[tuple[Device, ...], ...], wanted: Mapping[str, DeviceJson]
) -> tuple[tuple[DeviceJson, ...], ...]:
    return tuple(tuple(wanted[device.name] for device in slot) for slot in slots)


def _same_device(wanted: DeviceJson, found: DeviceJson) -> bool:
    return wanted == found or not device_differences(wanted, found)


def _differing(before: Edition, after: Edition, changed: frozenset[str]) -> int:
    """How many slices have to be written; all of them when their number changes."""
    if len(before.slots) != len(after.slots):
        return len(before.slots) + len(after.slots)
    pairs = zip(before.names, after.names, strict=True)
    return sum(old != new or not changed.isdisjoint(new) for old, new in pairs)


def _writes(
    origin: Origin, edition: Edition, existing: Iterable[Slice], accepted: AcceptedSlices
) -> tuple[Write, ...]:
    wanted = edition.slices(origin)
    found: dict[int, list[Slice]] = {}
    writes: dict[Verb, list[Write]] = {verb: [] for verb in Verb}
    for item in existing:
        index = origin.index_of(item.name)
        if index is not None and index < len(wanted):
            found.setdefault(index, []).append(item)
        else:
            writes[Verb.DELETE].append(_delete(item))
    for index, target in enumerate(wanted):
        known = accepted.get((edition.pool, index))
        for write in _slice_writes(index, target, found.get(index, ()), known):
            writes[write.verb].append(write)
    return tuple(chain.from_iterable(writes.values()))


def _slice_writes(
    index: int, target: Slice, candidates: Sequence[Slice], accepted: Accepted | None
) -> Iterable[Write]:
    if not candidates:
        yield Write(verb=Verb.CREATE, slice=target, index=index)
        return
    standing = [item for item in candidates if _stands(target, item, accepted)]
    newest = sorted(candidates, key=lambda item: (-item.generation, item.name))
    keeper = standing[0] if standing else newest[0]
    yield from (_delete(item) for item in candidates if item is not keeper)
    if not standing:
        named = attrs.evolve(
            keep_taint_times(target, keeper),
            name=keeper.name,
            uid=keeper.uid,
            resource_version=keeper.resource_version,
        )
        yield Write(verb=Verb.UPDATE, slice=named, index=index)


def _delete(item: Slice) -> Write:
    return Write(verb=Verb.DELETE, slice=item)


def _stands(wanted: Slice, found: Slice, accepted: Accepted | None) -> bool:
    if _is_same(wanted, found):
        return True
    if accepted is None or not _is_same(wanted, accepted.sent):
        return False
    return _is_same(accepted.got, found)


def _is_same(wanted: Slice, found: Slice) -> bool:
    """Whether two slices mean the same; equal ones, the usual case, are told fifty times faster."""
    named = attrs.evolve(
        wanted,
        name=found.name,
        generate_name=found.generate_name,
        uid=found.uid,
        resource_version=found.resource_version,
    )
    return named == found or not differences(wanted, found)
