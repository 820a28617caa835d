"""Compatibility groups: which parts of a GPU may be given while others are.

Parts by MIG go with each other and with nothing else. The forms of a whole GPU need no group: each
of them draws on all that the GPU has, and one without groups goes with none that has some.

Source: GH §1.5; KC §9.5.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs

from berth.model.peripheral import Peripheral

_GROUPS: Final = {"mig": ("mig",)}
"""By the type of a device."""


def grouped(peripherals: Iterable[Peripheral]) -> tuple[Peripheral, ...]:
    """Give the peripherals, parts with the groups that they are in."""
    return tuple(map(_grouped, peripherals))


def _grouped(one: Peripheral) -> Peripheral:
    groups = _GROUPS.get(one.type, ())
    if not groups or not one.consumes:
        return one
    return attrs.evolve(
        one, consumes=tuple(attrs.evolve(drawn, groups=groups) for drawn in one.consumes)
    )
