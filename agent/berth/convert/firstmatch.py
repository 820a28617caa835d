"""First match: what an earlier selector took is not a later one's.

The plugin goes through its list in order and gives each NIC to the first selector that it meets.
Groups of ours have no such order, and a NIC that two of them fit is offered to nobody. So each
group excepts the earlier ones that might fit the same NIC; where conditions tell two apart by
themselves it need not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from berth.config.match import PfPattern
from berth.convert.draft import Draft, Line
from berth.model.names import is_pci_address

_Reach: TypeAlias = Mapping[str, Mapping[object, object]]
"""Lists of alternatives, by key; VFs stand under their PF, which no list names twice."""

_EXACT: Final = {"match.pci", "match.name"}
# Conditions whose items each stand for one NIC.


def in_order(drafts: Iterable[Draft], *, why: str) -> tuple[Draft, ...]:
    """The drafts, each with a line that leaves to earlier ones what they may fit too.

    Args:
        why: What the line comes from, for its comment.
    """
    found: list[Draft] = []
    reaches: list[_Reach] = []
    for draft in drafts:
        reach = _reach(draft)
        before = [
            one.name for one, its in zip(found, reaches, strict=True) if not apart(its, reach)
        ]
        line = Line(value=tuple(before), origin=why)
        found.append(draft.excepting(line) if before else draft)
        reaches.append(reach)
    return tuple(found)


def apart(one: _Reach, other: _Reach) -> bool:
    """Whether no NIC meets both conditions, as far as they themselves tell.

    A NIC that both name exactly is taken for one that both want, whatever else is asked of it, as
    our own file is judged (`berth.config.overlap`).
    """
    both = one.keys() & other.keys()
    differing = {key for key in both if _differ(one[key], other[key])}
    return bool(differing) and differing >= both & _EXACT


def _reach(draft: Draft) -> _Reach:
    return {
        key: {item.pf if isinstance(item, PfPattern) else item: item for item in value}
        for key, value in draft.conditions.items()
        if isinstance(value, tuple)
    }


def _differ(one: Mapping[object, object], other: Mapping[object, object]) -> bool:
    # Of the name of a PF and an address nobody can tell whether they are one function's.
    if _by_address(one) != _by_address(other):
        return False
    return not any(_clash(one[key], other[key]) for key in one.keys() & other.keys())


def _by_address(items: Mapping[object, object]) -> bool:
    """Whether PFs are named by their addresses; no list has both."""
    return any(isinstance(key, str) and is_pci_address(key) for key in [*items][:1])


def _clash(mine: object, theirs: object) -> bool:
    if isinstance(mine, PfPattern) and isinstance(theirs, PfPattern):
        return mine.meets(theirs)
    return mine == theirs
