"""What sources of evidence tell the one who judges, and what it asks of them.

A subject is the identity of a device, or of what devices are parts of (`finding.wholes`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from berth.health.finding import Finding


class Reports(Protocol):
    """Takes what sources have seen. No method blocks; all are called in the trio thread."""

    def report(
        self, subject: str, source: str, findings: Iterable[Finding], *, asked: bool = True
    ) -> None:
        """These are all the findings that a source has against a subject now.

        What it named before and does not name now begins to heal. A finding stays as old as its
        code; another message of it counts as a change.

        Args:
            source: A word for whoever looks, such as ``nvml``; each has its own findings.
            asked: The subject was asked just now and has answered, or has failed to in time: this
                is what keeps a verdict from expiring. An event alone is no answer.
        """
        ...

    def expect(self, subject: str, source: str) -> None:
        """The source is going to ask the subject; until it has, nobody knows how the subject is."""
        ...

    def unasked(self, subject: str, source: str, why: str) -> None:
        """The source could not ask, by no fault of the subject; what it found before stands.

        Nobody knows how the subject is then, until the source has asked it again or retires it.
        """
        ...

    def retire(self, subject: str, source: str) -> None:
        """The source watches the subject no more, and its findings are void."""
        ...

    def standing(self, subject: str, source: str) -> tuple[Finding, ...]:
        """What the source has against the subject by now, healing or not, another life's too.

        A source whose findings heal by its own rules takes them up again from here.
        """
        ...


class Prober(Protocol):
    """A source that can be asked to look at once."""

    async def probe_now(self, subject: str) -> None:
        """Ask the subject, and return when it was reported; at once where it is not watched."""
        ...
