"""The daemon's parts, made as the daemon makes them, in folders of a test's own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from berth.daemon.configfile import ConfigFile, read_config
from berth.daemon.parts import Parts
from berth.runtime.asyncthread import open_asyncio_thread
from berth.runtime.inotify import Inotify
from berth.runtime.logs import JournalFormatter

GROUP = """
[[nic.group]]
name = "lab"
match = { name = ["nic0"] }
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration file whose folders are the test's own."""
    path = tmp_path / "agent.toml"
    write_config(path)
    return path


def write_config(path: Path, more: str = GROUP) -> None:
    """Write a file whose folders lie beside it."""
    text = f'[node]\nstate_dir = "{path.parent}/state"\n[kubelet]\nroot = "{path.parent}/kubelet"\n'
    path.write_text(f"{text}{more}")


@pytest.fixture
def file(config: Path) -> ConfigFile:
    """The file, read."""
    return read_config(config)


@pytest.fixture
async def parts(file: ConfigFile, inotify: Inotify, tmp_path: Path) -> AsyncIterator[Parts]:
    """Every part, none of which runs."""
    async with open_asyncio_thread() as thread:
        yield Parts(
            file.config, runtime=tmp_path / "run", inherited={}, thread=thread, inotify=inotify
        )


def journal(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged, as the journal shows it."""
    formatter = JournalFormatter(prefixed=False)
    return [formatter.format(record) for record in caplog.records]
