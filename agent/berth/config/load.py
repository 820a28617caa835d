"""The configuration file to a `Config`: the whole file checked, and all its faults told at once.

What only other parts of the program can judge (the ``defaults`` of a group, say) comes in as
further checks, so that its faults stand in the same list, with file and line.
"""

from __future__ import annotations

import codecs
import hashlib
import os
import stat
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import attrs

from berth.config.decode import Table
from berth.config.document import decoded, parsed
from berth.config.finding import Cursor, Finding, Spot, Steps, tell
from berth.config.locate import line_of, scan
from berth.config.schema import Config
from berth.config.secrets import without_secrets
from berth.errors import ConfigError, Faults

CONFIG: Final = Path("/etc/berth/agent.toml")
"""Where the configuration lies unless another file is named."""

SIZE_LIMIT: Final = 1024 * 1024
"""Largest configuration file, in bytes."""

FurtherCheck: TypeAlias = Callable[[Config], Iterable["Finding | ConfigError"]]
"""Looks at a configuration whose keys at fault hold their defaults.

A finding gets its line and its place in the order of the file; an error is told as it is, last.
"""


@attrs.frozen(kw_only=True)
class Report:
    """What was found in a configuration file.

    Attributes:
        config: The configuration; ``None`` if and only if there are faults.
        faults: In the order of the file.
        warnings: What is allowed and still worth a word, one sentence each.
        digest: The beginning of the SHA-256 of the file; empty when it could not be read.
    """

    path: Path
    config: Config | None
    faults: tuple[ConfigError, ...] = ()
    warnings: tuple[str, ...] = ()
    digest: str = ""


def load(path: Path, *, also: Iterable[FurtherCheck] = ()) -> Config:
    """Read the configuration. Blocks on the disk.

    Raises:
        Faults: Anything is wrong with the file; all of it is told.
    """
    report = check(path, also=also)
    if report.config is None:
        raise Faults(str(path), report.faults)
    return report.config


def check(path: Path, *, also: Iterable[FurtherCheck] = ()) -> Report:
    """Read the configuration and say what is wrong with it. Blocks on the disk."""
    try:
        data, mode = _read(path)
    except ConfigError as fault:
        return Report(path=path, config=None, faults=(fault,))
    digest = hashlib.sha256(data).hexdigest()[:12]
    report = attrs.evolve(_check_text(path, data, tuple(also)), digest=digest)
    if mode & stat.S_IWOTH:
        warning = f"{path}: everyone may write to it: chmod o-w it"
        return attrs.evolve(report, warnings=(warning, *report.warnings))
    return report


def _read(path: Path) -> tuple[bytes, int]:
    """The file's bytes and mode."""
    where = str(path)
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise ConfigError(where, "is not a regular file")
            data = file.read(SIZE_LIMIT + 1)
    except FileNotFoundError as error:
        mend = "create it; an empty file means the defaults"
        raise ConfigError(where, "does not exist", mend=mend) from error
    except IsADirectoryError as error:
        raise ConfigError(where, "is a directory", rule="it must be a file") from error
    except OSError as error:
        raise ConfigError(where, f"cannot be read: {error.strerror}") from error
    if len(data) > SIZE_LIMIT:
        raise ConfigError(where, "is larger than 1 MiB", rule="a configuration is smaller")
    return data, status.st_mode


def _open_at_once(path: str, flags: int) -> int:
    """Open without waiting: a pipe without a writer would block for ever."""
    return os.open(path, flags | os.O_NONBLOCK)


def _check_text(path: Path, data: bytes, also: Iterable[FurtherCheck]) -> Report:
    faults: list[ConfigError] = []
    if data.startswith(codecs.BOM_UTF8):
        faults.append(_byte_order_mark(path))
        data = data.removeprefix(codecs.BOM_UTF8)
    try:
        text = decoded(str(path), data)
        document = parsed(str(path), text)
    except ConfigError as fault:
        return Report(path=path, config=None, faults=(*faults, fault))
    spots = scan(text, document)
    cursor = Cursor(spots=spots)
    config = Table(Config).read(without_secrets(document, cursor), cursor) or Config()
    further = [found for look in also for found in look(config)]
    cursor.findings.extend(found for found in further if isinstance(found, Finding))
    told = _Teller(path=path, document=document, spots=spots)
    faults.extend(told.error(finding) for finding in told.in_order(cursor.findings))
    faults.extend(found for found in further if isinstance(found, ConfigError))
    warnings = tuple(str(told.error(finding)) for finding in told.in_order(cursor.warnings))
    usable = None if faults else config
    return Report(path=path, config=usable, faults=tuple(faults), warnings=warnings)


@attrs.frozen(kw_only=True)
class _Teller:
    """Findings in one document to errors that name file and line."""

    path: Path
    document: Mapping[str, Any]
    spots: Mapping[Steps, Spot]

    def in_order(self, findings: Iterable[Finding]) -> list[Finding]:
        """As they stand in the file; those without a line come last."""
        return sorted(findings, key=lambda each: line_of(each.steps, self.spots) or sys.maxsize)

    def error(self, finding: Finding) -> ConfigError:
        line = line_of(finding.steps, self.spots)
        where = f"{self.path}:{line}" if line else str(self.path)
        found = f"{tell(finding.steps, self.document)}{finding.joint}{finding.found}"
        return ConfigError(where, found, rule=finding.rule, mend=finding.mend)


def _byte_order_mark(path: Path) -> ConfigError:
    return ConfigError(
        f"{path}:1:1",
        "the file begins with a byte-order mark",
        rule="it must be plain UTF-8",
        mend="save it without the mark",
    )
