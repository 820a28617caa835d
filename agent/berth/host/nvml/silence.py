"""Which GPU is to blame when calls do not come back.

If several devices stop answering at once, it may be one of them that holds up the library. Then the
one whose call is out longest is taken for the cause, and of the others nothing is known, until it
answers or their own calls are out for `PATIENCE` deadlines. When not even a call that concerns no
device comes back, the library as a whole is held up, and that time proves nothing against them.
When another device is asked in that state and answers, nobody holds up the library: each is silent
by itself, and that is said at once.

Source: GH §2.5; that a library-wide lock taints no bystander is T4's, and that the second of two is
told no later than the first, GH §6.6's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final

import attrs

LIBRARY: Final = "library"
"""Key of calls that concern no device."""

INDEX: Final = "index "
"""Begins the key of a GPU that NVML lists under a number and that has not told its address yet."""

PATIENCE: Final = 3

NEVER: Final = float("-inf")


class Silence(Enum):
    """What is said of a GPU that does not answer."""

    NO_ANSWER = "no-answer"
    STALLED = "nvml-stalled"


@attrs.frozen(kw_only=True)
class OpenCall:
    """A call that is out.

    Attributes:
        key: PCI address, `LIBRARY`, or ``index N`` of a GPU whose address is not known yet.
        began_s: When it began, on the clock of ``now_s``.
        deadline_s: How long NVML may leave a step of it without an answer.
        moved_s: When the last step was answered that was not the last one.
    """

    key: str
    purpose: str
    began_s: float
    deadline_s: float
    moved_s: float = NEVER

    @property
    def since_s(self) -> float:
        """Since when an answer is waited for."""
        return max(self.began_s, self.moved_s)

    def overdue(self, now_s: float) -> bool:
        """Whether nobody waits for it any more."""
        return now_s - self.since_s >= self.deadline_s


def overdue(calls: Iterable[OpenCall], now_s: float) -> tuple[OpenCall, ...]:
    """Give the calls on devices that are past their deadline, oldest first."""
    late = (call for call in calls if call.key != LIBRARY and call.overdue(now_s))
    return tuple(sorted(late, key=lambda call: call.since_s))


def silences(
    calls: Iterable[OpenCall], now_s: float, *, proof_s: float = NEVER
) -> Mapping[str, Silence]:
    """Give what is to be said of each device whose call is past its deadline.

    Args:
        proof_s: When the last call began that proved by its return that nobody held up the library.
    """
    calls = tuple(calls)
    held_up = any(call.key == LIBRARY and call.overdue(now_s) for call in calls)

    def is_alone(call: OpenCall) -> bool:
        patient = not held_up and now_s - call.since_s >= PATIENCE * call.deadline_s
        return patient or call.overdue(proof_s)

    return {
        call.key: Silence.NO_ANSWER if place == 0 or is_alone(call) else Silence.STALLED
        for place, call in enumerate(overdue(calls, now_s))
    }


def nameless(silences: Mapping[str, Silence]) -> Silence | None:
    """Give what is to be said of GPUs that NVML lists and that do not even tell who they are.

    One that is known and not listed under its address may be one of them.
    """
    found = {silence for key, silence in silences.items() if key.startswith(INDEX)}
    if not found:
        return None
    return Silence.NO_ANSWER if Silence.NO_ANSWER in found else Silence.STALLED
