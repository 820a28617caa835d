"""The configuration file in force: what it says, and what was odd in it."""

from __future__ import annotations

from pathlib import Path

import attrs

from berth.config.load import check
from berth.config.schema import Config
from berth.errors import Faults
from berth.nic.config.group import check_groups
from berth.runtime.logs import get_log

_log = get_log(__name__)


@attrs.frozen(kw_only=True)
class ConfigFile:
    """A configuration that can be served.

    Attributes:
        path: Where it was read, and is read again at a reload.
        warnings: What is allowed and still worth a word, one sentence each.
        digest: The beginning of the SHA-256 of the file.
    """

    path: Path
    config: Config
    warnings: tuple[str, ...] = ()
    digest: str = ""


def read_config(path: Path) -> ConfigFile:
    """Read a file, group defaults judged as well; what is odd is told to the journal. Blocks.

    Raises:
        Faults: The file is refused; all of it is told.
    """
    report = check(path, also=(check_groups,))
    for warning in report.warnings:
        _log.warning("configuration", finding=warning)
    if report.config is None:
        raise Faults(str(path), report.faults)
    return ConfigFile(
        path=path, config=report.config, warnings=report.warnings, digest=report.digest
    )
