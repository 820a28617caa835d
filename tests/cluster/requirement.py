"""What a kind of test needs of the machine, and how it is told that something is missing."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

import pytest

from berth.errors import HostError


def require_all(
    config: pytest.Config,
    what: str,
    *,
    lacks: Sequence[str],
    install: Callable[[], None],
    refused: pytest.StashKey[str],
) -> None:
    """Fail where everything must be there (`CI=true`), else skip and keep the reason.

    Args:
        what: There is none of it without what is missing.
        lacks: What the machine lacks that cannot be installed.
        install: Installs the rest.
        refused: Where the reason is kept, to be said again at the end of the run.
    """
    if not lacks:
        try:
            install()
        except HostError as error:
            lacks = (str(error),)
    if not lacks:
        return
    told = f"no {what} on this machine: it lacks {', '.join(lacks)}"
    if os.environ.get("CI") == "true":
        pytest.fail(told, pytrace=False)
    config.stash[refused] = told
    pytest.skip(told)


def progress_shown(config: pytest.Config) -> AbstractContextManager[None]:
    """What is made the first time takes minutes: it must be seen how far it is."""
    capture = config.pluginmanager.getplugin("capturemanager")
    return capture.global_and_fixture_disabled() if capture else contextlib.nullcontext()
