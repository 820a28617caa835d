"""Programs that are asked for a word: late, noisy, stubborn, with children, and unable to die."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from subprocess import Popen
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from berth.errors import HostError
from berth.host import commands
from berth.host.commands import (
    END_LIMIT_S,
    KEPT_BYTES,
    TERM_S,
    Ended,
    Running,
    ask_program,
    start_program,
)

LONG_S = 60.0


async def ask(script: str, *, deadline_s: float = LONG_S) -> Ended:
    """How a shell script ends."""
    return await ask_program(
        ["/bin/sh", "-c", script],
        environment={"ONE": "1"},
        deadline_s=deadline_s,
        limiter=trio.CapacityLimiter(1),
        launch=start_program,
    )


def is_running(pid: int) -> bool:
    """Whether there is such a process, and more of it than its body."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except OSError:
        return False


def number_in(file: Path) -> int:
    """The number that a script writes into a file; 0 before it has."""
    text = file.read_text() if file.exists() else ""
    return int(text) if text.endswith("\n") else 0


async def wait_until(condition: Callable[[], object]) -> None:
    """Wait for what another process or thread does."""
    with trio.fail_after(LONG_S):
        while not condition():  # noqa: ASYNC110 - nobody here is told
            await trio.sleep(0.01)


async def test_program_gives_its_status_and_its_first_words() -> None:
    """It has no input, no environment but what is given, and a root for its folder."""

    assert await ask("cat; pwd; env | grep -v '^PWD=\\|^_='; exit 3") == Ended(
        status=3, is_late=False, said=b"/\nONE=1\n"
    )


async def test_program_that_is_late_is_told_to_end() -> None:
    """Its last words count."""
    script = "trap 'echo dying; exit 7' TERM; echo alive; while :; do sleep 0.05; done"

    ended = await ask(script, deadline_s=0.3)

    # The shell may complain that what it waited for was ended.
    assert attrs.evolve(ended, complained=b"") == Ended(
        status=7, is_late=True, said=b"alive\ndying\n"
    )


async def test_program_that_does_not_end_is_killed_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither it nor what it started heeds the first signal."""
    monkeypatch.setattr(commands, "TERM_S", 0.1)
    file = tmp_path / "pid"

    ended = await ask(f"trap '' TERM; sleep 600 & echo $! >{file}; wait; sleep 600", deadline_s=0.3)

    assert ended == Ended(status=-signal.SIGKILL, is_late=True, said=b"")
    await wait_until(lambda: number_in(file) and not is_running(number_in(file)))


async def test_children_that_are_left_end_with_the_program(tmp_path: Path) -> None:
    """Though they hold its output open; its own end is what counts."""
    file = tmp_path / "pid"

    ended = await ask(f"sleep 600 & echo $! >{file}; echo well; exit 0")

    assert ended == Ended(status=0, is_late=False, said=b"well\n")
    await wait_until(lambda: number_in(file) and not is_running(number_in(file)))


@pytest.mark.parametrize("size", ["100M", pytest.param("1G", marks=pytest.mark.slow)])
async def test_a_gigabyte_of_noise_costs_nothing(size: str) -> None:
    """The beginning is kept, and neither memory nor much of our time goes to the rest."""
    before, peak = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    ended = await ask(f"echo noisy; head -c {size} /dev/zero | tr '\\0' x; exit 1")

    assert ended.status == 1
    assert ended.said == b"noisy\n" + (KEPT_BYTES - 6) * b"x"
    assert time.process_time() - before < 1.0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 8192


@pytest.mark.parametrize("size", ["100M", pytest.param("1G", marks=pytest.mark.slow)])
async def test_the_end_of_what_it_complains_of_is_kept(size: str) -> None:
    """However much came before, and whatever it prints besides."""
    before = time.process_time()
    noise = f"head -c {size} /dev/zero | tr '\\0' x"

    ended = await ask(f"{{ {noise}; echo; echo no such bus; }} >&2; echo well; exit 2")

    assert (ended.status, ended.said) == (2, b"well\n")
    assert ended.complained == (KEPT_BYTES - 13) * b"x" + b"\nno such bus\n"
    assert time.process_time() - before < 1.0


async def test_child_that_complains_on_holds_nobody_up() -> None:
    """The program's own end counts, though another has its error output open."""

    ended = await ask("sh -c 'while :; do echo on >&2; done' & echo well; exit 0")

    assert (ended.status, ended.said) == (0, b"well\n")


