"""Programs of others, run with a limit on their time and on what they print.

A program gets a group of its own and is killed with all of it: what it started must not go on after
it, nor keep its pipes open. Nothing of our environment reaches it but what is given.

Unix process groups come with a session (``start_new_session``), which Python 3.10 can make safely
in the child; a group alone (``process_group``) needs 3.11.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

import attrs
import trio

from berth.errors import HostError

OUTPUT_LIMIT: Final = 4 * 1024 * 1024
"""Most that a program may print, in bytes."""

ERRORS_LIMIT: Final = 16 * 1024
"""Most that is kept of what it says of itself, in bytes."""

END_LIMIT_S: Final = 2.0
"""How long a killed program may take to vanish; one that hangs in the kernel is left alone."""


@attrs.frozen(kw_only=True)
class Finished:
    """How a program ended.

    Attributes:
        status: Its exit status, negative for a signal.
        output: What it printed.
        errors: The beginning of what it said of itself.
    """

    status: int
    output: bytes
    errors: bytes

    @property
    def complaint(self) -> str:
        """Its last line about itself, for a message."""
        last = self.errors.decode(errors="replace").strip().rpartition("\n")[2][:300]
        return last or "no message"


async def run_program(
    command: Sequence[str], *, environment: Mapping[str, str], limit: int = OUTPUT_LIMIT
) -> Finished:
    """Run a program to its end, without input; a cancel kills it with all that it started.

    Args:
        command: An absolute path, and the arguments.
        environment: All that it is given.
        limit: Most that it may print, in bytes.

    Raises:
        HostError: It cannot be run, or prints more than ``limit``.
    """
    where = command[0]
    try:
        process = await trio.lowlevel.open_process(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(environment),
            start_new_session=True,
        )
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise HostError(where, f"cannot be run: {reason}", errno=error.errno or 0) from error
    finished = None
    try:
        finished = await _collect(process, where, limit)
    finally:
        if finished is None:
            # Nobody has waited for it yet, so its number is its own still.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            with trio.move_on_after(END_LIMIT_S, shield=True):
                await process.wait()
    return finished


async def _collect(process: trio.Process, where: str, limit: int) -> Finished:
    output, errors = bytearray(), bytearray()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_read, process.stderr, errors, ERRORS_LIMIT)
        await _read(process.stdout, output, limit + 1)
    if len(output) > limit:
        raise HostError(where, f"prints more than {limit} bytes")
    status = await process.wait()
    return Finished(status=status, output=bytes(output), errors=bytes(errors))


async def _read(stream: trio.abc.ReceiveStream | None, into: bytearray, limit: int) -> None:
    """Read until the end or the limit; what is beyond that is thrown away."""
    assert stream is not None  # noqa: S101 - both are pipes
    async with stream:
        while len(into) < limit:
            more = await stream.receive_some(min(65536, limit - len(into)))
            if not more:
                return
            into += more
