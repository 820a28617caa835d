"""Programs of the operator's that are asked for a word, with limits on their time and their noise.

Such a program may hang for ever, print without end, start others, or be unable to die. It has a
group of its own, which is killed whole: first by a signal that it can answer, then by one that it
cannot. Of what it prints the beginning is kept, and the end of what it complains of on its error
output; the rest goes to nowhere without being copied, and at a pace at which it costs us nothing.
What outlives even the kill is waited for, for as long as
that takes: whoever started it must know that it is there still.

A group is killed while its leader is dead and not yet reaped, so that its number is its own still.
What leaves the group (``setsid``) is not found; the unit's control group ends it with the daemon.

Blocking calls are made in threads that are left behind when one hangs: to start a program reads it
from its file system.

Source: Linux ``splice(2)``, ``pidfd_open(2)`` (5.3); gpu-and-health.md §6.2.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import struct
import subprocess
import termios
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final, Protocol

import attrs
import trio

from berth.errors import HostError

KEPT_BYTES: Final = 200
"""How much of each of its outputs is kept (GH §6.2)."""

TERM_S: Final = 1.0
"""How long a program may take to end when it is told to; then it is killed."""

END_LIMIT_S: Final = 0.5
"""How long a cancel waits for what it has killed; one that hangs in the kernel is left alone."""

CHUNK: Final = 1024 * 1024
"""Most that is thrown away at once, in bytes."""

PACE_S: Final = 0.002
"""From one throwing away to the next."""

_UNUSABLE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ENOEXEC})
# What is wrong with the file itself.


@attrs.frozen(kw_only=True)
class Ended:
    """How a program ended.

    Attributes:
        status: Its exit status, negative for a signal.
        is_late: It was ended because its time was over.
        said: The beginning of what it printed.
        complained: The end of its error output.
    """

    status: int
    is_late: bool
    said: bytes
    complained: bytes = b""


class Running(Protocol):
    """A program that runs, in a group of its own."""

    async def listen(self) -> None:
        """Take what it prints until it prints no more."""
        ...

    async def wait_dead(self) -> None:
        """Wait until it has ended; its number is its own still."""
        ...

    def kill_group(self, number: int) -> None:
        """Send a signal to it and to all that it started."""
        ...

    def bury(self) -> tuple[int | None, bytes, bytes]:
        """Let go of it: its exit status, ``None`` while it runs, what it said and complained of."""
        ...


class Launch(Protocol):
    """Starts a program."""

    async def __call__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        limiter: trio.CapacityLimiter,
    ) -> Running:
        """Start it, without input; a cancel leaves nothing running."""
        ...


async def ask_program(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    deadline_s: float,
    limiter: trio.CapacityLimiter,
    launch: Launch,
) -> Ended:
    """Run a program until it ends or is ended, and is gone.

    A cancel kills it and waits for its end no longer than `END_LIMIT_S`.

    Args:
        command: An absolute path, and the arguments.
        environment: All that it is given.
        deadline_s: How long it may take before it is told to end.
        limiter: Of threads that start programs.
        launch: Starts it.

    Raises:
        HostError: It cannot be run.
    """
    running = await launch(command, environment=environment, limiter=limiter)
    ended = False
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(running.listen)
            is_late = await _wait_end(running, deadline_s)
            ended = True
            nursery.cancel_scope.cancel()
    finally:
        running.kill_group(signal.SIGKILL)
        if not ended:
            with trio.move_on_after(END_LIMIT_S, shield=True):
                await running.wait_dead()
        status, said, complained = running.bury()
    return Ended(status=status or 0, is_late=is_late, said=said, complained=complained)


async def _wait_end(running: Running, deadline_s: float) -> bool:
    """Wait until it is dead, and see to it after the deadline; whether that was needed."""
    with trio.move_on_after(deadline_s):
        await running.wait_dead()
        return False
    running.kill_group(signal.SIGTERM)
    with trio.move_on_after(TERM_S):
        await running.wait_dead()
        return True
    running.kill_group(signal.SIGKILL)
    await running.wait_dead()
    return True


async def start_program(
    command: Sequence[str], *, environment: Mapping[str, str], limiter: trio.CapacityLimiter
) -> Running:
    """Start a program on this machine.

    Raises:
        HostError: It cannot be run.
    """
    start = _Start(command, environment)
    try:
        process = await trio.to_thread.run_sync(start.run, limiter=limiter, abandon_on_cancel=True)
    except OSError as error:
        number = error.errno or 0
        mend = (
            "install it, so that root may run it, or write another" if number in _UNUSABLE else ""
        )
        raise HostError(
            command[0], f"cannot be run: {os.strerror(number)}", mend=mend, errno=number
        ) from error
    except BaseException:  # a cancel too: nobody else would see to the end of what was started
        start.give_up()
        raise
    return _Program(process)


class _Start:
    """The start of a program in a thread, of which a cancel leaves nothing.

    Whoever takes the process out of the list sees to its end: the thread, when it comes too late,
    or the one who gave up waiting for it.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._command = list(command)
        self._environment = dict(environment)
        self._started: list[subprocess.Popen[bytes]] = []
        self._given_up = threading.Event()

    def run(self) -> subprocess.Popen[bytes]:
        """Start it; blocks while its file is read."""
        process = subprocess.Popen(
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=self._environment,
            cwd="/",
            start_new_session=True,
        )
        self._started.append(process)
        if self._given_up.is_set():
            self._end()
        return process

    def give_up(self) -> None:
        """Nobody waits for it any more."""
        self._given_up.set()
        self._end()

    def _end(self) -> None:
        with suppress(IndexError):
            process = self._started.pop()
            _kill_group(process.pid, signal.SIGKILL)
            _reap_aside(process)