async def test_program_that_is_not_there_is_told_with_its_mend(tmp_path: Path) -> None:
    """As is one that nobody may run."""
    plain = tmp_path / "plain"
    plain.touch()

    for path, reason in (("/no/such", "No such file"), (str(plain), "Permission denied")):
        with pytest.raises(HostError, match=f"{path}: cannot be run: {reason}.*; install it"):
            await ask_program(
                [path],
                environment={},
                deadline_s=1,
                limiter=trio.CapacityLimiter(1),
                launch=start_program,
            )


async def test_cancel_kills_at_once(tmp_path: Path) -> None:
    """It is not asked to end first."""
    file = tmp_path / "pid"
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, f"trap '' TERM; echo $$ >{file}; sleep 600; sleep 600")
            await wait_until(lambda: number_in(file))
            scope.cancel()

    # On a busy machine the start itself may not have returned yet: then its thread ends it.
    await wait_until(lambda: not is_running(number_in(file)))


async def test_program_whose_file_hangs_is_left_to_its_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A cancel does not wait for it, and what starts too late is killed."""
    go, started = threading.Event(), list[Popen[bytes]]()

    def slow(*args: Any, **more: Any) -> Popen[bytes]:
        go.wait(LONG_S)
        started.append(Popen(*args, **more))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", slow)
    with trio.move_on_after(0.05) as scope:
        await ask("sleep 600")
    assert scope.cancelled_caught

    go.set()
    await wait_until(lambda: started and started[0].returncode is not None)
    assert started[0].returncode == -signal.SIGKILL


class Undead:
    """A program that hangs in the kernel: no signal ends it, until it is let."""

    def __init__(self) -> None:
        self.signals: list[tuple[float, int]] = []
        self.end = trio.Event()
        self.buried_at: float | None = None

    async def start(
        self,
        command: Sequence[str],  # noqa: ARG002 - as `Launch` has it
        *,
        environment: Mapping[str, str],  # noqa: ARG002 - the same
        limiter: trio.CapacityLimiter,  # noqa: ARG002 - the same
    ) -> Running:
        """Start it."""
        await trio.lowlevel.checkpoint()
        return self

    async def listen(self) -> None:
        """It says nothing."""
        await trio.sleep_forever()

    async def wait_dead(self) -> None:
        """It ends when it is let."""
        await self.end.wait()

    def kill_group(self, number: int) -> None:
        """It does not heed this."""
        self.signals.append((trio.current_time(), number))

    def bury(self) -> tuple[int | None, bytes, bytes]:
        """It goes, dead or not."""
        self.buried_at = trio.current_time()
        return (-signal.SIGKILL if self.end.is_set() else None), b"asking", b""


async def ask_undead(undead: Undead, results: list[Ended]) -> None:
    """Ask it with a deadline of 10 s."""
    results.append(
        await ask_program(
            ["/undead"],
            environment={},
            deadline_s=10,
            limiter=trio.CapacityLimiter(1),
            launch=undead.start,
        )
    )


async def test_program_that_cannot_be_killed_is_waited_for(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """For as long as it takes: it counts as running, and its end is heard."""
    undead, results = Undead(), list[Ended]()
    nursery.start_soon(ask_undead, undead, results)

    await trio.sleep(3600)
    assert undead.signals == [(10, signal.SIGTERM), (10 + TERM_S, signal.SIGKILL)]
    assert undead.buried_at is None
    undead.end.set()
    await trio.sleep(1)

    assert results == [Ended(status=-signal.SIGKILL, is_late=True, said=b"asking")]
    assert undead.buried_at == 3600


async def test_cancel_does_not_wait_for_what_cannot_be_killed(autojump_clock: MockClock) -> None:
    """The daemon has to stop."""
    undead = Undead()

    with trio.move_on_after(3600):
        await ask_undead(undead, [])

    assert undead.buried_at == 3600 + END_LIMIT_S


def test_descriptors_are_given_back() -> None:
    """Whatever became of the program."""

    async def several() -> None:
        await ask("exit 0")
        before = _open_files()
        for _ in range(3):
            await ask("yes | head -c 100000")
            with trio.move_on_after(0.05):
                await ask("sleep 600")
        # A start that nobody waits for any more is undone by its thread, a moment later.
        with trio.fail_after(60):
            while _open_files() != before:  # noqa: ASYNC110 - closing tells nobody
                await trio.sleep(0.01)

    trio.run(several)


def _open_files() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names are enough
