"""The interpreter's store of source lines, from which tracebacks show them."""

from __future__ import annotations

import linecache
from typing import Any


class _FilesOnly(dict[str, Any]):
    """Keeps what `linecache` itself puts in, and nothing that is offered by ``setdefault``."""

    def setdefault(self, key: str, default: Any = None, /) -> Any:
        """Give what is kept under ``key``, else ``default``, which is forgotten."""
        return self.get(key, default)


def keep_none_of_generated_code() -> None:
    """From now on keep no source of methods that attrs generates.

    attrs (``attr/_make.py``, 26.1) offers the whole text of each class's methods, and the same in
    lines, by ``linecache.cache.setdefault``: over 2 MB while some 570 classes are made. Cleared
    afterwards, it leaves holes between what stays, and nothing big comes later that would fill
    them.
    """
    linecache.cache = _FilesOnly(linecache.cache)
