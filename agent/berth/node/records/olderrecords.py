"""Records that an older program wrote, as this one would have written them.

What they hold is the same; where a thing is known by another word now, the record takes that, or
its device would be shown twice: as one that is gone, and as one that somebody else has.
"""

from __future__ import annotations

import attrs

from berth.gpu.naming import vfio_identity
from berth.model.peripheral import Peripheral
from berth.node.records.given import Given, GivenDevice
from berth.node.records.record import ClaimRecord, HeldDevice

_SUFFIX = vfio_identity("").removeprefix("pci:")
# Under schema 1 a GPU for machines was known as the whole GPU is.


def claim_of_today(record: ClaimRecord) -> ClaimRecord:
    """A claim's record by today's words; the same if it has them."""
    return attrs.evolve(record, devices=tuple(map(_held, record.devices)))


def given_of_today(given: Given) -> Given:
    """What the device plugin gave by today's words; the same if it has them."""
    return attrs.evolve(given, devices=tuple(map(_given, given.devices)))


def _held(device: HeldDevice) -> HeldDevice:
    if device.peripheral is None or not _is_older(device.peripheral):
        return device
    one = _of_today(device.peripheral)
    return attrs.evolve(device, identity=one.identity, peripheral=one)


def _given(device: GivenDevice) -> GivenDevice:
    if not _is_older(device.peripheral):
        return device
    return attrs.evolve(device, peripheral=_of_today(device.peripheral))


def _is_older(one: Peripheral) -> bool:
    return one.kind == "vfio" and not one.identity.endswith(_SUFFIX)


def _of_today(one: Peripheral) -> Peripheral:
    return attrs.evolve(one, identity=vfio_identity(one.identity.removeprefix("pci:")))