class _Program:
    """A program of this machine that runs."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        assert process.stderr is not None  # noqa: S101 - the same
        self._pipe, self._errors = process.stdout.fileno(), process.stderr.fileno()
        for pipe in (self._pipe, self._errors):
            os.set_blocking(pipe, False)
        self._pidfd = os.pidfd_open(process.pid)
        self._said, self._complained = bytearray(), b""

    async def listen(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._hear_complaints)
            await self._hear()

    async def _hear_complaints(self) -> None:
        """Keep the end of the error output, until there is no more."""
        with _opened_nowhere() as nowhere:
            while self._take_complaints(nowhere):
                if len(self._complained) == KEPT_BYTES:
                    with suppress(OSError):
                        fcntl.fcntl(self._errors, fcntl.F_SETPIPE_SZ, CHUNK)
                await trio.sleep(PACE_S)
                await trio.lowlevel.wait_readable(self._errors)

    def _take_complaints(self, nowhere: int) -> bool:
        """Take the end of what is there for now; whether more may come."""
        try:
            rest = _count_ready(self._errors) - KEPT_BYTES
            if rest > 0:
                os.splice(self._errors, nowhere, rest, flags=os.SPLICE_F_NONBLOCK)
            more = os.read(self._errors, CHUNK)
        except BlockingIOError:
            return True
        self._complained = (self._complained + more)[-KEPT_BYTES:]
        return bool(more)

    async def _hear(self) -> None:
        """Keep the beginning of what it prints, until it prints no more."""
        while len(self._said) < KEPT_BYTES:
            await trio.lowlevel.wait_readable(self._pipe)
            if not self._take():
                return
        with suppress(OSError):
            fcntl.fcntl(self._pipe, fcntl.F_SETPIPE_SZ, CHUNK)
        with _opened_nowhere() as nowhere:
            while await self._throw_away(nowhere):
                pass

    def _take(self) -> bool:
        """Take what is there for now; whether more may come."""
        try:
            more = os.read(self._pipe, KEPT_BYTES - len(self._said))
        except BlockingIOError:
            return True
        self._said += more
        return bool(more)

    async def _throw_away(self, nowhere: int) -> bool:
        """Let what is there go to nowhere, and rest; whether more may come."""
        await trio.sleep(PACE_S)
        await trio.lowlevel.wait_readable(self._pipe)
        try:
            return os.splice(self._pipe, nowhere, CHUNK, flags=os.SPLICE_F_NONBLOCK) > 0
        except BlockingIOError:
            return True

    async def wait_dead(self) -> None:
        await trio.lowlevel.wait_readable(self._pidfd)

    def kill_group(self, number: int) -> None:
        _kill_group(self._process.pid, number)

    def bury(self) -> tuple[int | None, bytes, bytes]:
        if len(self._said) < KEPT_BYTES:
            self._take()
        with _opened_nowhere() as nowhere:
            self._take_complaints(nowhere)
        os.close(self._pidfd)
        _close_pipes(self._process)
        status = self._process.poll()
        if status is None:
            _reap_aside(self._process)
        return status, bytes(self._said), self._complained


@contextmanager
def _opened_nowhere() -> Iterator[int]:
    """What swallows everything."""
    nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    try:
        yield nowhere
    finally:
        os.close(nowhere)


def _count_ready(pipe: int) -> int:
    """How many bytes can be read from it now."""
    answer = fcntl.ioctl(pipe, termios.FIONREAD, bytes(struct.calcsize("i")))
    return int(struct.unpack("i", answer)[0])


def _kill_group(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def _close_pipes(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


def _reap_aside(process: subprocess.Popen[bytes]) -> None:
    """Wait in a thread of its own for what may take for ever to die."""
    _close_pipes(process)
    threading.Thread(target=process.wait, name="berth-reaper", daemon=True).start()
