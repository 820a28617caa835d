"""Keeps what sources of evidence report, with its time, for tests of sources."""

from __future__ import annotations

from collections.abc import Iterable

import attrs
import trio

from berth.health.finding import Finding


@attrs.frozen(kw_only=True)
class Told:
    """One report.

    Attributes:
        codes: Of its findings, in order; the word ``unasked`` or ``retired`` for the other two.
    """

    at_s: float
    subject: str
    codes: tuple[str, ...]
    message: str = ""
    asked: bool = True


class Reported:
    """`Reports` that are only kept.

    Attributes:
        healing: What is named no more and stands still, of every subject.
        expected: Subjects that a source was going to ask, and the source.
    """

    def __init__(self) -> None:
        self.healing: tuple[Finding, ...] = ()
        self.told: list[Told] = []
        self.expected: list[tuple[str, str]] = []
        self.findings: dict[tuple[str, str], tuple[Finding, ...]] = {}

    def report(
        self, subject: str, source: str, findings: Iterable[Finding], *, asked: bool = True
    ) -> None:
        """Keep it."""
        found = tuple(findings)
        self.findings[subject, source] = found
        self._keep(
            subject,
            tuple(each.code for each in found),
            message=found[-1].message if found else "",
            asked=asked,
        )

    def expect(self, subject: str, source: str) -> None:
        """Keep it."""
        self.expected.append((subject, source))

    def unasked(self, subject: str, source: str, why: str) -> None:  # noqa: ARG002 - as given
        """Keep it."""
        self._keep(subject, ("unasked",), message=why, asked=False)

    def retire(self, subject: str, source: str) -> None:
        """Keep it."""
        self.findings.pop((subject, source), None)
        self._keep(subject, ("retired",), asked=False)

    def standing(self, subject: str, source: str) -> tuple[Finding, ...]:
        """What was reported last, and what heals."""
        return (*self.findings.get((subject, source), ()), *self.healing)

    def of(self, subject: str) -> list[Told]:
        """All that was told of one subject."""
        return [each for each in self.told if each.subject == subject]

    def _keep(
        self, subject: str, codes: tuple[str, ...], *, message: str = "", asked: bool
    ) -> None:
        now_s = trio.current_time()
        told = Told(at_s=now_s, subject=subject, codes=codes, message=message, asked=asked)
        self.told.append(told)
