"""What systemd is told (readiness, state, life) and what it hands in (sockets); knows sdnotify.

Source: ``sd_notify(3)``, ``sd_listen_fds(3)``, ``sd_watchdog_enabled(3)``.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from pathlib import Path
from typing import Final

import attrs
import sdnotify
import trio

from berth.runtime.logs import get_log

FIRST_FD: Final = 3
"""Number of the first descriptor handed in (``SD_LISTEN_FDS_START``)."""

STATUS_LIMIT: Final = 1024
"""Longest status text, in characters."""

EXTEND_EVERY_S: Final = 20.0
"""How often more time to start is asked for, twice as much as that each time."""

START_LIMIT_S: Final = 900.0
"""How long a start may take in all: thousands of records on a slow disk take minutes."""

_log = get_log(__name__)

Probe = Callable[[], Awaitable[None]]


class Systemd:
    """Tells systemd how the daemon fares; without systemd it says nothing and does no harm.

    Nothing here blocks: what systemd is too busy to take is told again with the next message.

    Args:
        environ: The environment: ``NOTIFY_SOCKET``, ``WATCHDOG_USEC`` and ``WATCHDOG_PID``.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._notifier = _notifier() if environ.get("NOTIFY_SOCKET") else None
        self._untold: dict[str, str] = {}
        self.watchdog_s = _watchdog_s(environ)
        """After how many seconds without `alive` systemd restarts the daemon; None: never."""

    @property
    def is_there(self) -> bool:
        """Whether systemd looks after this process, and starts another when it ends."""
        return self._notifier is not None

    def ready(self, status: str) -> None:
        """Tell that the daemon serves."""
        self._tell("READY=1", _status(status))

    def status(self, status: str) -> None:
        """Tell how it fares, in one line for ``systemctl status``."""
        self._tell(_status(status))

    def reloading(self) -> None:
        """Tell that a reload has begun; `ready` tells its end."""
        self._tell("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self, status: str) -> None:
        """Tell that the daemon ends."""
        self._tell("STOPPING=1", _status(status))

    def extend(self, seconds: float) -> None:
        """Ask for more time to start or stop, counted from now."""
        self._tell(f"EXTEND_TIMEOUT_USEC={round(seconds * 1_000_000)}")

    def alive(self) -> None:
        """Ping the watchdog."""
        self._tell("WATCHDOG=1")

    def close(self) -> None:
        """Let go of the socket."""
        notifier, self._notifier = self._notifier, None
        if notifier is not None:
            notifier.socket.close()

    def _tell(self, *lines: str) -> None:
        if self._notifier is None:
            return
        due = {**self._untold, **{line.partition("=")[0]: line for line in lines}}
        try:
            # sdnotify encodes as Latin-1; systemd reads UTF-8.
            self._notifier.notify("\n".join(due.values()).encode().decode("latin-1"))
        except OSError:
            # A late sign of life would be a lie; the rest is still so when the next one is given.
            due.pop("WATCHDOG", None)
            self._untold = due
        else:
            self._untold = {}


def _notifier() -> sdnotify.SystemdNotifier | None:
    """A notifier that raises rather than waits while systemd's queue is full."""
    try:
        # It reads the process' environment itself.
        notifier = sdnotify.SystemdNotifier(debug=True)
    except OSError as error:
        _log.warning("systemd cannot be told anything", reason=error)
        return None
    notifier.socket.setblocking(False)
    return notifier


def _status(text: str) -> str:
    return f"STATUS={' '.join(text.split())[:STATUS_LIMIT]}"


def _watchdog_s(environ: Mapping[str, str]) -> float | None:
    if environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    text = environ.get("WATCHDOG_USEC", "")
    return int(text) / 1_000_000 if text.isdecimal() and int(text) else None


async def keep_alive(systemd: Systemd, probes: Mapping[str, Probe]) -> None:
    """Ping the watchdog twice in its time, as long as every probe answers; until cancelled.

    That this task runs proves the trio loop alive; each probe proves one thing beside it. A probe
    that fails, or does not answer within a quarter of the watchdog's time, is logged by name and
    the ping is left out: then systemd ends the daemon and starts it again.

    Args:
        systemd: Whom to tell.
        probes: By name; read anew each time, so they may come and go.
    """
    if systemd.watchdog_s is None:
        await trio.sleep_forever()
        return
    period_s = systemd.watchdog_s / 2
    due = trio.current_time()
    while True:
        silent = await _silent(probes, limit_s=period_s / 2)
        if silent:
            _log.error("no sign of life, watchdog gets no ping", of=", ".join(silent))
        else:
            systemd.alive()
        due += period_s
        await trio.sleep_until(due)


async def keep_starting(systemd: Systemd) -> None:
    """Ask for more time to start, again and again for `START_LIMIT_S`; until cancelled.

    A restart would only begin the same work anew. That this task runs proves the loop alive; work
    that never ends is given up by systemd when the limit is over.
    """
    for _ in range(round(START_LIMIT_S / EXTEND_EVERY_S)):
        systemd.extend(2 * EXTEND_EVERY_S)
        await trio.sleep(EXTEND_EVERY_S)


async def _silent(probes: Mapping[str, Probe], *, limit_s: float) -> tuple[str, ...]:
    """Ask all probes at once, and give the names of those that did not answer well."""
    silent = set(probes)

    async def ask(name: str, probe: Probe) -> None:
        try:
            await probe()
        except Exception:  # noqa: BLE001 - a probe that fails is the finding, whatever it raises
            _log.exception("probe failed", of=name)
        else:
            silent.discard(name)

    with trio.move_on_after(limit_s):
        async with trio.open_nursery() as nursery:
            for name, probe in tuple(probes.items()):
                nursery.start_soon(ask, name, probe)
    return tuple(sorted(silent))


@attrs.frozen(kw_only=True)
class Inherited:
    """What was handed in at start.

    Attributes:
        sockets: Listening unix sockets by the path they were bound to.
        others: Descriptors of another kind, by number, with the name each was stored under.
    """

    sockets: Mapping[Path, socket.socket]
    others: Mapping[int, str]


def listen_fds(environ: MutableMapping[str, str], *, first: int = FIRST_FD) -> Inherited:
    """Take over the descriptors that systemd handed to this process.

    Each is closed on exec from now on, and the variables are removed, so that no child takes
    them for its own. Two sockets of one unit share a name: they are told apart by their path.

    Args:
        environ: The environment; changed.
        first: Number of the first one.
    """
    owner = environ.pop("LISTEN_PID", "")
    count = environ.pop("LISTEN_FDS", "")
    names = environ.pop("LISTEN_FDNAMES", "").split(":")
    environ.pop("LISTEN_PIDFDID", None)
    if owner != str(os.getpid()) or not count.isdecimal():
        return Inherited(sockets={}, others={})
    sockets: dict[Path, socket.socket] = {}
    others: dict[int, str] = {}
    for index in range(int(count)):
        number = first + index
        os.set_inheritable(number, False)
        path = _listening_path(number)
        if path is None or path in sockets:
            others[number] = names[index] if index < len(names) else ""
        else:
            sockets[path] = socket.socket(fileno=number)
    return Inherited(sockets=sockets, others=others)


def _listening_path(number: int) -> Path | None:
    """Give the path of a listening unix stream socket; None for anything else."""
    try:
        probe = socket.socket(fileno=os.dup(number))
    except OSError:
        return None
    with probe:
        stream = probe.family == socket.AF_UNIX and probe.type == socket.SOCK_STREAM
        listening = stream and probe.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        name = probe.getsockname() if listening else ""
    return Path(name) if isinstance(name, str) and name.startswith("/") else None
