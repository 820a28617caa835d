"""A group of NICs as it will be written: every line with where it came from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

import attrs

from berth.config.match import PciPattern, PfPattern
from berth.model.names import LABEL_LIMIT, slug

Item: TypeAlias = "str | int | PciPattern | PfPattern"
Value: TypeAlias = "str | int | bool | tuple[Item, ...]"
"""What a line may say; patterns are written as text."""

_MATCH: Final = "match."

EXCEPT: Final = "except"

LEAVE_OUT: Final = "take it out of the file to turn the rest"
"""The mend for what cannot be turned."""


@attrs.frozen(kw_only=True)
class Line:
    """One key of a group.

    Attributes:
        origin: Path of what it was made from, or why it stands here.
    """

    value: Value
    origin: str


DOOR: Final = Line(value="plugin", origin="asked for as a resource, as before")
ATTACH: Final = Line(value="cni", origin="a CNI plugin moves it, as before")


@attrs.frozen(kw_only=True)
class Draft:
    """One ``[[nic.group]]``.

    Attributes:
        name: Its name; until that is settled, what it would be called if it could.
        origin: Path of the selector that it was made from.
        lines: By dotted key (``match.vendor``), in the order in which they are written.
        remarks: What will be another way than it was, one sentence each.
    """

    name: str
    origin: str
    lines: Mapping[str, Line]
    remarks: tuple[str, ...] = ()

    @property
    def mode(self) -> Value:
        """How its NICs are handed out."""
        return self.lines["mode"].value

    @property
    def conditions(self) -> Mapping[str, Value]:
        """What a NIC must meet, by key."""
        return {key: line.value for key, line in self.lines.items() if key.startswith(_MATCH)}

    def excepting(self, line: Line) -> Draft:
        """The same with a line about groups that it leaves NICs to, behind its conditions."""
        conditions = {key: line for key, line in self.lines.items() if key.startswith(_MATCH)}
        return attrs.evolve(self, lines=conditions | {EXCEPT: line} | dict(self.lines))


def named(drafts: Iterable[Draft]) -> tuple[Draft, ...]:
    """The drafts under names that a group may have, no two alike."""
    taken: set[str] = set()
    found = []
    for draft in drafts:
        label = slug(draft.name)[:LABEL_LIMIT].rstrip("-")
        name, number = label, 1
        while name in taken:
            number += 1
            tail = f"-{number}"
            name = label[: LABEL_LIMIT - len(tail)].rstrip("-") + tail
        taken.add(name)
        found.append(attrs.evolve(draft, name=name))
    return tuple(found)
