"""What one generation of a pool stands for, and what the next one is.

A pool is read as a whole: only slices of the highest generation count, and a pool whose slices are
not as many as they say offers nothing. An `Edition` is what one generation of a pool stands for. It
is kept between plans, and recovered from the server after a restart. Wanted content that differs in
at most one slice keeps the generation, and that slice is rewritten; otherwise the pool gets the
highest generation ever seen plus one, in all of its slices.

Counter sets lie in slices of their own behind those of devices, and count like them.

Source: KC §4.3, §4.4; network.md §0, §2.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from typing import Any, TypeAlias

import attrs

from berth.dra.counters import Content, place_sets, slots_needed
from berth.dra.origin import Origin
from berth.dra.placement import Slots, place
from berth.dra.tainting import ours_alone
from berth.kube.compare import device_differences
from berth.kube.slices import Slice, counter_set_json, device_json
from berth.model.device import Device

DeviceJson: TypeAlias = "Mapping[str, Any]"
"""A device or a counter set; either has a ``name``."""

Items: TypeAlias = "tuple[DeviceJson, ...]"

SlotsJson: TypeAlias = "tuple[Items, ...]"


@attrs.frozen(kw_only=True)
class Edition:
    """What a generation of a pool stands for.

    Attributes:
        slots: Devices as JSON, by slice.
        counters: Counter sets as JSON, by slice; their slices follow those of the devices.
        skips: What kubelet skips with the devices of each slice.
        sources: Of what the JSON of each device was made, by name; those that have not changed are
            not written as JSON again, which is most of what a plan takes.
    """

    pool: str
    generation: int
    slots: SlotsJson
    counters: SlotsJson = ()
    skips: tuple[tuple[str, ...], ...] = ()
    sources: Mapping[str, Device] = attrs.field(factory=dict, eq=False, repr=False)

    @property
    def names(self) -> Slots:
        """Device names by slice."""
        return _names(self.slots)

    @property
    def set_names(self) -> Slots:
        """Names of counter sets by slice."""
        return _names(self.counters)

    @property
    def slice_count(self) -> int:
        """Slices of both sorts."""
        return len(self.slots) + len(self.counters)

    @property
    def device_count(self) -> int:
        """Devices in all slices."""
        return sum(map(len, self.slots))

    def slices(self, origin: Origin) -> tuple[Slice, ...]:
        """The slices as they are to be, without the names that the server gives."""
        contents: list[tuple[Items, Items, tuple[str, ...]]]
        contents = [(slot, (), skips) for slot, skips in self.skipping()]
        contents += [((), slot, ()) for slot in self.counters]
        return tuple(
            Slice(
                driver=origin.driver,
                pool=self.pool,
                generation=self.generation,
                slice_count=self.slice_count,
                node_name=origin.node_name,
                devices=devices,
                shared_counters=counters,
                partition_type=origin.partition_type(devices),
                skips=skips,
                generate_name=origin.generate_name(index),
                owner=origin.owner,
            )
            for index, (devices, counters, skips) in enumerate(contents)
        )

    def skipping(self) -> Iterator[tuple[Items, tuple[str, ...]]]:
        """Devices by slice, each with what kubelet skips with them."""
        return zip_longest(self.slots, self.skips[: len(self.slots)], fillvalue=())


def recovered(origin: Origin, pool: str, existing: Iterable[Slice]) -> Edition | None:
    """The edition that the server holds, ``None`` when its newest generation is no whole pool."""
    slices = list(existing)
    newest = max((item.generation for item in slices), default=0)
    slices = [ours_alone(item) for item in slices]
    by_index = {origin.index_of(item.name): item for item in slices if item.generation == newest}
    whole = [by_index[index] for index in range(len(by_index)) if index in by_index]
    counted = sum(item.generation == newest for item in slices)
    if not whole or any(item.slice_count != counted for item in whole) or len(whole) != counted:
        return None
    devices = [item for item in whole if not item.shared_counters]
    counters = whole[len(devices) :]
    # Devices come first, and no slice has both.
    if any(item.shared_counters for item in whole[: len(devices)]) or any(
        item.devices for item in counters
    ):
        return None
    edition = Edition(
        pool=pool,
        generation=newest,
        slots=tuple(item.devices for item in devices),
        counters=tuple(item.shared_counters for item in counters),
        skips=tuple(item.skips for item in devices),
    )
    every = chain.from_iterable((*edition.slots, *edition.counters))
    return edition if all(isinstance(one.get("name"), str) for one in every) else None


def next_edition(
    origin: Origin,
    pool: str,
    content: Content,
    existing: Sequence[Slice],
    *,
    edition: Edition | None,
) -> Edition:
    """What the pool is to be.

    Args:
        origin: Who publishes.
        pool: Its name.
        content: What it shall have.
        existing: Its slices, as the server has them.
        edition: What it was last to be; ``None`` when this process does not know.
    """
    newest = max((item.generation for item in existing), default=0)
    if edition is None or newest > edition.generation:
        edition = recovered(origin, pool, existing)
    wanted = _written(content.devices, edition)
    sources = {device.name: device for device in content.devices}
    sets = {one.name: counter_set_json(one) for one in content.sets}
    if edition is None:
        slots = _placed(place((), content.devices))
        return Edition(
            pool=pool,
            generation=newest + 1,
            slots=_contents(slots, wanted),
            counters=_contents(place_sets((), tuple(sets)), sets),
            skips=_skips(slots, content.devices),
            sources=sources,
        )
    edition = _with_counters(edition, slots_needed(len(sets)))
    known = {device["name"]: device for device in chain.from_iterable(edition.slots)}
    skipped = {one["name"]: skips for slot, skips in edition.skipping() for one in slot}
    changed = frozenset(
        one.name
        for one in content.devices
        if one.name in known
        if one.skips != skipped[one.name] or not _same_item(wanted[one.name], known[one.name])
    )
    slots = _placed(place(edition.names, content.devices, changed=changed))
    after = Edition(
        pool=pool,
        generation=edition.generation,
        slots=_contents(slots, wanted),
        counters=_contents(place_sets(edition.set_names, tuple(sets)), sets),
        skips=_skips(slots, content.devices),
        sources=sources,
    )
    if _differing(edition, after) > 1:
        return attrs.evolve(after, generation=max(newest, edition.generation) + 1)
    return after


def _written(devices: Iterable[Device], edition: Edition | None) -> Mapping[str, DeviceJson]:
    """The JSON of each device, by name, taken over from an edition where the device is the same."""
    sources = edition.sources if edition is not None else {}
    slots = edition.slots if edition is not None else ()
    made = {one["name"]: one for one in chain.from_iterable(slots)}
    return {
        one.name: made[one.name] if one == sources.get(one.name) else device_json(one)
        for one in devices
    }


def _with_counters(edition: Edition, count: int) -> Edition:
    """The edition whose last slices are those of counters, if these are empty.

    A server that drops counters leaves an empty slice, which tells a new process nothing; taken for
    one of devices it would stay for ever, and another be added at each restart.
    """
    if edition.counters or not count:
        return edition
    devices, last = edition.slots[:-count], edition.slots[-count:]
    return edition if any(last) else attrs.evolve(edition, slots=devices, counters=last)


def _placed(slots: tuple[tuple[Device, ...], ...]) -> Slots:
    return tuple(tuple(device.name for device in slot) for slot in slots)


def _names(slots: SlotsJson) -> Slots:
    return tuple(tuple(str(item["name"]) for item in slot) for slot in slots)


def _skips(slots: Slots, devices: Iterable[Device]) -> tuple[tuple[str, ...], ...]:
    """What kubelet skips, by slice: the same with all of its devices."""
    skips = {device.name: device.skips for device in devices}
    return tuple(skips[slot[0]] if slot else () for slot in slots)


def _contents(slots: Slots, wanted: Mapping[str, DeviceJson]) -> SlotsJson:
    return tuple(tuple(wanted[name] for name in slot) for slot in slots)


def _same_item(wanted: DeviceJson, found: DeviceJson) -> bool:
    return wanted is found or wanted == found or not device_differences(wanted, found)


def _differing(before: Edition, after: Edition) -> int:
    """How many slices have to be written; all of them when their number changes."""
    if before.slice_count != after.slice_count:
        return before.slice_count + after.slice_count
    slots = zip(before.skipping(), after.skipping(), strict=True)
    sets = zip(before.counters, after.counters, strict=True)
    return sum(
        skipped != skips or not _same_slot(old, new) for (old, skipped), (new, skips) in slots
    ) + sum(not _same_slot(old, new) for old, new in sets)


def _same_slot(one: Sequence[DeviceJson], other: Sequence[DeviceJson]) -> bool:
    return len(one) == len(other) and all(map(_same_item, one, other))
