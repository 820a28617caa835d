"""Which of kubelet's calls a group lets be left out.

Source: KC §8 (KEP-5945).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from berth.config.forms import Choice, OnlyDefault


class Skip(Enum):
    """What kubelet does not ask the daemon for."""

    NONE = "none"
    UNPREPARE = "unprepare"
    ALL = "all"

    @property
    def operations(self) -> tuple[str, ...]:
        """The words of a slice for it."""
        return _OPERATIONS[self]


_OPERATIONS: Final[Mapping[Skip, tuple[str, ...]]] = {
    Skip.NONE: (),
    Skip.UNPREPARE: ("NodeUnprepareResources",),
    # Whatever later versions of kubelet call is left out too.
    Skip.ALL: ("*",),
}


def never(reason: str) -> OnlyDefault[Skip]:
    """The form where something is done for each claim, and why."""
    return OnlyDefault(Choice(kind=Skip), Skip.NONE, mend=f"drop it: {reason}")
