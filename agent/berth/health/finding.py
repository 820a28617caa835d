"""What speaks against a device.

Source: gpu-and-health.md §6.1.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import attrs

CODE_LIMIT: Final = 63
"""Most bytes of a code: it is the value of a taint, which is a label value."""

MESSAGE_LIMIT: Final = 500
"""Most bytes of a message."""

OPERATOR: Final = "operator"
"""Source of what a person said by ``berth health set``."""


class Severity(IntEnum):
    """How bad it is; a greater one is worse."""

    DEGRADED = 1
    """It works, and a person should know of it: pods still get the device."""
    FAULT = 2
    """Pods do not get it until it heals."""
    LOST = 3
    """It is not there any more, as far as anybody can see."""


@attrs.frozen(kw_only=True)
class Finding:
    """One thing that a source has to say against a device.

    Attributes:
        code: Lower-case words with ``-``, at most `CODE_LIMIT` bytes: ``xid-79``, ``no-answer``.
        message: What was found and what to do about it, for a person; not since when.
        permanent: A new boot does not heal it.
    """

    code: str
    severity: Severity
    message: str
    permanent: bool = False


def wholes(subject: str) -> tuple[str, ...]:
    """What a device is a part of, the nearest first.

    Identities nest: that of a MIG part, or of a port of a PCI function, begins with that of the
    whole and a slash. What speaks against a whole speaks against its parts.
    """
    parts = subject.split("/")
    return tuple("/".join(parts[:end]) for end in range(len(parts) - 1, 0, -1))


def cut(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """The beginning of a text, in at most so many bytes."""
    return text.encode(errors="replace")[:limit].decode(errors="ignore")
