"""What kubelet's lists say of one answer of the device plugin: who has it, or that nobody does.

Kubelet never tells that a device is free. A list shows active pods only, a pod that was deleted by
force vanishes from it while its containers still run, and right after kubelet's start a list may be
empty. So one list proves nothing, and two prove it only with what the runtime shows.

Source: gpu-and-health.md §5.2, L6, L7, L11.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final

import attrs

from berth.model.resource import Usage
from berth.node.records.given import Given

APART_S: Final = 10.0
"""Two lists that agree are at least so far apart."""

UNSEEN_S: Final = 20.0
"""What no list has ever shown may be free after this time: its pod was not admitted."""

SETTLED_S: Final = 60.0
"""A kubelet whose socket is younger may not know its pods yet."""


class Finding(Enum):
    """What is to be done with an answer."""

    KEEP = "keep"
    RENEW = "renew"
    FREE = "free"


@attrs.frozen(kw_only=True)
class Absence:
    """Lists that did not show an answer, one after the other.

    Attributes:
        since_s: When the first of them was made.
    """

    since_s: float
    lists: int = 1


@attrs.frozen(kw_only=True)
class Look:
    """One list, and what was known beside it.

    Attributes:
        at_s: When it was made, on the clock of the other times.
        kubelet_age_s: How long kubelet's socket has been there.
    """

    at_s: float
    usages: tuple[Usage, ...]
    kubelet_age_s: float
    _by_unit: Mapping[tuple[str, str], Usage] = attrs.field(init=False, eq=False, repr=False)

    @_by_unit.default
    def _index(self) -> Mapping[tuple[str, str], Usage]:
        found: dict[tuple[str, str], Usage] = {}
        for usage in self.usages:
            for id_ in usage.ids:
                found.setdefault((usage.resource, id_), usage)
        return found

    def shows(self, given: Given) -> Usage | None:
        """Where it shows an answer, or a part of it; the first place if there are several."""
        units = ((given.holder.resource, id_) for id_ in given.holder.ids)
        return next((self._by_unit[unit] for unit in units if unit in self._by_unit), None)


@attrs.frozen(kw_only=True)
class Judgement:
    """What a list means for one answer.

    Attributes:
        given: With what is known now.
        absence: ``None`` when the list shows it.
    """

    finding: Finding
    given: Given
    absence: Absence | None = None


def judge(
    given: Given, look: Look, *, absence: Absence | None, known_since_s: float, is_live: bool
) -> Judgement:
    """Judge one answer by one list.

    Args:
        absence: From the lists before.
        known_since_s: When it was given, or when this process read its record.
        is_live: Whether a container with our marker of it runs, or nobody can say.
    """
    usage = look.shows(given)
    if usage is not None:
        holder = attrs.evolve(given.holder, container=usage.container, missed=False)
        now = attrs.evolve(given, holder=holder, bound=True, ran=given.ran or is_live)
        return Judgement(finding=Finding.KEEP if now == given else Finding.RENEW, given=now)
    seen = (
        attrs.evolve(absence, lists=absence.lists + 1)
        if absence is not None
        else Absence(since_s=look.at_s)
    )
    if _is_proven(given, look, seen, known_since_s) and not is_live:
        return Judgement(finding=Finding.FREE, given=given, absence=seen)
    now = attrs.evolve(given, holder=attrs.evolve(given.holder, missed=True))
    finding = Finding.KEEP if now == given else Finding.RENEW
    return Judgement(finding=finding, given=now, absence=seen)


def unknown(usages: Sequence[Usage], given: Sequence[Given]) -> tuple[Usage, ...]:
    """What the lists show of resources and no answer of ours explains, less what is explained."""
    known = {(one.holder.resource, id_) for one in given for id_ in one.holder.ids}
    rests = (
        attrs.evolve(
            usage, ids=tuple(id_ for id_ in usage.ids if (usage.resource, id_) not in known)
        )
        for usage in usages
    )
    return tuple(rest for rest in rests if rest.ids)


def _is_proven(given: Given, look: Look, absence: Absence, known_since_s: float) -> bool:
    return (
        absence.lists >= 2
        and look.at_s - absence.since_s >= APART_S
        and look.kubelet_age_s >= SETTLED_S
        and (given.bound or look.at_s - known_since_s >= UNSEEN_S)
    )
