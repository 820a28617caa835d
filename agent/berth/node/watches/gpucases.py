"""What is known of each GPU that is watched, and how that is told of it and of its parts.

Each has a `Condition`; whatever a change of it says is told before the change is over.

Source: gpu-and-health.md §2.5, §6.2, §6.4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import attrs
import trio

from berth.gpu.condition import Condition, laid_out, let_stand, taken_up
from berth.gpu.layout import Layout
from berth.health.reports import Reports
from berth.health.terms import Terms

SOURCE: Final = "nvml"


@attrs.frozen(kw_only=True)
class GpuFigures:
    """What one GPU said last, for metrics.

    Attributes:
        action: The recovery that it needs, 0 for none; ``None`` where it does not say.
        remap_pending: Rows of its memory are to be remapped.
    """

    action: int | None
    remap_pending: bool


@attrs.define(eq=False)
class WatchedGpu:
    """One GPU.

    Attributes:
        binding: Of its driver, as seen last; 0 before.
        asking: A question after an event is out.
    """

    layout: Layout
    terms: Terms
    condition: Condition
    binding: int = 0
    asking: bool = False


class GpuCases:
    """The GPUs that are watched.

    Args:
        reports: Who is told.

    Attributes:
        watched: All of them, by identity.
    """

    def __init__(self, reports: Reports) -> None:
        self.watched: dict[str, WatchedGpu] = {}
        self._reports = reports

    def figures(self) -> Mapping[str, GpuFigures]:
        """Figures of each GPU, by its identity."""
        return {subject: _figures(one.condition) for subject, one in self.watched.items()}

    def settle(self, layouts: Mapping[str, Layout], terms: Mapping[str, Terms]) -> list[str]:
        """Take what is there now, and go on with what is known of it.

        Args:
            layouts: By identity.
            terms: By address.

        Returns:
            Those that are others than before.
        """
        for subject in self.watched.keys() - layouts.keys():
            self._retire_parts(self.watched.pop(subject).condition, {})
        return [
            subject
            for subject, layout in layouts.items()
            if self._see(subject, layout, terms[layout.address])
        ]

    def is_watched(self, one: WatchedGpu) -> bool:
        """Whether it is the one that is there."""
        return self.watched.get(one.condition.subject) is one

    def change(self, one: WatchedGpu, change: Callable[[Condition], Condition]) -> None:
        """Change what is known of a GPU, and tell that; of one that nobody watches it is void."""
        if not self.is_watched(one):
            return
        before = one.condition
        self._keep_cleared(one)
        one.condition = change(one.condition)
        if _said(one.condition) != _said(before):
            self._tell(one)

    def _see(self, subject: str, layout: Layout, terms: Terms) -> bool:
        """Take what is there of one GPU, and tell whether it is another than before."""
        known = self.watched.get(subject)
        swapped = layout.swapped if known is None else _is_another(known.layout, layout)
        if swapped:
            self._drop_history(subject, layout, known)
            known = None
        if known is None:
            known = WatchedGpu(layout=layout, terms=terms, condition=Condition(subject=subject))
            self.watched[subject] = known
            self._take_up(known, (subject,))
        new = [part for part in layout.parts.values() if part not in known.condition.subjects]
        self._retire_parts(known.condition, layout.parts)
        known.condition = laid_out(known.condition, layout.parts)
        self._take_up(known, new)
        changed = swapped or known.layout != layout
        known.layout, known.terms = layout, terms
        return changed

    def _take_up(self, one: WatchedGpu, subjects: Sequence[str]) -> None:
        """What another life, or another layout, left against them is theirs again."""
        standing = {each: self._reports.standing(each, SOURCE) for each in subjects}
        one.condition = taken_up(one.condition, standing, now_s=trio.current_time())

    def _drop_history(self, subject: str, layout: Layout, known: WatchedGpu | None) -> None:
        """Another card is there: what was found was the old one's."""
        parts = known.condition.parts.values() if known is not None else ()
        for each in (subject, *parts, *layout.parts.values()):
            self._reports.retire(each, SOURCE)

    def _retire_parts(self, condition: Condition, parts: Mapping[tuple[int, int], str]) -> None:
        for part in set(condition.parts.values()) - set(parts.values()):
            self._reports.retire(part, SOURCE)

    def _keep_cleared(self, one: WatchedGpu) -> None:
        """Heed what a person has cleared: all that is known was told, so that alone is missing."""
        subjects = one.condition.subjects
        standing = {each: self._reports.standing(each, SOURCE) for each in subjects}
        one.condition = let_stand(one.condition, standing)

    def _tell(self, one: WatchedGpu) -> None:
        now_s = trio.current_time()
        for subject in one.condition.subjects:
            found = one.condition.against(subject, now_s)
            self._reports.report(subject, SOURCE, found, asked=False)


def _said(condition: Condition) -> tuple[object, ...]:
    """All that findings come from."""
    return (
        condition.parts,
        condition.ailments,
        condition.told,
        condition.plight,
        condition.gone,
    )


def _is_another(known: Layout, layout: Layout) -> bool:
    return bool(known.uuid and layout.uuid) and known.uuid != layout.uuid


def _figures(condition: Condition) -> GpuFigures:
    pending = any(finding.code == "remap-pending" for finding in condition.told)
    return GpuFigures(action=condition.action, remap_pending=pending)
