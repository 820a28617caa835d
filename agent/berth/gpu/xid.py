"""What an XID comes to: its class, whom it concerns, and what is found by it.

The lists of codes are settings. What is in none of them is settled by asking the GPU which recovery
it needs; where it cannot be asked the code counts as a fault, but for the one that some stacks tell
of again and again without harm.

Source: gpu-and-health.md §6.3; the words for codes after the vendor's XID catalogue.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from berth.config.xid import XidClass
from berth.health.finding import Finding, Severity

FALLEN_OFF: Final = 79
"""The GPU has fallen off the bus."""

_HARMLESS_MAYBE: Final = 109
# Context switch timeout: a reset case in some stacks, an everyday one in others.

_WORDS: Final[Mapping[int, str]] = {
    32: "bad push buffer",
    46: "the GPU stopped processing",
    48: "double-bit ECC error",
    62: "micro-controller halted",
    63: "a memory row is remapped",
    64: "a memory row could not be remapped",
    74: "NVLink error",
    FALLEN_OFF: "the GPU has fallen off the bus",
    92: "many single-bit ECC errors",
    95: "uncontained memory error",
    _HARMLESS_MAYBE: "context switch timeout",
    110: "security fault",
    119: "GSP does not answer",
    120: "GSP error",
    140: "unrecovered ECC error",
    143: "the GPU could not be initialised",
}


def class_unasked(code: int) -> XidClass:
    """What a code to confirm counts as when the GPU cannot be asked."""
    return XidClass.APPLICATION if code == _HARMLESS_MAYBE else XidClass.FAULT


def xid_finding(code: int, xid_class: XidClass) -> Finding | None:
    """What a code speaks against a device; ``None`` for what says nothing of it."""
    words = f" ({_WORDS[code]})" if code in _WORDS else ""
    told = f"the driver reported XID {code}{words}"
    if xid_class is XidClass.DEGRADED:
        return Finding(
            code=f"xid-{code}",
            severity=Severity.DEGRADED,
            message=f"{told}; work goes on: reset the GPU when it is free",
        )
    if xid_class is XidClass.FAULT:
        return Finding(
            code=f"xid-{code}",
            severity=Severity.LOST if code == FALLEN_OFF else Severity.FAULT,
            message=f"{told}; see `journalctl -k --grep Xid`. It heals by itself once the driver "
            "asks for no recovery; where the driver cannot say so, reset the GPU and bind its "
            "driver anew, boot, or `berth health clear`",
        )
    return None


def subjects_of(
    gi: int | None, ci: int | None, *, whole: str, parts: Mapping[tuple[int, int], str]
) -> tuple[str, ...]:
    """Whom an event concerns.

    Args:
        gi: Id of the GPU instance; ``None`` when the event is tied to none.
        ci: Id of the compute instance; the same.
        whole: The GPU.
        parts: What it is divided into, by these ids.

    Returns:
        The part, all parts of the GPU instance when only that is told, or the whole GPU: also when
        nobody knows the instance, since one of those that are there may be meant.
    """
    if gi is None:
        return (whole,)
    found = [part for (a_gi, a_ci), part in parts.items() if a_gi == gi and ci in {None, a_ci}]
    return tuple(found) or (whole,)
