"""The node names under which this machine published, so that a renamed node leaves nothing behind.

One small file in the state folder. Nothing depends on it but the clean-up.
"""

from __future__ import annotations

import json
from typing import Final, TypeAlias

from berth.model.envelope import Damaged, opened
from berth.runtime.files import Folder
from berth.runtime.statefile import StateFile

FILE: Final = "node.json"
SCHEMA: Final = 1

NodeHistory: TypeAlias = StateFile[frozenset[str]]
"""The names on disk."""


def node_history(folder: Folder) -> NodeHistory:
    """The names that are kept in the state folder."""
    return StateFile(
        folder,
        FILE,
        to_bytes=_to_bytes,
        from_bytes=_from_bytes,
        lost="names of former nodes are lost, their slices may stay",
        unwritten="the node's name is not noted down",
    )


def _to_bytes(names: frozenset[str]) -> bytes:
    return json.dumps({"schema": SCHEMA, "names": sorted(names)}).encode()


def _from_bytes(content: bytes, /, *, where: str) -> frozenset[str]:
    names = opened(content, schema=SCHEMA, where=where).get("names")
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise Damaged(where, "has no list of names")
    return frozenset(names)
