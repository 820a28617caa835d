"""The one verdict on a device, which every reader is told alike.

Source: gpu-and-health.md §6.1, §6.5.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import attrs

from berth.health.finding import Severity


class Status(Enum):
    """Whether a device is well."""

    HEALTHY = "healthy"
    """Asked lately, and nothing worse than `Severity.DEGRADED` speaks against it."""
    UNHEALTHY = "unhealthy"
    """A fault, or asked and no answer in time."""
    UNKNOWN = "unknown"
    """Nobody could ask lately, or nobody has asked yet."""


@attrs.frozen(kw_only=True)
class Verdict:
    """How a device is, folded from all that speaks against it.

    Attributes:
        severity: Of the worst cause; ``None`` where nothing speaks against it.
        reason: Code of the worst cause, the oldest of equals; empty where there is none.
        message: For a person: what, since when, what to do; at most 500 bytes.
        causes: How many there are.
        observed_s: When it was last confirmed, in seconds since 1970; 0 if never.
        timeout_s: How long after that it holds: health reports carry it.
    """

    status: Status
    severity: Severity | None = None
    reason: str = ""
    message: str = ""
    causes: int = 0
    observed_s: int = 0
    timeout_s: int = 30

    @property
    def is_degraded(self) -> bool:
        """Pods get it, and a person should know what speaks against it."""
        return self.status is Status.HEALTHY and self.severity is not None


UNASKED = Verdict(status=Status.UNKNOWN, reason="unasked", message="nobody has asked it yet")
"""On what nobody has looked at."""


@attrs.frozen(kw_only=True)
class HealthState:
    """How every device of the node is.

    Attributes:
        verdicts: By slice name.
    """

    verdicts: Mapping[str, Verdict] = attrs.field(factory=dict)

    def of(self, name: str) -> Verdict:
        """The verdict on the device of that slice name."""
        return self.verdicts.get(name, UNASKED)
