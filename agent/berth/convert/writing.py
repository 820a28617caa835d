"""Drafts to the text of a configuration, every line with a comment on where it comes from."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from typing import Final

from berth.config.finding import toml_text
from berth.convert.draft import Draft, Line
from berth.errors import printable

WIDTH: Final = 100
"""Longest line, in characters, where that can be had."""

_HEAD: Final = """\
# Made by `berth convert` from {source}.
# Behind each line stands where it comes from. Take the old plugin away before this is loaded:
# of two plugins for one resource kubelet keeps the last to register.
"""


def text_of(drafts: Iterable[Draft], *, source: str) -> str:
    """The file's text.

    Args:
        source: What it was made from, in words.
    """
    head = _HEAD.format(source=printable(source))
    return head + "".join(f"\n{_group(draft)}" for draft in drafts)


def _group(draft: Draft) -> str:
    lines = {"name": Line(value=draft.name, origin=draft.origin), **draft.lines}
    written = [(f"{key} = {toml_text(line.value)}", line.origin) for key, line in lines.items()]
    fitting = [len(text) for text, origin in written if len(text) + len(origin) + 3 <= WIDTH]
    column = max(fitting, default=0)
    return "\n".join(
        [
            *(part for remark in draft.remarks for part in _comment(f"Note: {remark}.")),
            "[[nic.group]]",
            *(part for text, origin in written for part in _line(text, origin, column)),
            "",
        ]
    )


def _line(text: str, origin: str, column: int) -> Iterator[str]:
    """A line with its comment behind it, else above it."""
    origin = printable(origin)
    beside = f"{text:{column}}  # {origin}"
    if len(beside) <= WIDTH:
        yield beside
    else:
        yield from _comment(origin)
        yield text


def _comment(text: str) -> list[str]:
    return textwrap.wrap(
        printable(text),
        WIDTH,
        initial_indent="# ",
        subsequent_indent="# ",
        break_long_words=False,
        break_on_hyphens=False,
    )
