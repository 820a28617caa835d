"""Programs of the operator's, as a table names them: an absolute path and its arguments.

No shell reads them. Source: gpu-and-health.md §6.2.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from berth.config.finding import Cursor
from berth.config.forms import Several, Text
from berth.config.template import Places, Template

WORDS_LIMIT: Final = 64
"""Most words of a command."""


def command_form(words: Collection[str], *, wildcards: bool = True) -> Several[Template]:
    """The form of a command.

    Args:
        words: Places that its arguments may have beside wildcards.
        wildcards: Whether they may have these.
    """
    item = Places(text=Text(what="text", parse=_word), words=words, wildcards=wildcards)
    return Several(item=item, most=WORDS_LIMIT, repeats=True)


def check_program(command: Sequence[Template], cursor: Cursor, *, example: str) -> None:
    """Refuse a command that does not begin with one file.

    Args:
        cursor: Of the key.
        example: How such a command is written.
    """
    program = command[0]
    if program.places or _program(program.text) is None:
        cursor.say(
            f"begins with {program.text!r}",
            rule="first stands the absolute path of a program, the same for all devices",
            mend=f"write it as {example}",
        )


def _program(text: str) -> str | None:
    parts = text.split("/")
    clean = len(parts) > 1 and parts[0] == "" and {"", ".", ".."}.isdisjoint(parts[1:])
    return text if clean and text.isprintable() and len(text.encode()) < 4096 else None


def _word(text: str) -> str | None:
    return text if "\0" not in text and len(text.encode()) <= 4096 else None
