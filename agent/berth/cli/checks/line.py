"""What a check says, and how bad it is."""

from __future__ import annotations

from enum import Enum

import attrs


class Level(Enum):
    """How bad it is."""

    OK = "ok"
    NOTE = "note"
    """Worth knowing; nothing has to be done."""
    WARNING = "warning"
    """It works, and not as somebody may think."""
    FAULT = "fault"
    """Pods will not get their devices."""


@attrs.frozen(kw_only=True)
class Line:
    """One thing that was looked at.

    Attributes:
        topic: What it belongs to: ``kubelet``, ``NRI``.
        text: What was found, with the file and key where there is one.
        mend: How to put it right; empty where nothing has to be.
    """

    topic: str
    level: Level
    text: str
    mend: str = ""
