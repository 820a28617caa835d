"""The file that tells the stand-in its GPUs, their MIG layout, faults and events.

One line is one word and what belongs to it, so that C reads it without any library. The file is
written beside and renamed: the stand-in reads it again when it is another one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import attrs

from berth.model.gpu import Engines, Placement

VARIABLE: Final = "BERTH_NVML_WORLD"
"""Environment variable that names the file."""

FOR_EVER: Final = -1
"""A hang that ends only when a world without it is written."""

WHOLE_GPU: Final = 0xFFFFFFFF
"""Instance of an event that belongs to none."""

LOST: Final = 15
"""NVML's GPU_IS_LOST, as `Card.error`."""

RESET_REQUIRED: Final = 16
"""NVML's RESET_REQUIRED, as `Card.error`."""

FIRST_SLICE: Final = Placement(start=0, size=1)
"""Where the one compute instance of the smallest GPU instance lies."""

ALL_EVENTS: Final = 0xFFFF & ~0x60
"""Every event type that pynvml 13.615.71 names."""


@attrs.frozen(kw_only=True)
class Profile:
    """A kind of GPU instance.

    Attributes:
        number: NVML's enum, which profiles are asked by.
        id: What NVML answers, and placements are asked by.
        instances: How many fit on the GPU.
    """

    number: int
    id: int
    name: str
    slices: int
    instances: int
    engines: Engines
    placements: tuple[Placement, ...]


@attrs.frozen(kw_only=True)
class Instance:
    """A GPU instance."""

    id: int
    profile: int
    placement: Placement


@attrs.frozen(kw_only=True)
class Part:
    """A compute instance: a MIG device.

    Attributes:
        slot: Index at which NVML lists it; others stay empty.
        gi: Id of its GPU instance.
        placement: Within the GPU instance.
    """

    slot: int
    gi: int
    uuid: str
    name: str
    engines: Engines
    id: int = 0
    profile: int = 0
    placement: Placement = FIRST_SLICE


@attrs.frozen(kw_only=True)
class Mig:
    """A GPU that can do MIG.

    Attributes:
        rights: Whether instances may be asked for; without, NVML answers NO_PERMISSION.
    """

    current: bool = False
    pending: bool = False
    slots: int = 7
    rights: bool = True
    profiles: tuple[Profile, ...] = ()
    instances: tuple[Instance, ...] = ()
    parts: tuple[Part, ...] = ()


@attrs.frozen(kw_only=True)
class Field:
    """What a field's number answers; `result` is NVML's code for this field alone."""

    value: int = 0
    result: int = 0


@attrs.frozen(kw_only=True)
class CallFault:
    """One call, by its C symbol, that fails or hangs while others go well."""

    call: str
    result: int = 0
    hang_ms: int = 0


@attrs.frozen(kw_only=True)
class Event:
    """An event, given once to each event set that was registered before it came.

    Attributes:
        sequence: Above 0 and rising for one GPU.
    """

    sequence: int
    type: int
    data: int = 0
    gi: int = WHOLE_GPU
    ci: int = WHOLE_GPU


@attrs.frozen(kw_only=True)
class Process:
    """A process that computes on a GPU, or on one of its parts."""

    pid: int
    gi: int = WHOLE_GPU
    ci: int = WHOLE_GPU


@attrs.frozen(kw_only=True)
class Card:
    """One GPU.

    Attributes:
        device_id: Device and vendor, as NVML gives them: device << 16 | vendor.
        error: What every call on it answers; 0 for what is right.
        hang_ms: How long every call on it takes; `FOR_EVER`.
        absent: Not listed; a handle from before answers that the GPU is lost.
        links: NVLink number to the PCI address at its other end; empty for a link that is down.
    """

    address: str
    uuid: str
    minor: int
    name: str = "NVIDIA H100 80GB HBM3"
    device_id: int = 0x233010DE
    subsystem: int = 0x16C110DE
    brand: int = 14
    architecture: int = 9
    capability: tuple[int, int] = (9, 0)
    memory_bytes: int = 81559 << 20
    addressing: int = 0
    virtualization: int = 0
    persistence: int = 1
    compute_mode: int = 0
    numa: int = -1
    supported_events: int = ALL_EVENTS
    engines: Engines | None = None
    mig: Mig | None = None
    fields: Mapping[int, Field] = attrs.field(
        factory=lambda: {number: Field() for number in (31, 144, 145, 230)}
    )
    error: int = 0
    hang_ms: int = 0
    absent: bool = False
    faults: tuple[CallFault, ...] = ()
    events: tuple[Event, ...] = ()
    links: Mapping[int, str] = attrs.field(factory=dict)
    processes: tuple[Process, ...] = ()


