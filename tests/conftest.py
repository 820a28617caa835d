"""What holds for every test: a machine that is busy with ten other things is no failure."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from berth.runtime.inotify import Inotify, open_inotify

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# Whoever waits for the fast tests tries fewer examples; CI tries them all.
settings.register_profile("brief", settings.get_profile("unhurried"), max_examples=25)
settings.load_profile("unhurried" if os.environ.get("CI") else "brief")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A clock that only a fixture asks for is never the test's: pytest-trio looks no further."""
    for item in items:
        if isinstance(item, pytest.Function) and "autojump_clock" in item.fixturenames:
            code = item.function.__code__
            named = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            inner = getattr(item.function, "hypothesis", None)
            if inner is None and "autojump_clock" not in named:
                raise pytest.UsageError(f"{item.nodeid} has to ask for autojump_clock itself")


@pytest.fixture
async def inotify() -> AsyncIterator[Inotify]:
    """What tells of changes in folders, as the daemon has one."""
    async with open_inotify() as opened:
        yield opened
