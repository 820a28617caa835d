"""Texts with places: what they may name, and how they are filled."""

from __future__ import annotations

from berth.config.forms import Text
from berth.config.template import Places, Template
from tests.unit.config.reading import read_value

FORM = Places(text=Text(what="text", parse=lambda text: text), words=("node", "index"))


def test_places_are_filled() -> None:
    """Each place gets its value, as often as it stands there."""
    template = Template("{1}-{node}-{1}")

    assert template.filled({"1": "a", "node": "b"}) == "a-b-a"
    assert (template.places, template.wildcards) == (("1", "node"), 1)


def test_other_braces_stand_for_themselves() -> None:
    """A value may hold JSON, and what is filled in is not filled again."""
    template = Template('{"card": {1}, "none": {}}')

    assert template.filled({"1": "{node}"}) == '{"card": {node}, "none": {}}'


def test_unknown_place_is_refused_with_those_that_are_known() -> None:
    """A name that means nothing here, a wildcard of two digits, and zero."""
    known = "what is filled in here is {node}, {index} and {1} to {9}"
    said = [f"holds {{{place}}}: {known}" for place in ("nod", "12", "0")]

    assert read_value(FORM, "{nod}{12}{0}") == (None, said)


def test_label_names_what_is_filled_in() -> None:
    """As the reference page shows it."""

    assert FORM.label == "text; {node}, {index} and {1} … are filled in"
