"""Whether a device that was given to a claim is ready for its pod to be bound.

Source: KC §9.2.
"""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class Answer:
    """What a device, or who was asked about it, says.

    Attributes:
        ready: ``None`` when nobody knows.
        reason: CamelCase word, as a condition's.
        message: For a person.
    """

    ready: bool | None
    reason: str
    message: str = ""


UNASKED = Answer(ready=None, reason="NotAsked", message="it was not asked yet")
"""Of what nobody has asked."""


def ready_type(driver: str) -> str:
    """Type of the condition without which no pod is bound."""
    return f"{driver}/ready"


def failed_type(driver: str) -> str:
    """Type of the condition by which a claim's devices are given up."""
    return f"{driver}/failed"
