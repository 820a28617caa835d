"""A driver's library that lies, or that lacks what it should have.

What lies is what C wrote into the memory that Python gave it, so every byte of an answer may be
any, and the answer says that all is well. Handles stay as they are: only the library reads what
they point to.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import attrs
import pynvml

from berth.host.nvml import calls

Fill = Callable[[int], bytes]
"""Gives as many bytes of an answer as are asked for."""


@contextmanager
def lying(fill: Fill, *symbols: str, about: int | None = None) -> Iterator[None]:
    """Let functions of the library answer with bytes of ``fill`` for the block.

    Args:
        about: What the handle of the only GPU points to of which they lie; of all if not given.
    """
    cache = pynvml._nvmlGetFunctionPointer_cache
    before = {symbol: pynvml._nvmlGetFunctionPointer(symbol) for symbol in symbols}
    try:
        for symbol, function in before.items():
            cache[symbol] = _Liar(function, fill, about)
        yield
    finally:
        cache.update(before)


@contextmanager
def lacking(*symbols: str) -> Iterator[None]:
    """Let the library not have these functions for the block."""
    cache, loaded = dict(pynvml._nvmlGetFunctionPointer_cache), pynvml.nvmlLib
    try:
        pynvml._nvmlGetFunctionPointer_cache.clear()
        pynvml.nvmlLib = _Lacking(loaded, frozenset(symbols))
        yield
    finally:
        pynvml.nvmlLib = loaded
        pynvml._nvmlGetFunctionPointer_cache.clear()
        pynvml._nvmlGetFunctionPointer_cache.update(cache)


@attrs.frozen
class _Liar:
    """One function of the library."""

    function: Callable[..., int]
    fill: Fill
    about: int | None

    def __call__(self, *arguments: Any) -> int:
        """Ask it, and write over what it wrote."""
        status = self.function(*arguments)
        if self.about is not None and self.about != _pointed(arguments):
            return status
        for argument in arguments:
            answer = getattr(argument, "_obj", argument)
            if isinstance(answer, ctypes.Structure | ctypes.Array | ctypes._SimpleCData):
                size = ctypes.sizeof(answer)
                ctypes.memmove(ctypes.addressof(answer), self.fill(size), size)
        return 0


class _Lacking:
    """The loaded library, less some functions."""

    def __init__(self, library: Any, symbols: frozenset[str]) -> None:
        self._library = library
        self._symbols = symbols

    def __getattr__(self, name: str) -> Any:
        """Find a function, or fail as ctypes does."""
        if name in self._symbols:
            raise AttributeError(name)
        return getattr(self._library, name)


def _pointed(arguments: tuple[Any, ...]) -> int | None:
    """What the handle that a call begins with points to."""
    first = arguments[0] if arguments else None
    return calls.pointer(first) if isinstance(first, ctypes._Pointer) else None
