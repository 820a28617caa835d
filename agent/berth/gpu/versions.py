"""Versions as NVML tells them, to the strict semantic versions that a slice takes.

Source: GH §1.3; semver 2.0.0.
"""

from __future__ import annotations

import re
from typing import Final

from berth.model.device import Version

UNKNOWN: Final = Version("0.0.0")
"""The neutral value: an attribute stands on all devices of a type, or a selector fails on it."""

_DRIVER: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9}){0,2}")


def driver_version(text: str) -> Version:
    """A driver's version, such as ``580.65.06``; `UNKNOWN` for what has another form."""
    if not _DRIVER.fullmatch(text):
        return UNKNOWN
    parts = [int(part) for part in text.split(".")]
    return _version(*parts)


def cuda_version(number: int | None) -> Version:
    """NVML's number, such as 13000 for 13.0."""
    if number is None or number < 0:
        return UNKNOWN
    return _version(number // 1000, number % 1000 // 10)


def compute_capability(pair: tuple[int, int] | None) -> Version:
    """Major and minor of what the GPU can compute."""
    if pair is None or min(pair) < 0:
        return UNKNOWN
    return _version(*pair)


def _version(major: int, minor: int = 0, patch: int = 0) -> Version:
    return Version(f"{major}.{minor}.{patch}")
