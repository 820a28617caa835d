"""Looks at what lies at the paths of device nodes, without opening any.

Blocks on the file systems; for worker threads.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Mapping
from typing import Final

from berth.errors import HostError
from berth.host.nodefacts import AtPath
from berth.model.edits import NodeType

_NOTHING: Final = frozenset({errno.ENOENT, errno.ENOTDIR})


def look_at_paths(paths: Iterable[str]) -> Mapping[str, AtPath]:
    """What lies at each path; links are not followed.

    Raises:
        HostError: The file system refuses to say.
    """
    return {path: _look(path) for path in paths}


def _look(path: str) -> AtPath:
    try:
        status = os.lstat(path)
    except OSError as error:
        if error.errno in _NOTHING:
            return AtPath(exists=False)
        number = error.errno or 0
        found = f"cannot be looked at: {os.strerror(number)}"
        raise HostError(
            path, found, mend="see what file system it lies on", errno=number
        ) from error
    return AtPath(
        type=_type(status.st_mode), major=os.major(status.st_rdev), minor=os.minor(status.st_rdev)
    )


def _type(mode: int) -> NodeType | None:
    if stat.S_ISCHR(mode):
        return NodeType.CHAR
    return NodeType.BLOCK if stat.S_ISBLK(mode) else None
