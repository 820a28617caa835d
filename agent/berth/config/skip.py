"""Which of kubelet's calls a group lets be left out.

Source: KC §8 (KEP-5945).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from berth.config.decode import Written
from berth.config.doors import Door
from berth.config.finding import Cursor
from berth.config.forms import Choice, OnlyDefault

_KEYS: Final = frozenset({"door", "skip_node_operations"})
_HANDED_OUT: Final = (
    "nodes",
    "rename",
    "permissions",
    "mounts",
    "env",
    "inject",
    "admin_permissions",
)
# What says how a device comes into its containers.


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
    """The form where something is done at each call for a claim, whatever a group says.

    Args:
        reason: What prepare does, and what unprepare.
    """
    return OnlyDefault(
        Choice(kind=Skip),
        Skip.NONE,
        reason=reason,
        mend='drop it; [[generic]] groups may have "unprepare" or "all"',
    )


def check_skip(skip: Skip, door: Door, cursor: Cursor, written: Written) -> None:
    """What of a group needs a call that is left out."""
    if skip is Skip.NONE or written.at_fault & _KEYS:
        return
    if door is Door.PLUGIN:
        cursor.at("skip_node_operations").warn('is not used with door "plugin"')
    if skip is not Skip.ALL:
        return
    for name in _HANDED_OUT:
        if name in written.given:
            cursor.at(name).say(
                'is given with skip_node_operations "all"',
                rule="a container gets nothing of a device that no call prepares",
                mend='drop it, or write skip_node_operations = "unprepare"',
            )
    if door is Door.BOTH:
        cursor.at("door").say(
            'is "both" with skip_node_operations "all"',
            rule="only at prepare is it found out that both doors gave a device at once",
            mend='write door = "dra"',
        )
