"""What is remembered of a function that a claim has bound to vfio-pci, and what is due for it.

The stage is written before the step that it announces, and so is each step's word::

    reserved -> binding -> bound -> returning -> home

``lost`` ends it from anywhere: the function itself is gone. A function that vfio-pci has already
when its claim comes stays at ``reserved``: nothing is done to it, so nothing is undone.

What is due follows from what the kernel shows, not from how far the record says things went: so a
start after a crash does what is missing, whichever step was the last.

Source: network.md §4.6; gpu-and-health.md §1.6.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Final

import attrs

from berth.host.driverbind import Bound
from berth.model.edits import DeviceNode
from berth.vfio.wayin import WayIn

VFIO: Final = "vfio-pci"
"""The driver that hands functions to programs."""

_GROUP: Final = "iommu:"
# Begins the key of an IOMMU group, by its number.


class Stage(Enum):
    """How far a function is on its way to vfio-pci and home."""

    RESERVED = "reserved"
    BINDING = "binding"
    BOUND = "bound"
    RETURNING = "returning"
    HOME = "home"
    LOST = "lost"


@attrs.frozen(kw_only=True)
class Binding:
    """One function of a claim.

    Attributes:
        way: How it comes into its machine.
        allow_noiommu: It may be given without an IOMMU, which keeps its DMA from nothing.
        keys: What it takes in the ledger beside the device itself: its group, and who is in it.
        nodes: What its containers get of it, once it is bound.
        former: What had it before we touched it; ``None`` while we have not.
        step: What was begun last, for people and for the next start's log.
        fault: Why it is not where it belongs; empty when it is.
    """

    address: str
    way: WayIn = attrs.field(factory=WayIn)
    allow_noiommu: bool = False
    keys: tuple[str, ...] = ()
    nodes: tuple[DeviceNode, ...] = ()
    former: Bound | None = None
    stage: Stage = Stage.RESERVED
    step: str = ""
    fault: str = ""

    @property
    def is_touched(self) -> bool:
        """Something was done to it, or may have been, that is not known to be undone."""
        return self.stage in {Stage.BINDING, Stage.BOUND, Stage.RETURNING}

    def after_reboot(self) -> Binding:
        """The binding in another boot: drivers have found their functions anew.

        Groups have other numbers, so the number of then may be that of somebody else's group.
        """
        keys = tuple(key for key in self.keys if not key.startswith(_GROUP))
        return attrs.evolve(self, keys=keys, former=None, stage=Stage.HOME, step="", fault="")


class Verb(Enum):
    """What is done to a function."""

    OVERRIDE = "override"
    UNBIND = "unbind"
    PROBE = "probe"


@attrs.frozen(kw_only=True)
class Step:
    """One write.

    Attributes:
        driver: The one that shall have it, or that is to lose it; empty for none.
    """

    verb: Verb
    driver: str = ""

    def __str__(self) -> str:
        return f"{self.verb.value} {self.driver}".strip()


def forth(now: Bound) -> tuple[Step, ...]:
    """What is missing until vfio-pci has the function, in order."""
    return () if now.driver == VFIO else tuple(_steps(now, Bound(driver=VFIO, override=VFIO)))


def back(now: Bound, former: Bound) -> tuple[Step, ...]:
    """What is missing until the function is as it was, in order.

    A third driver that has it was put there by somebody else, and keeps it.
    """
    wanted = former
    if now.driver not in {"", VFIO}:
        wanted = attrs.evolve(former, driver=now.driver)
    return tuple(_steps(now, wanted))


def _steps(now: Bound, wanted: Bound) -> Iterator[Step]:
    """The override comes first: between unbind and probe nobody else may take the function."""
    if now.override != wanted.override:
        yield Step(verb=Verb.OVERRIDE, driver=wanted.override)
    if now.driver == wanted.driver:
        return
    if now.driver:
        yield Step(verb=Verb.UNBIND, driver=now.driver)
    if wanted.driver:
        yield Step(verb=Verb.PROBE)
