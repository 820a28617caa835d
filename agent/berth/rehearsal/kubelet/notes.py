"""What kubelet tells of itself while it works."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TypeAlias

import attrs


class Act(Enum):
    """What kubelet did, or what happened to it."""

    REGISTERED = "registered"
    REFUSED = "registration failed"
    UNREGISTERED = "unregistered"
    CONNECTED = "connected"
    LOST = "connection lost"
    WIPED = "slices deleted"
    WIPE_FAILED = "slices not deleted"
    PREPARED = "prepared"
    UNPREPARED = "unprepared"
    CALL_FAILED = "call failed"
    HEALTH_TOLD = "health told"
    HEALTH_ENDED = "health stream ended"
    LISTED = "listed"
    ADMITTED = "admitted"
    NOT_ADMITTED = "not admitted"


@attrs.frozen(kw_only=True)
class Note:
    """One thing that was done.

    Attributes:
        subject: A driver's, resource's or pod's name, a socket's path, or empty for the node.
        detail: More about it; the reason of a failure.
    """

    act: Act
    subject: str
    detail: str = ""


Report: TypeAlias = "Callable[[Note], None]"
"""Is told at once; must not block or raise."""
