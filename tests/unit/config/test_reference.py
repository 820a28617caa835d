"""The reference page says what the schema says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from berth.config.decode import Key, Table, Tables, keys_of
from berth.config.schema import Config
from tools.reference import PAGE, page


def all_keys(kind: type[Any]) -> Iterator[Key]:
    """The keys of a table and of those inside it."""
    for key in keys_of(kind):
        yield key
        if isinstance(key.form, Table | Tables):
            yield from all_keys(key.form.kind)


def test_page_is_up_to_date() -> None:
    """``make docs`` was run after the last change of the schema."""

    assert page() == PAGE.read_text(encoding="utf-8")


def test_page_tells_every_key() -> None:
    """Each key has its row, each table its heading."""
    rows = page()

    for key in all_keys(Config):
        table = isinstance(key.form, Table | Tables)
        assert (f"{key.name}]" if table else f"| `{key.name}` |") in rows


def test_every_meaning_is_a_sentence() -> None:
    """It begins like one or with a word of the configuration, and ends with a full stop."""
    for key in all_keys(Config):
        assert key.meaning[-1] == "."
        assert key.meaning[0].isupper() or key.meaning[0] == "`"
