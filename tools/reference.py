"""Write docs/reference/configuration.md from the tables and keys that the agent reads.

Usage: python -m tools.reference [--check]
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Final

from berth.config.decode import Key, Table, Tables, keys_of
from berth.config.document import parse
from berth.config.finding import Cursor, toml_text
from berth.config.schema import Config
from tools.page import FOLDER, make

PAGE: Final = FOLDER / "configuration.md"

INTRODUCTION = """\
The agent reads one TOML file, `/etc/berth/agent.toml`.
Every key has a default, so an empty file is valid.
A key that stands nowhere here is a fault, and so is a secret in the file.
`berth check` tells all faults of a file at once, each with its line, and what would be right.
A list may be written as one value without brackets when it has one item.
"""

HEAD = f"""\
<!-- Made by tools/reference.py (make docs) from agent/berth/config; edit the meaning there. -->

# Configuration

{INTRODUCTION}
`configs/agent.toml` holds the same keys, to copy lines from.
The package brings it as `/usr/share/doc/berthd/agent.toml`, and this page as `man agent.toml`.
"""


def page() -> str:
    """The whole page."""
    return HEAD + "".join(_tables(Config, ()))


def _tables(kind: type[Any], above: tuple[str, ...]) -> Iterator[str]:
    """The sections of the tables inside a table class, each followed by those inside it."""
    for key in keys_of(kind):
        if isinstance(key.form, Table | Tables):
            path = (*above, key.name)
            yield f"\n{_heading(path, key)}\n\n{_sentences(key.meaning)}\n"
            yield from _rows(key.form.kind)
            yield from _tables(key.form.kind, path)


def _heading(path: tuple[str, ...], key: Key) -> str:
    name = ".".join(path)
    header = f"[[{name}]]" if isinstance(key.form, Tables) else f"[{name}]"
    return f"{'#' * (len(path) + 1)} `{header}`"


def _sentences(text: str) -> str:
    """One sentence on each line."""
    return text.replace(". ", ".\n")


def _rows(kind: type[Any]) -> Iterator[str]:
    keys = [key for key in keys_of(kind) if not isinstance(key.form, Table | Tables)]
    if keys:
        yield "\n| key | type | default | unit | meaning |\n| --- | --- | --- | --- | --- |\n"
    for key in keys:
        cells = (f"`{key.name}`", key.form.label, default_of(key), key.unit, key.meaning)
        escaped = (cell.replace("|", r"\|") for cell in cells)
        yield f"| {' | '.join(escaped)} |\n"


def default_of(key: Key) -> str:
    """The default as it may be written; there are keys whose absence has no notation."""
    if key.required:
        return "required"
    text = toml_text(key.default)
    cursor = Cursor()
    key.form.read(parse(f"key = {text}")["key"], cursor)
    return "not given" if cursor.findings else f"`{text}`"


if __name__ == "__main__":
    sys.exit(make(PAGE, page, sys.argv[1:]))
