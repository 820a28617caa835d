"""Texts with places that each device fills: ``/dev/snd/controlC{1}``.

A place is a word or a number in braces; other braces stand for themselves, so that a value may
hold JSON.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Final

import attrs
from typing_extensions import override

from berth.config.finding import Cursor
from berth.config.forms import Form, Text, listed

WORDS: Final = ("node", "name", "id", "index")
"""Places that are no numbers: the node that matched, the device's name in slices, that name less
the group's, and the device's number in its group."""

_PLACE: Final = re.compile(r"\{([A-Za-z0-9_]+)\}")


@attrs.frozen
class Template:
    """A text with places."""

    text: str

    def __str__(self) -> str:
        return self.text

    @property
    def places(self) -> tuple[str, ...]:
        """Names of its places, each once."""
        return tuple(dict.fromkeys(_PLACE.findall(self.text)))

    @property
    def wildcards(self) -> int:
        """The highest wildcard that it names; 0 for none."""
        return max((int(place) for place in self.places if place.isdigit()), default=0)

    def filled(self, values: Mapping[str, str]) -> str:
        """The text with a value in each place.

        Args:
            values: A value for every place that it has.
        """
        return _PLACE.sub(lambda found: values[found[1]], self.text)


@attrs.frozen(kw_only=True)
class Places(Form[Template]):
    """A text whose places are among those that have a meaning there.

    Attributes:
        text: What it must be as a whole, with its places in it.
        words: Places that it may have beside wildcards.
        wildcards: Whether it may have these.
    """

    text: Text[str]
    words: Collection[str] = ()
    wildcards: bool = True

    @property
    @override
    def label(self) -> str:
        words = (*self.words, *((1,) if self.wildcards else ()))
        places = listed([f"{{{word}}}" for word in words])
        return f"{self.text.what}; {places}{' …' if self.wildcards else ''} are filled in"

    @override
    def read(self, value: object, cursor: Cursor) -> Template | None:
        text = self.text.read(value, cursor)
        if text is None:
            return None
        template = Template(text)
        unknown = [place for place in template.places if not self._is_known(place)]
        for place in unknown:
            numbers = ["{1} to {9}"] if self.wildcards else []
            places = listed([f"{{{word}}}" for word in self.words] + numbers)
            cursor.say(f"holds {{{place}}}", rule=f"what is filled in here is {places}")
        return None if unknown else template

    def _is_known(self, place: str) -> bool:
        numbered = self.wildcards and len(place) == 1 and place in "123456789"
        return place in self.words or numbered


def placed(parse: Callable[[str], str | None]) -> Callable[[str], str | None]:
    """A parser that looks at a text as if something harmless stood in each of its places."""

    def parsed(text: str) -> str | None:
        return text if parse(_PLACE.sub("x", text)) is not None else None

    return parsed
