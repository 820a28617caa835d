"""Counters of GPUs with parts: what the scheduler must not give twice.

One set for each GPU; each part draws its engines, its memory and the slices that it lies in, so
that of two placements that overlap only one fits. A set is never smaller than what exists: counters
must not block what is there.

Source: GH §1.5; KC §9.3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from berth.gpu.naming import gpu_name
from berth.model.device import Consumption, CounterSet
from berth.model.gpu import Engines, Gpu, MigDevice, Placement

MIB: Final = 1 << 20

SLICES_LIMIT: Final = 25
"""Most memory slices that have counters: a set holds 32 counters, and seven are of other things."""


def counter_set(gpu: Gpu) -> CounterSet | None:
    """The set of a GPU; ``None`` for one without parts, or with parts that cannot be counted.

    Several compute instances in one GPU instance share its memory, and parts whose place is unknown
    cannot be told apart by slices.
    """
    if not gpu.mig_devices or any(_uncountable(mig) for mig in gpu.mig_devices):
        return None
    times = Counter(mig.gi_id for mig in gpu.mig_devices)
    slices = _slices(gpu)
    if max(times.values()) > 1 or slices > SLICES_LIMIT:
        return None
    amounts = _amounts(gpu)
    places = {f"memory-slice-{number}": 1 for number in range(slices)}
    return CounterSet(name=_set_name(gpu), counters={**amounts, **places})


def whole_set(gpu: Gpu) -> CounterSet:
    """The set of a GPU that is given whole, in one form or another; each form draws all of it."""
    slices = _slices(gpu)
    places = range(slices if slices <= SLICES_LIMIT else 0)
    counters = {**_amounts(gpu), **{f"memory-slice-{number}": 1 for number in places}}
    return CounterSet(
        name=_set_name(gpu), counters=counters or {"memory": max(gpu.memory_bytes or 0, 1)}
    )


def everything(counters: CounterSet) -> Consumption:
    """All of a set."""
    return Consumption(counter_set=counters.name, counters=counters.counters)


def consumption(mig: MigDevice, counters: CounterSet) -> Consumption:
    """What a part draws from the set of its GPU."""
    place = mig.gi_placement
    taken = range(place.start, place.start + place.size) if place is not None else range(0)
    slices = {f"memory-slice-{number}": 1 for number in taken}
    engines = _of(mig.engines) if mig.engines is not None else {}
    return Consumption(counter_set=counters.name, counters={**_present(engines), **slices})


def capacities(engines: Engines) -> Mapping[str, int]:
    """What has the engines, under the names of capacities, but for its memory; zeros included."""
    return {
        "multiprocessors": engines.multiprocessors,
        "copyEngines": engines.copy_engines,
        "decoders": engines.decoders,
        "encoders": engines.encoders,
        "jpegEngines": engines.jpeg_engines,
        "ofaEngines": engines.ofa_engines,
    }


def _set_name(gpu: Gpu) -> str:
    return f"{gpu_name(gpu.address)}-counters"


def _uncountable(mig: MigDevice) -> bool:
    place = mig.gi_placement
    return place is None or mig.engines is None or place.start < 0 or place.size < 1


def _amounts(gpu: Gpu) -> Mapping[str, int]:
    """The most that any profile has of each, and at least what the parts have together."""
    parts = Counter[str]()
    for mig in gpu.mig_devices:
        if mig.engines is not None:
            parts.update(_of(mig.engines))
    most = dict(parts)
    for engines in _wholes(gpu):
        for name, amount in _of(engines).items():
            most[name] = max(most.get(name, 0), amount)
    return _present(most)


def _wholes(gpu: Gpu) -> Iterator[Engines]:
    yield from (profile.engines for profile in gpu.mig_profiles)
    if gpu.engines is not None:
        yield gpu.engines


def _slices(gpu: Gpu) -> int:
    return max(map(_end, _placements(gpu)), default=0)


def _placements(gpu: Gpu) -> Iterable[Placement]:
    yield from (place for profile in gpu.mig_profiles for place in profile.placements)
    yield from (mig.gi_placement for mig in gpu.mig_devices if mig.gi_placement is not None)


def _end(place: Placement) -> int:
    return place.start + place.size


def _of(engines: Engines) -> Mapping[str, int]:
    return {
        "multiprocessors": engines.multiprocessors,
        "copy-engines": engines.copy_engines,
        "decoders": engines.decoders,
        "encoders": engines.encoders,
        "jpeg-engines": engines.jpeg_engines,
        "ofa-engines": engines.ofa_engines,
        "memory": engines.memory_mib * MIB,
    }


def _present(amounts: Mapping[str, int]) -> Mapping[str, int]:
    """Without zeros, which a set needs not hold."""
    return {name: amount for name, amount in amounts.items() if amount > 0}
