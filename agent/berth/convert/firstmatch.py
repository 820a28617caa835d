"""First match: what an earlier selector took is not a later one's.

The plugin goes through its list in order and gives each NIC to the first selector that it meets.
Groups of ours have no such order, and a NIC that two of them fit is offered to nobody. So each
group excepts the earlier ones that might fit the same NIC; where conditions tell two apart by
themselves it need not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from berth.config.match import PfPattern
from berth.convert.draft import Draft, Line, Value
from berth.model.names import is_pci_address

_EXACT: Final = {"match.pci", "match.name"}
# Conditions whose items each stand for one NIC.


def in_order(drafts: Iterable[Draft], *, why: str) -> tuple[Draft, ...]:
    """The drafts, each with a line that leaves to earlier ones what they may fit too.

    Args:
        why: What the line comes from, for its comment.
    """
    found: list[Draft] = []
    for draft in drafts:
        conditions = draft.conditions
        before = tuple(each.name for each in found if not apart(each.conditions, conditions))
        found.append(draft.excepting(Line(value=before, origin=why)) if before else draft)
    return tuple(found)


def apart(one: Mapping[str, Value], other: Mapping[str, Value]) -> bool:
    """Whether no NIC meets both conditions, as far as they themselves tell.

    A NIC that both name exactly is taken for one that both want, whatever else is asked of it, as
    our own file is judged (`berth.config.overlap`).
    """
    both = one.keys() & other.keys()
    differing = {key for key in both if _differ(one[key], other[key])}
    return bool(differing) and differing >= both & _EXACT


def _differ(one: Value, other: Value) -> bool:
    if not isinstance(one, tuple) or not isinstance(other, tuple):
        return False
    mine, theirs = _by_pf(one), _by_pf(other)
    if not mine or not theirs:
        return set(one).isdisjoint(other)
    # Of a name and an address nobody can tell whether they are one function's.
    alike = is_pci_address(next(iter(mine))) == is_pci_address(next(iter(theirs)))
    return alike and not any(mine[pf].meets(theirs[pf]) for pf in mine if pf in theirs)


def _by_pf(items: Sequence[object]) -> Mapping[str, PfPattern]:
    """VFs by their PF, which no list names twice, nor one by its name and another by its place."""
    return {item.pf: item for item in items if isinstance(item, PfPattern)}
