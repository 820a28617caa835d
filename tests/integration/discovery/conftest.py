"""A scratch host whose links a discovery watches, in a process of its own."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest
import trio

from tests.netns import ScratchNetns, need_kind, scratch_netns

PATIENCE_S = 20
"""Only a test that fails waits so long."""

CONFIG = """
[[nic.group]]
name = "lab"
match = { name = ["v0", "v1"] }
"""

_OWN_SYSFS = "mount --make-rprivate / && mount -t sysfs sysfs /sys && "


class Watcher:
    """What the discovery says.

    Attributes:
        now: The inventory that was told last.
        said: All that were told, oldest first.
    """

    def __init__(self, process: trio.Process) -> None:
        self.process = process
        self.now: dict[str, Any] = {}
        self.said: list[dict[str, Any]] = []
        self._answers: list[dict[str, Any]] = []
        self._changed = trio.lowlevel.ParkingLot()
        self._rest = b""

    async def listen(self) -> None:
        """Take in its lines, until it ends."""
        assert self.process.stdout is not None
        async for chunk in self.process.stdout:
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            for line in lines:
                self._take(json.loads(line))

    def _take(self, words: dict[str, Any]) -> None:
        if "asked" in words:
            self._answers.append(words)
        else:
            self.now = words
            self.said.append(words)
        self._changed.unpark_all()

    async def wait(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait until the inventory is as wanted, and give it."""
        with trio.fail_after(PATIENCE_S):
            while not self.now or not wanted(self.now):
                await self._changed.park()
        return self.now

    async def wait_offered(self, *names: str) -> dict[str, Any]:
        """Wait until exactly these devices are published."""
        return await self.wait(lambda now: now["devices"] == [*names])

    async def wait_reason(self, name: str, begin: str) -> str:
        """Wait until a NIC is not offered for a reason that begins so, and give it."""
        now = await self.wait(lambda now: bool(now["reasons"].get(name, "").startswith(begin)))
        return str(now["reasons"][name])

    async def figures(self) -> dict[str, Any]:
        """Ask how often it looked, and how long the last look took."""
        assert self.process.stdin is not None
        await self.process.stdin.send_all(b"figures\n")
        with trio.fail_after(PATIENCE_S):
            while not self._answers:
                await self._changed.park()
        return self._answers.pop()

    async def wait_looked(self, looks: int) -> None:
        """Wait until it has looked more often than that: on a busy machine an event takes long."""
        with trio.fail_after(PATIENCE_S):
            now = await self.figures()
            while now["looks"] <= looks:
                await trio.sleep(0.05)
                now = await self.figures()

    async def wait_quiet(self) -> dict[str, Any]:
        """Wait until it has not looked for twice its own pause, and give its figures."""
        before = await self.figures()
        with trio.fail_after(PATIENCE_S):
            while True:
                # The one thing that is waited for here is that nothing happens.
                await trio.sleep(0.4)
                after = await self.figures()
                if after["looks"] == before["looks"]:
                    return after
                before = after


@contextlib.asynccontextmanager
async def watching(
    namespace: ScratchNetns, folder: Path, *, config: str = CONFIG, own_sysfs: bool = True
) -> AsyncIterator[Watcher]:
    """Let a discovery watch a namespace.

    Args:
        own_sysfs: Show it the sysfs of the namespace; else it sees that of the machine, as a
            daemon does that was put into a namespace by somebody else.
    """
    file = folder / "agent.toml"
    file.write_text(config)
    run = f"exec {sys.executable} -m tests.integration.discovery.watcher {file} {folder}"
    script = f"{_OWN_SYSFS if own_sysfs else ''}{run}"
    command = ["nsenter", f"--net={namespace.path}", "unshare", "-m", "sh", "-c", script]
    open_process = partial(trio.lowlevel.open_process, stdin=PIPE, stdout=PIPE)
    process = await open_process(command)
    watcher = Watcher(process)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watcher.listen)
            await watcher.wait(bool)
            yield watcher
            assert process.stdin is not None
            await process.stdin.aclose()
            with trio.move_on_after(PATIENCE_S):
                await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()


@pytest.fixture(name="home")
def _home() -> Iterator[ScratchNetns]:
    """A namespace that stands for the host; its veth end v0 is a NIC of group lab."""
    need_kind("veth", "macvlan", "bridge")
    with scratch_netns("home") as namespace:
        namespace.ip("link", "add", "v0", "type", "veth", "peer", "name", "p0")
        yield namespace


@pytest.fixture(name="watcher")
async def _watcher(home: ScratchNetns, tmp_path: Path) -> AsyncIterator[Watcher]:
    """The discovery of that host, after its first look."""
    async with watching(home, tmp_path) as watcher:
        await watcher.wait_offered("nic-lab-v0")
        yield watcher
