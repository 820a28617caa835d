"""What resources of both plugins have alike: a name in a domain, which no two may share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import attrs

from berth.config.decode import ITEMS_LIMIT
from berth.convert.draft import Draft, Line
from berth.convert.findings import Place
from berth.convert.forms import RESOURCE_NAME, RESOURCE_PREFIX

KEYS: Final = ("resourceName", "resourcePrefix")

UNNAMED: Final = "x"
"""What stands for a name that cannot be read; the fault that says so discards it."""


@attrs.frozen
class Names:
    """The names that were read so far, with the places that gave them.

    Attributes:
        prefix: Domain of resources that name none.
    """

    prefix: str
    taken: dict[str, str] = attrs.field(factory=dict)

    def read(self, place: Place, given: Mapping[str, Place]) -> tuple[str, Line]:
        """The name of the resource at a place, which has these members.

        Returns:
            The name without its domain, and the key ``resource`` of its groups.
        """
        if "resourceName" not in given:
            place.say("lacks resourceName", rule="a resource must have a name")
            return UNNAMED, Line(value=UNNAMED, origin=place.path)
        named = given["resourceName"]
        name = named.text(RESOURCE_NAME) or UNNAMED
        domain, said = self.prefix, f", in {self.prefix} by default"
        # An empty one is none, as the programs take it.
        if "resourcePrefix" in given and given["resourcePrefix"].value != "":
            domain = given["resourcePrefix"].text(RESOURCE_PREFIX) or domain
            said = " and .resourcePrefix"
        whole = f"{domain}/{name}"
        if name != UNNAMED and whole in self.taken:
            named.say(f"makes {whole}, as does {self.taken[whole]}", mend="choose another name")
        self.taken.setdefault(whole, named.path)
        return name, Line(value=whole, origin=f"{named.path}{said}")


def counted(drafts: Iterator[Draft], top: Place) -> tuple[Draft, ...]:
    """The drafts, unless there are more than one file of ours takes."""
    found: list[Draft] = []
    for draft in drafts:
        found.append(draft)
        if len(found) > ITEMS_LIMIT:
            top.say("makes too many groups", rule=f"one file takes {ITEMS_LIMIT} of them")
            break
    return tuple(found)
