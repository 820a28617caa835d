"""What a release shows before it takes over from a running one: that it would come up here.

An upgrade asks for it, and leaves the process of before alone when it fails. That process is at
work meanwhile, so nothing is locked, written or opened that it could notice.
"""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Protocol

import berth
from berth.errors import HostError
from berth.model.envelope import Damaged
from berth.node.records.document import claim_from_bytes, given_from_bytes
from berth.runtime.files import list_names, read_file


class _Reader(Protocol):
    def __call__(self, content: bytes, *, where: str) -> object: ...


_RECORDS: Final[Mapping[str, _Reader]] = {
    "claims": claim_from_bytes,
    "skipped": claim_from_bytes,
    "ledger": given_from_bytes,
}
# What else lies in the state folder costs no start: a daemon that cannot read it does without.


def load_every_module() -> None:
    """Import all that a daemon may ever use.

    Raises:
        HostError: A module cannot be imported: says which, and why.
    """
    for name in _modules():
        try:
            importlib.import_module(name)
        # A broken release may fail by anything.
        except Exception as error:
            found = f"cannot be loaded: {type(error).__name__}: {error}"
            raise HostError(name, found, mend="install the package again") from error


def _modules() -> Iterator[str]:
    # A rehearsal is no part of a daemon, and what is called __main__ runs when it is imported.
    apart = re.compile(r"berth\.rehearsal\b|.*\.__main__$")
    walk = pkgutil.walk_packages(berth.__path__, "berth.", onerror=_ignore)
    return (each.name for each in walk if not apart.match(each.name))


def _ignore(_name: str) -> None:
    """The walk imports packages by itself; one that cannot be is told when its turn comes."""


def read_state(folder: Path) -> None:
    """See whether a start would refuse what the state folder holds. Blocks on the disk.

    Raises:
        StateError: A record is of a newer program.
    """
    for kind, read in _RECORDS.items():
        for name in list_names(folder / kind, suffix=".json"):
            path = folder / kind / name
            # What is damaged is set aside at the start, which goes on.
            with contextlib.suppress(Damaged, HostError):
                read(read_file(path) or b"", where=str(path))