@attrs.frozen(kw_only=True)
class World:
    """Everything that the stand-in shows; the order of the cards is that of NVML's indices.

    Attributes:
        init_error: What init answers, such as 9 (no driver) or 18 (another driver).
        lock: One lock for all calls: one that hangs holds up every other.
        storm: Waits for events return TIMEOUT at once.
        wait_error: What waits for events answer when there is none.
    """

    cards: tuple[Card, ...] = ()
    driver: str = "580.65.06"
    nvml: str = "13.580.65.06"
    cuda: int = 13000
    init_error: int = 0
    init_hang_ms: int = 0
    shutdown_hang_ms: int = 0
    lock: bool = False
    storm: bool = False
    wait_error: int = 0


@attrs.frozen(kw_only=True)
class Count:
    """Calls of one GPU, or of the library as a whole.

    Attributes:
        open: How many are inside now.
        most: How many were inside at once, ever.
    """

    calls: int
    open: int
    most: int


def write(path: Path, world: World) -> None:
    """Put a world in the place of the last; blocks for a file's write."""
    beside = path.with_name(f"{path.name}.new")
    text = "".join(f"{line}\n" for line in _lines(world))
    beside.write_bytes(text.encode(errors="surrogateescape"))
    beside.replace(path)


def read_counts(path: Path) -> dict[str, Count]:
    """Give the calls so far, by PCI address and for ``library``; ``path`` is the world's."""
    counts = path.with_name(f"{path.name}.counters")
    found = {}
    for line in counts.read_text().splitlines() if counts.exists() else ():
        who, _, calls, _, now, _, most = line.split()
        found[who] = Count(calls=int(calls), open=int(now), most=int(most))
    return found


def environment(path: Path) -> dict[str, str]:
    """Give the environment of a process whose stand-in shows the world at ``path``."""
    return {**os.environ, VARIABLE: str(path)}


def _lines(world: World) -> Iterator[str]:
    for name in ("driver", "nvml", "cuda", "init_error", "init_hang_ms", "shutdown_hang_ms"):
        yield f"{name} {getattr(world, name)}"
    yield f"lock {world.lock:d}"
    yield f"storm {world.storm:d}"
    yield f"wait_error {world.wait_error}"
    for card in world.cards:
        yield from _card(card)


_PLAIN: Final = (
    "uuid",
    "minor",
    "name",
    "brand",
    "architecture",
    "memory_bytes",
    "addressing",
    "virtualization",
    "persistence",
    "compute_mode",
    "numa",
    "supported_events",
    "error",
    "hang_ms",
)


def _card(card: Card) -> Iterator[str]:
    yield f"gpu {card.address}"
    for name in _PLAIN:
        yield f"{name} {getattr(card, name)}"
    yield f"device_id {card.device_id:x}"
    yield f"subsystem {card.subsystem:x}"
    yield f"capability {card.capability[0]} {card.capability[1]}"
    yield f"absent {card.absent:d}"
    if card.engines is not None:
        yield f"engines {_engines(card.engines)}"
    if card.mig is not None:
        yield from _mig(card.mig)
    for number, field in card.fields.items():
        yield f"field {number} {field.result} {field.value}"
    for fault in card.faults:
        yield f"fault {fault.call} {fault.result} {fault.hang_ms}"
    for event in card.events:
        yield f"event {event.sequence} {event.type} {event.data} {event.gi} {event.ci}"
    for link, remote in card.links.items():
        yield f"link {link} {remote or '-'}"
    for process in card.processes:
        yield f"process {process.pid} {process.gi} {process.ci}"


def _mig(mig: Mig) -> Iterator[str]:
    yield f"mig {mig.current:d} {mig.pending:d}"
    yield f"mig_slots {mig.slots}"
    yield f"mig_rights {mig.rights:d}"
    for profile in mig.profiles:
        numbers = f"{profile.number} {profile.id} {profile.slices} {profile.instances}"
        yield f"profile {numbers} {profile.name}"
        yield f"profile_engines {_engines(profile.engines)}"
        for place in profile.placements:
            yield f"place {place.start} {place.size}"
    for instance in mig.instances:
        place = instance.placement
        yield f"instance {instance.id} {instance.profile} {place.start} {place.size}"
    for part in mig.parts:
        place = part.placement
        numbers = f"{part.slot} {part.gi} {part.id} {part.profile} {place.start} {place.size}"
        yield f"part {numbers} {part.uuid}"
        yield f"part_engines {_engines(part.engines)}"
        yield f"part_name {part.name}"


def _engines(engines: Engines) -> str:
    return " ".join(str(number) for number in attrs.astuple(engines))
