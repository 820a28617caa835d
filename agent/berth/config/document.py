"""Bytes to a TOML document, or to an error that says where the first mistake in the notation is.

The reader of the standard library tells a mistake in its own words and stops there; the place is
taken out of them, and quotes that are missing are named, since that is the mistake most made.
"""

from __future__ import annotations

import codecs
import re
import sys
from collections.abc import Mapping
from typing import Any, Final

from berth.config.secrets import looks_secret
from berth.errors import ConfigError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DEPTH_LIMIT: Final = 32
"""Deepest nesting of tables and lists; nothing here needs more than seven levels."""


def decoded(where: str, data: bytes) -> str:
    """The text of a file.

    Raises:
        ConfigError: It is not UTF-8; names line and column.
    """
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise ConfigError(f"{where}:1:1", "the file is UTF-16", rule="it must be plain UTF-8")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        before = data[: error.start].decode()
        found = f"byte 0x{data[error.start]:02x} is not UTF-8"
        rule = "the file must be plain UTF-8"
        raise ConfigError(_position(where, before), found, rule=rule) from error


def parse(text: str) -> dict[str, Any]:
    """Read TOML, with the library that this Python has for it.

    Raises:
        tomllib.TOMLDecodeError: The text is not TOML.
    """
    return tomllib.loads(text)


def parsed(where: str, text: str) -> dict[str, Any]:
    """The document that a text holds.

    Args:
        where: The file, for messages.

    Raises:
        ConfigError: It is not TOML, or nested too deeply.
    """
    deep = ConfigError(where, "is nested too deeply", rule=f"at most {DEPTH_LIMIT} levels")
    try:
        document = parse(text)
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error(where, text, str(error)) from error
    except RecursionError as error:
        raise deep from error
    if _depth(document) > DEPTH_LIMIT:
        raise deep
    return document


def _depth(document: Mapping[str, Any]) -> int:
    """How deeply tables and lists are nested; counted level by level, as deep as may be."""
    depth = 0
    level: list[Any] = [document]
    while level:
        depth += 1
        inside = [each.values() if isinstance(each, Mapping) else each for each in level]
        level = [item for items in inside for item in items if isinstance(item, Mapping | list)]
    return depth


def _syntax_error(where: str, text: str, message: str) -> ConfigError:
    """The reader's message with its place taken out and put in front."""
    found = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", message)
    reason = message[: found.start()] if found else message
    mend = "it was given before; join the two" if reason.startswith("Cannot ") else ""
    if found and found[1]:
        line, column = int(found[1]), int(found[2])
        mend = mend or _quoting_hint(text.split("\n")[line - 1], column)
        where = f"{where}:{line}:{column}"
    elif found:
        where = _position(where, text)
    return ConfigError(where, f"not TOML: {reason}", mend=mend)


def _quoting_hint(line: str, column: int) -> str:
    """What to write when the fault is a bare word where a value should stand."""
    for word in re.finditer(r"(?<=[=,\[\s])[\w.:/*-]+", line):
        key, equals, between = line[: word.start()].partition("=")
        bare = equals and not any(between.count(quote) % 2 for quote in "\"'")
        letters = re.search(r"[A-Za-z]|^0\d", word[0])
        here = word.start() < column <= word.end() + 1
        if here and bare and letters and not looks_secret(key.strip(), word[0]):
            return _as_written(word[0])
    return ""


def _as_written(word: str) -> str:
    if word.lower() in {"true", "false"}:
        return f"write {word.lower()}"
    return f'text stands in quotes: write "{word}"'


def _position(where: str, before: str) -> str:
    """The place just after a text: file, line and column."""
    line = before.count("\n") + 1
    return f"{where}:{line}:{len(before) - before.rfind(chr(10))}"
