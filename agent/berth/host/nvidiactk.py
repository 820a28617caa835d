"""nvidia-ctk: the vendor's own tool, asked what a container needs of its GPUs.

It takes seconds and loads the driver's library, so it is asked in the background and never while a
pod waits. Its environment is ours alone to say: a variable of its could make it write to a file
instead of answering.

Source: GH §3.2; NVIDIA Container Toolkit 1.14 (the flags), ``cmd/nvidia-ctk/cdi/generate``.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs
import trio

from berth.errors import HostError
from berth.host.programs import run_program

LIMIT_S: Final = 30.0
"""How long it may take, in seconds."""

PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where it and what it runs are looked for."""

PROGRAMS: Final = ("nvidia-ctk", "nvidia-cdi-hook")

ARGUMENTS: Final = (
    "cdi",
    "generate",
    "--mode=nvml",
    "--format=json",
    "--device-name-strategy=uuid",
)


@attrs.frozen(kw_only=True)
class Stamp:
    """What changes when a program is replaced.

    Attributes:
        modified_ns: Since 1970.
    """

    path: str
    inode: int
    size: int
    modified_ns: int


def find_tool(path: str = PATH) -> str:
    """Where nvidia-ctk is; empty when it is not installed. Blocks briefly."""
    return shutil.which("nvidia-ctk", path=path) or ""


def stamps(path: str = PATH) -> tuple[Stamp, ...]:
    """The programs as they are on disk now; blocks briefly."""
    found = (shutil.which(name, path=path) for name in PROGRAMS)
    return tuple(stamp for each in found if each is not None and (stamp := _stamp(each)))


async def ask_tool(tool: str, *, arguments: Sequence[str] = ARGUMENTS) -> bytes:
    """What it answers; a cancel kills it.

    Raises:
        HostError: It cannot be run, fails, takes too long or prints too much.
    """
    environment = {"PATH": PATH, "LC_ALL": "C.UTF-8"}
    try:
        with trio.fail_after(LIMIT_S):
            done = await run_program([tool, *arguments], environment=environment)
    except trio.TooSlowError:
        raise HostError(tool, f"gave nothing within {LIMIT_S:.0f} s") from None
    if done.status != 0:
        raise HostError(tool, f"exit status {done.status}: {done.complaint}")
    return done.output


def _stamp(path: str) -> Stamp | None:
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return Stamp(
        path=path,
        inode=status.st_ino,
        size=status.st_size,
        modified_ns=status.st_mtime_ns,
    )
