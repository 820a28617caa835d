"""The real daemon as a child process, kept as systemd keeps it.

It is started by its own entry point, tells READY and STATUS to a socket of ours, may find its
listening sockets handed in, gets signals, and leaves a log.

Source: ``sd_notify(3)``, ``sd_listen_fds(3)``.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import trio

from berth.errors import HostError
from berth.rehearsal import handover
from berth.runtime.listeners import bind_listener

READY_LIMIT_S: Final = 20.0
"""How long it may take to serve, on a machine that is busy with other things."""

STOP_LIMIT_S: Final = 20.0
"""How long it may take to end after SIGTERM; systemd kills it then."""

KILL_LIMIT_S: Final = 5.0
"""How long the end of a killed one is waited for."""

LOG_TAIL: Final = 25
"""Lines of the log that are shown after a fault."""


NOTHING: Final[Mapping[str, str]] = {}


class Berthd:
    """One daemon over all its starts.

    Args:
        config: Its configuration file.
        runtime: Its runtime folder, which is made.
        folder: Where its log and the notification socket lie.
        name: Names both, where there are several.
        held: Paths of sockets that are bound here and handed in at each start, as systemd does.
        environment: Variables that it gets besides.
    """

    def __init__(
        self,
        config: Path,
        *,
        runtime: Path,
        folder: Path,
        name: str = "berthd",
        held: Sequence[Path] = (),
        environment: Mapping[str, str] = NOTHING,
    ) -> None:
        self.log = folder / f"{name}.log"
        self.status = ""
        self._config = config
        self._runtime = runtime
        self._extra = environment
        self._notify_path = folder / f"{name}-notify.sock"
        self._notify = trio.socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._held_paths = tuple(held)
        self._held: list[socket.socket] = []
        self.bind_again()
        self._ready = trio.Event()
        self._process: trio.Process | None = None

    async def listen(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Hear what it tells of itself, until cancelled; it is killed then if it still runs."""
        try:
            await self._notify.bind(str(self._notify_path))
            task_status.started()
            while True:
                self._hear((await self._notify.recv(65536)).decode(errors="replace"))
        finally:
            self._notify.close()
            for held in self._held:
                held.close()
            with trio.move_on_after(KILL_LIMIT_S, shield=True):
                if self.alive:
                    await self.kill()

    def bind_again(self) -> None:
        """Make the sockets that are held anew, as an init system does at boot.

        Raises:
            HostError: One cannot be bound.
        """
        for held in self._held:
            held.close()
        for path in self._held_paths:
            path.unlink(missing_ok=True)
        self._held = [bind_listener(path, make_parent=True)[0] for path in self._held_paths]

    async def start(self) -> None:
        """Start it; it is ready later.

        Raises:
            HostError: It runs already.
        """
        if self.alive:
            raise HostError("berthd", "runs already")
        self._ready = trio.Event()
        self._runtime.mkdir(mode=0o700, exist_ok=True)
        command = [sys.executable, "-m", "berth.daemon", "--config", str(self._config)]
        numbers = [held.fileno() for held in self._held]
        if numbers:
            listed = ",".join(map(str, numbers))
            command = [sys.executable, "-I", "-S", handover.__file__, listed, *command]
        with self.log.open("ab") as log:
            # A session of its own: Ctrl-C at the terminal is for us, not for it.
            self._process = await trio.lowlevel.open_process(
                command,
                env=self._environment(),
                pass_fds=numbers,
                stdin=None,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    async def wait_ready(self, limit_s: float = READY_LIMIT_S) -> None:
        """Wait until it serves.

        Raises:
            HostError: It ended, or did not become ready in time.
        """
        with trio.move_on_after(limit_s):
            async with trio.open_nursery() as nursery:

                async def ended() -> None:
                    await self.wait()
                    nursery.cancel_scope.cancel()

                nursery.start_soon(ended)
                await self._ready.wait()
                nursery.cancel_scope.cancel()
        if not self._ready.is_set():
            code = self.code
            found = f"said no READY in {limit_s:.0f} s" if code is None else f"ended with {code}"
            raise HostError("berthd", found, mend=f"its log: {self.log}")

    async def wait(self) -> int:
        """Wait for its end; gives the exit code, or minus the signal that ended it."""
        return await self._running().wait()

    async def terminate(self, limit_s: float = STOP_LIMIT_S) -> int:
        """Stop it as systemd does; gives the exit code.

        Raises:
            HostError: It still runs after the limit.
        """
        self.signal(signal.SIGTERM)
        with trio.move_on_after(limit_s):
            return await self.wait()
        raise HostError("berthd", f"still runs {limit_s:.0f} s after SIGTERM")

    async def kill(self) -> None:
        """End it as a crash would."""
        self.signal(signal.SIGKILL)
        await self.wait()

    async def restart(self) -> None:
        """Kill it, start it again, and wait until it serves."""
        await self.kill()
        await self.start()
        await self.wait_ready()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._running().send_signal(number)

    @property
    def pid(self) -> int:
        """Number of its process."""
        return self._running().pid

    @property
    def code(self) -> int | None:
        """How it ended; ``None`` while it runs."""
        return self._running().returncode

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process is not None and self._process.poll() is None

    def log_text(self) -> str:
        """What it logged, over all its starts."""
        return self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""

    def log_tail(self) -> str:
        """The last lines of that."""
        return "\n".join(self.log_text().splitlines()[-LOG_TAIL:])

    def _running(self) -> trio.Process:
        if self._process is None:
            raise HostError("berthd", "was never started")
        return self._process

    def _environment(self) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.lower().endswith("_proxy") and not name.startswith("LISTEN_")
        }
        return {
            **kept,
            "NOTIFY_SOCKET": str(self._notify_path),
            "RUNTIME_DIRECTORY": str(self._runtime),
            "PYTHONUNBUFFERED": "1",
            **self._extra,
        }

    def _hear(self, message: str) -> None:
        for line in message.splitlines():
            if line == "READY=1":
                self._ready.set()
            elif line.startswith("STATUS="):
                self.status = line.removeprefix("STATUS=")
