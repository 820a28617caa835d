"""Records with fields for the journal: one line, a sentence, then ``key=value`` pairs.

A thin layer over the standard library's logging: handlers, levels and capture in tests work as
everywhere. Lines go to stderr; when that is the journal, each carries its priority as ``<6>``.

Source: systemd ``sd-daemon(3)`` (priority prefixes), ``systemd.exec(5)`` (``JOURNAL_STREAM``).
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
import sys
from collections.abc import Mapping
from typing import Final, TextIO

VALUE_LIMIT: Final = 512
"""Longest value that is written, in characters; the rest is cut and marked."""

_FIELDS: Final = "berth_fields"
_PLAIN = re.compile(r"[^\s\"'=\\]+")
_PRIORITIES: Final = (
    (logging.CRITICAL, 2),
    (logging.ERROR, 3),
    (logging.WARNING, 4),
    (logging.INFO, 6),
    (logging.NOTSET, 7),
)


class Log:
    """Writes records of one module; made by `get_log`.

    Args:
        logger: The standard library's logger underneath.
    """

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger

    def debug(self, message: str, /, **fields: object) -> None:
        """Write what only a developer wants."""
        self._write(logging.DEBUG, message, fields)

    def info(self, message: str, /, **fields: object) -> None:
        """Write what was done, one line per request or change."""
        self._write(logging.INFO, message, fields)

    def warning(self, message: str, /, **fields: object) -> None:
        """Write what an operator should look at, and what happens next."""
        self._write(logging.WARNING, message, fields)

    def error(self, message: str, /, **fields: object) -> None:
        """Write what failed, and what happens next and when."""
        self._write(logging.ERROR, message, fields)

    def exception(self, message: str, /, **fields: object) -> None:
        """Write what failed, with the traceback of the exception being handled."""
        self._write(logging.ERROR, message, fields, traceback=True)

    def _write(
        self, level: int, message: str, fields: Mapping[str, object], *, traceback: bool = False
    ) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(
                level,
                "%s",
                message,
                exc_info=traceback or None,
                extra={_FIELDS: fields},
                stacklevel=3,
            )


def get_log(name: str) -> Log:
    """Give the log of a module, called with its ``__name__``."""
    return Log(logging.getLogger(name))


def render_value(value: object) -> str:
    """Give a value as it stands after ``key=``: bare when it is one plain word, else quoted.

    Quoted values are JSON strings, so no value can break a line, forge a field or colour a
    terminal. Floats are rounded to three digits, and `VALUE_LIMIT` bounds the length.
    """
    text = f"{value:.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
    if len(text) > VALUE_LIMIT:
        text = f"{text[:VALUE_LIMIT]}…"
    if _PLAIN.fullmatch(text) and text.isprintable():
        return text
    return json.dumps(text).replace("\x7f", "\\u007f")


class JournalFormatter(logging.Formatter):
    """Renders a record as one line, and a traceback as further lines of the same priority.

    Args:
        prefixed: Whether each line begins with its priority, as the journal reads it.
    """

    def __init__(self, *, prefixed: bool) -> None:
        super().__init__()
        self._prefixed = prefixed

    def format(self, record: logging.LogRecord) -> str:
        """Give the text of a record, without a line end."""
        fields: Mapping[str, object] = getattr(record, _FIELDS, {})
        message = record.getMessage()
        if not message.isprintable():
            message = render_value(message)
        words = [message, *(f"{key}={render_value(value)}" for key, value in fields.items())]
        lines = [" ".join(words)]
        if record.exc_info:
            lines += self.formatException(record.exc_info).splitlines()
        if not self._prefixed:
            return "\n".join(lines)
        return "\n".join(f"<{_priority(record.levelno)}>{line}" for line in lines)


def _priority(level: int) -> int:
    return next(priority for least, priority in _PRIORITIES if level >= least)


def start_logging(
    *, level: int = logging.INFO, stream: TextIO | None = None, environ: Mapping[str, str]
) -> None:
    """Send the records of the whole process to one stream; replaces what was set up before.

    Args:
        level: Least level of our own records; other libraries write from WARNING on.
        stream: Where to; None for stderr.
        environ: The environment: ``JOURNAL_STREAM`` says which stream the journal reads.
    """
    stream = sys.stderr if stream is None else stream
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JournalFormatter(prefixed=is_journal(stream, environ)))
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("berth").setLevel(level)


def is_journal(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether the journal reads the stream: ``JOURNAL_STREAM`` names its device and inode."""
    try:
        found = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"


class Repeats:
    """Holds back records that say the same again and again.

    Args:
        period_s: Least time between two records of one key.
        most: Keys that are remembered; beyond it the oldest is forgotten, and so may speak.
    """

    def __init__(self, *, period_s: float, most: int = 256) -> None:
        self._period_s = period_s
        self._most = most
        self._seen: dict[str, tuple[float, int]] = {}

    def count_due(self, key: str, *, now_s: float) -> int | None:
        """Say whether a record of this key may be written now.

        Returns:
            None when it is to be held back, else how many were since the last one written.
        """
        last_s, held = self._seen.get(key, (-math.inf, 0))
        if now_s - last_s < self._period_s:
            self._seen[key] = (last_s, held + 1)
            return None
        self._seen.pop(key, None)
        self._seen[key] = (now_s, 0)
        while len(self._seen) > self._most:
            del self._seen[next(iter(self._seen))]
        return held
