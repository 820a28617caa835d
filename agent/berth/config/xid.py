"""``[health.xid]``: what each number that the NVIDIA driver gives a fault (XID) says of the GPU.

Contract: GH §6.3, whose lists follow the vendor's public catalogue for Ampere and newer.
"""

from __future__ import annotations

from enum import Enum
from itertools import combinations
from typing import Final

import attrs

from berth.config.decode import Written, key
from berth.config.finding import Cursor
from berth.config.forms import Several, Whole

CODE_LIMIT: Final = 65535
"""Greatest XID that is taken; the catalogue ends far below."""


class XidClass(Enum):
    """What an XID says of the GPU; the values are the keys of the table, less `CONFIRM`."""

    IGNORE = "ignore"
    """Nothing; it is counted only."""
    DEGRADED = "degraded"
    """It works, and a person should know of it."""
    FAULT = "fault"
    """Pods do not get it until it heals."""
    APPLICATION = "application"
    """The job failed, not the GPU."""
    CONFIRM = "confirm"
    """In no list: the driver is asked whether the GPU needs recovery."""


def _codes(*spans: int | tuple[int, int]) -> tuple[int, ...]:
    """Codes, and spans of them with both ends."""
    pairs = [(span, span) if isinstance(span, int) else span for span in spans]
    return tuple(code for first, last in pairs for code in range(first, last + 1))


APPLICATION: Final = _codes(
    *(8, 11, 13, 14, 25, 31, (37, 41), (43, 45), 60, (66, 72), (75, 77), 80, (82, 86), 88, 89),
    *(93, 94, (96, 108), 121, (126, 135), 137, 139, 141, 152, 153, (160, 165)),
)
DEGRADED: Final = (63, 92, 157)
"""Row remapped, many single-bit errors, and 157."""
FAULT: Final = (46, 48, 62, 64, 79, 95, 110, 119, 120, 136, 140, 143, 158)

_LIST: Final = Several(item=Whole(least=0, most=CODE_LIMIT))


@attrs.frozen(kw_only=True)
class XidTable:
    """[health.xid]: what XIDs mean. A code in no list is confirmed by asking the driver.

    A list that is given takes its codes out of the lists that are not.
    """

    ignore: tuple[int, ...] = key(_LIST, (), "XIDs that are counted only.")
    degraded: tuple[int, ...] = key(
        _LIST, DEGRADED, "XIDs after which pods still get the GPU, with a word of what was seen."
    )
    fault: tuple[int, ...] = key(
        _LIST, FAULT, "XIDs after which pods get the GPU only when it has healed."
    )
    application: tuple[int, ...] = key(
        _LIST,
        APPLICATION,
        "XIDs that tell of a fault of the job, not of the GPU. "
        "A code in none of the four lists has the driver asked whether the GPU needs recovery.",
    )

    def check(self, cursor: Cursor, written: Written) -> None:
        """No code stands in two of the lists that are given."""
        given = [each for each in _LISTED if each.value in written.given - written.at_fault]
        for one, other in combinations(given, 2):
            for code in sorted({*self._list(one)} & {*self._list(other)}):
                cursor.at(other.value).say(
                    f"holds {code}, which {one.value} holds as well",
                    rule="an XID has one meaning",
                    mend="drop one of the two",
                )

    def class_of(self, code: int) -> XidClass:
        """What an XID says; a list that was changed is asked before those that were not."""
        for each in sorted(_LISTED, key=self._is_default):
            if code in self._list(each):
                return each
        return XidClass.CONFIRM

    def _list(self, each: XidClass) -> tuple[int, ...]:
        codes: tuple[int, ...] = getattr(self, each.value)
        return codes

    def _is_default(self, each: XidClass) -> bool:
        default: object = getattr(attrs.fields(XidTable), each.value).default
        return self._list(each) == default


_LISTED: Final = tuple(each for each in XidClass if each is not XidClass.CONFIRM)
