"""A kernel that refuses one call, for what no test may use up on a machine that others use."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from berth.runtime import inotify


def refuse(monkeypatch: pytest.MonkeyPatch, call: str, number: int) -> None:
    """Let a call of libc fail with an ``errno``; all others are the real ones."""

    class Library:
        def __getattr__(self, name: str) -> Any:
            if name != call:
                return getattr(ctypes.CDLL(None, use_errno=True), name)

            def fail(*_arguments: object) -> int:
                ctypes.set_errno(number)
                return -1

            return fail

    monkeypatch.setattr(inotify, "_libc", Library)
