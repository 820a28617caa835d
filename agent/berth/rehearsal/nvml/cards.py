"""GPUs to put into a world: whole ones, divided ones, and such as have a fault.

Ids of profiles are those that NVML gives on an A100 with 40 GB (GH §8.1); sizes and engines follow
the vendor's MIG user guide and are close enough for a stand-in.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

import attrs

from berth.model.gpu import Engines, Placement
from berth.rehearsal.nvml.world import (
    FOR_EVER,
    WHOLE_GPU,
    Card,
    Event,
    Field,
    Instance,
    Mig,
    Part,
    Profile,
)


def _profile(
    numbers: tuple[int, int], name: str, slices: int, starts: tuple[int, ...], engines: Engines
) -> Profile:
    number, identity = numbers
    size = {3: 4, 7: 8}.get(slices, slices) if name != "MIG 1g.10gb" else 2
    return Profile(
        number=number,
        id=identity,
        name=name,
        slices=slices,
        instances=len(starts),
        engines=engines,
        placements=tuple(Placement(start=start, size=size) for start in starts),
    )


def _engines(slices: int, memory_mib: int, *, media: tuple[int, int, int]) -> Engines:
    decoders, jpeg, ofa = media
    return Engines(
        multiprocessors=14 * slices,
        copy_engines=slices,
        decoders=decoders,
        encoders=0,
        jpeg_engines=jpeg,
        ofa_engines=ofa,
        memory_mib=memory_mib,
    )


_XID: Final = 0x8
_ACTION: Final = 230

_EVERY: Final = (0, 1, 2, 3, 4, 5, 6)

PROFILES: Final = (
    _profile((0, 19), "MIG 1g.5gb", 1, _EVERY, _engines(1, 4864, media=(0, 0, 0))),
    _profile((1, 14), "MIG 2g.10gb", 2, (0, 2, 4), _engines(2, 9984, media=(1, 0, 0))),
    _profile((2, 9), "MIG 3g.20gb", 3, (0, 4), _engines(3, 20096, media=(2, 0, 0))),
    _profile((3, 5), "MIG 4g.20gb", 4, (0,), _engines(4, 20096, media=(2, 0, 0))),
    _profile((4, 0), "MIG 7g.40gb", 7, (0,), _engines(7, 40320, media=(5, 1, 1))),
    _profile((7, 20), "MIG 1g.5gb+me", 1, _EVERY, _engines(1, 4864, media=(1, 1, 1))),
    _profile((9, 15), "MIG 1g.10gb", 1, (0, 2, 4, 6), _engines(1, 9984, media=(1, 0, 0))),
)
"""What an A100 with 40 GB can be divided into."""


def whole(number: int, address: str) -> Card:
    """Give an H100 without MIG; ``number`` makes its UUID and minor number."""
    return Card(address=address, uuid=f"GPU-{UUID(int=number + 1)}", minor=number)


def divisible(number: int, address: str) -> Card:
    """Give an A100 that can do MIG, with its mode off."""
    return attrs.evolve(
        whole(number, address),
        name="NVIDIA A100-SXM4-40GB",
        device_id=0x20B010DE,
        architecture=7,
        capability=(8, 0),
        memory_bytes=40960 << 20,
        mig=Mig(profiles=PROFILES),
    )


def divided(card: Card, layout: tuple[tuple[int, int, int], ...]) -> Card:
    """Give a card in MIG mode, with one compute instance in each GPU instance.

    Args:
        layout: Profile id, id of the GPU instance and first slice of each. An instance's UUID is
            made of its ids, so the same layout gives the same UUIDs.
    """
    mig = card.mig or Mig(profiles=PROFILES)
    known = {profile.id: profile for profile in mig.profiles}
    instances, parts = [], []
    for slot, (identity, gi, start) in enumerate(layout):
        profile = known[identity]
        place = Placement(start=start, size=profile.placements[0].size)
        instances.append(Instance(id=gi, profile=identity, placement=place))
        number = (card.minor + 1) << 32 | identity << 16 | gi << 8 | start
        parts.append(
            Part(
                slot=slot,
                gi=gi,
                uuid=f"MIG-{UUID(int=number)}",
                name=f"{card.name} {profile.name}",
                engines=profile.engines,
                placement=Placement(start=0, size=profile.slices),
            )
        )
    made = attrs.evolve(
        mig, current=True, pending=True, instances=tuple(instances), parts=tuple(parts)
    )
    return attrs.evolve(card, mig=made)


def told(
    card: Card, event_type: int, data: int = 0, *, gi: int = WHOLE_GPU, ci: int = WHOLE_GPU
) -> Card:
    """Give a card that has one more event to tell."""
    last = max((event.sequence for event in card.events), default=0)
    event = Event(sequence=last + 1, type=event_type, data=data, gi=gi, ci=ci)
    return attrs.evolve(card, events=(*card.events, event))


def struck(card: Card, xid: int, *, gi: int = WHOLE_GPU, ci: int = WHOLE_GPU) -> Card:
    """Give a card of which an XID is told, for the instance that is given or for the whole."""
    return told(card, _XID, xid, gi=gi, ci=ci)


def needing(card: Card, action: int) -> Card:
    """Give a card that asks for a recovery (field 230); 0 for none."""
    return attrs.evolve(card, fields={**card.fields, _ACTION: Field(value=action)})


def without_action(card: Card) -> Card:
    """Give a card whose driver is too old to say which recovery it needs."""
    fields = {number: field for number, field in card.fields.items() if number != _ACTION}
    return attrs.evolve(card, fields=fields)


def hung(card: Card) -> Card:
    """Give a card of which no call comes back, until a world without that is shown."""
    return attrs.evolve(card, hang_ms=FOR_EVER)
