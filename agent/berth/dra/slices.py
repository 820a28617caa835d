"""The writes that lead from the slices that exist to those that should.

What a pool is to be is its edition (`berth.dra.edition`). What is missing or was edited by others
is put back as it was, in the same generation: no reader can have seen other content of ours under
that number. So an interrupted round is just continued.

What the server made of an earlier write counts as that write (`Accepted`), so a field that it drops
is not sent again and again.

Taints of others on our devices are no edit: they stay (`berth.dra.tainting`).

Source: KC §4.3, §4.4, §4.5; network.md §0, §2.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from itertools import chain
from typing import TypeAlias

import attrs

from berth.dra.counters import counted
from berth.dra.edition import Edition, next_edition
from berth.dra.origin import Origin
from berth.dra.tainting import ours_alone, with_foreign
from berth.kube.compare import differences, keep_taint_times
from berth.kube.slices import Slice
from berth.model.device import CounterSet, Device


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
    counter_sets: Iterable[CounterSet] = (),
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
        counter_sets: What devices may draw on; a set that no device of a pool draws on is left out.
    """
    sets = {one.name: one for one in counter_sets}
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
            edition = next_edition(
                origin,
                pool,
                counted(offered.get(pool, ()), sets),
                slices,
                edition=editions.get(pool),
            )
            writes = _writes(origin, edition, slices, accepted)
            plans.append(PoolPlan(pool=pool, edition=edition, writes=writes))
        else:
            plans.append(PoolPlan(pool=pool, edition=None, writes=tuple(map(_delete, slices))))
    return tuple(plans)


def _writes(
    origin: Origin, edition: Edition, existing: Iterable[Slice], accepted: AcceptedSlices
) -> tuple[Write, ...]:
    existing = sorted(existing, key=lambda item: item.generation)
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
            writes[write.verb].append(_with_kept_taints(write, existing))
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
            target,
            name=keeper.name,
            uid=keeper.uid,
            resource_version=keeper.resource_version,
        )
        yield Write(verb=Verb.UPDATE, slice=named, index=index)


def _with_kept_taints(write: Write, existing: Sequence[Slice]) -> Write:
    """A write that leaves the taints of others, and the times of ours, as they are."""
    if write.verb is Verb.DELETE:
        return write
    kept = keep_taint_times(with_foreign(write.slice, existing), existing)
    return attrs.evolve(write, slice=kept)


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
    return named == found or not differences(ours_alone(wanted), ours_alone(found))
