"""Which device lies in which slice of its pool, so that a small change rewrites one slice.

Either the change fits into one slice, and then all others stay as they are; or the pool has to be
written anew as a whole (a changed number of slices, or two changed slices, raise its generation),
and then packing it afresh costs nothing more. So there is no third way:

* A device keeps its slice. What is new goes where its bucket is and room is left.
* A slice that became empty stays, so a device that comes and goes never changes their number.
* A packing from scratch fills slices in the order of publication, devices of a bucket together.
* A slice says once for all of its devices what kubelet skips, so only devices that are alike in
  that lie in one.

The scheduler tries devices in the order of slices, then of lists. A packing that no longer honours
the order of kinds and groups is given up; single late devices at the end are left there.

Source: KC §4.2, §4.3; network.md §2.3.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from itertools import chain, groupby
from typing import Final, TypeAlias

from berth.model.device import Device

SLICE_LIMIT: Final = 64
"""Most devices of a slice: 64 as soon as one has a taint, and taints may come at any time."""

Slots: TypeAlias = "tuple[tuple[str, ...], ...]"
"""Device names by slice, in order."""


def place(
    previous: Slots, devices: Sequence[Device], *, changed: Container[str] = ()
) -> tuple[tuple[Device, ...], ...]:
    """Distribute devices to slices; the result has at least one slice, which may be empty.

    Args:
        previous: Where they were, empty when nothing is known.
        devices: What is to be published, in the order of publication.
        changed: Names of devices whose content is another than in ``previous``.
    """
    ordered = arrange(devices)
    by_name = {device.name: device for device in ordered}
    slots = _kept(previous, ordered, changed)
    if slots is None:
        slots = _packed(ordered)
    return tuple(tuple(by_name[name] for name in slot) for slot in slots)


def arrange(devices: Iterable[Device]) -> tuple[Device, ...]:
    """Put devices of one bucket side by side, where the first of them is; else keep the order."""
    groups: dict[tuple[str, str], list[Device]] = {}
    for device in devices:
        key = (device.bucket, "") if device.bucket else ("", device.name)
        groups.setdefault(key, []).append(device)
    return tuple(chain.from_iterable(groups.values()))


def _packed(ordered: Sequence[Device]) -> Slots:
    slots: list[tuple[str, ...]] = []
    for _, alike in groupby(ordered, key=lambda device: device.skips):
        names = [device.name for device in alike]
        starts = range(0, len(names), SLICE_LIMIT)
        slots += [tuple(names[start : start + SLICE_LIMIT]) for start in starts]
    return tuple(slots) or ((),)


def _kept(previous: Slots, ordered: Sequence[Device], changed: Container[str]) -> Slots | None:
    """Slots of which at most one differs from ``previous``; ``None`` when there are no such."""
    before = list(chain.from_iterable(previous))
    if not previous or len(set(before)) != len(before):
        return None
    rank = {device.name: position for position, device in enumerate(ordered)}
    left = [[name for name in slot if name in rank] for slot in previous]
    # As they lie if that is in order: with the first of a bucket gone, its others come later.
    result = _filled(previous, left, ordered, changed)
    if result is None:
        by_rank = [sorted(slot, key=rank.__getitem__) for slot in left]
        result = _filled(previous, by_rank, ordered, changed)
    return result


def _filled(
    previous: Slots,
    slots: Sequence[list[str]],
    ordered: Sequence[Device],
    changed: Container[str],
) -> Slots | None:
    """The slots with what is new, if one alone differs then and the result is in order."""
    dirty = [
        index
        for index, slot in enumerate(slots)
        if tuple(slot) != previous[index] or any(name in changed for name in slot)
    ]
    if len(dirty) > 1:
        return None
    rank = {device.name: position for position, device in enumerate(ordered)}
    known = set(chain.from_iterable(previous))
    added = [device for device in ordered if device.name not in known]
    filled = list(slots)
    if added:
        target = _target(dirty or range(len(slots)), slots, ordered, added)
        if target is None:
            return None
        filled[target] = sorted((*slots[target], *(d.name for d in added)), key=rank.__getitem__)
    result = tuple(tuple(slot) for slot in filled)
    full = any(len(slot) > SLICE_LIMIT for slot in result)
    skips = {device.name: device.skips for device in ordered}
    mixed = any(len({skips[name] for name in slot}) > 1 for slot in result)
    return None if full or mixed or _reordered(result, ordered) else result


def _target(
    candidates: Iterable[int],
    slots: Sequence[Sequence[str]],
    ordered: Sequence[Device],
    added: Sequence[Device],
) -> int | None:
    """The slot that takes all of ``added``: beside their bucket, else behind their predecessor."""
    buckets = {device.bucket for device in added if device.bucket}
    beside = {device.name for device in ordered if device.bucket in buckets}
    first = ordered.index(added[0])
    predecessor = ordered[first - 1].name if first else ""
    skips = {device.name: device.skips for device in ordered}
    roomy = [
        index
        for index in candidates
        if len(slots[index]) + len(added) <= SLICE_LIMIT
        if {skips[name] for name in slots[index]} <= {device.skips for device in added}
    ]
    if not roomy:
        return None
    return max(
        roomy,
        key=lambda index: (
            any(name in beside for name in slots[index]),
            predecessor in slots[index],
            index,
        ),
    )


def _reordered(slots: Slots, ordered: Sequence[Device]) -> bool:
    """Whether kinds and groups come in another order than that of publication."""
    kinds = {device.name: (device.type, device.group) for device in ordered}
    placed = dict.fromkeys(kinds[name] for name in chain.from_iterable(slots))
    return list(placed) != list(dict.fromkeys(kinds.values()))
