"""Programs that are run with limits."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import trio

from berth.errors import HostError
from berth.host.programs import ERRORS_LIMIT, run_program


async def run(script: str, **limits: int) -> tuple[int, bytes, bytes]:
    """How a shell script ends; its environment is one variable."""
    done = await run_program(["/bin/sh", "-c", script], environment={"ONE": "1"}, **limits)
    return done.status, done.output, done.errors


async def test_program_gives_status_and_both_streams() -> None:
    """Its last line about itself is its complaint."""

    assert await run("echo a; echo b >&2; exit 3") == (3, b"a\n", b"b\n")

    done = await run_program(["/bin/sh", "-c", "echo x >&2; echo y >&2"], environment={})
    assert done.complaint == "y"


async def test_program_gets_no_input_and_no_environment_but_what_is_given() -> None:
    """Nothing of ours reaches it."""

    command = [sys.executable, "-S", "-c", "import os; print(sorted(os.environ), input)"]
    done = await run_program(command, environment={"ONE": "1"})
    assert b"ONE" in done.output
    assert b"HOME" not in done.output
    assert await run("cat") == (0, b"", b"")


async def test_program_that_prints_too_much_is_ended() -> None:
    """What it prints is bounded, what it complains of is cut."""

    with pytest.raises(HostError, match="prints more than 10 bytes"):
        await run("while true; do echo 0123456789; done", limit=10)

    _, _, errors = await run("head -c 100000 /dev/zero >&2 || true")
    assert len(errors) == ERRORS_LIMIT


async def test_program_that_is_late_is_killed_with_what_it_started(tmp_path: Path) -> None:
    """Nothing of it goes on, and nothing is left to wait for."""

    pid_file = tmp_path / "pid"
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(
                run, f"sleep 600 & echo $! >{pid_file}.new; mv {pid_file}.new {pid_file}; wait"
            )
            with trio.fail_after(60):
                while not pid_file.exists():  # noqa: ASYNC110 - another process makes it
                    await trio.sleep(0.01)
            scope.cancel()

    child = int(pid_file.read_text())
    with trio.fail_after(60):
        while _is_running(child):  # noqa: ASYNC110 - another process ends
            await trio.sleep(0.01)


async def test_program_that_is_not_there_is_told() -> None:
    """With the system's reason."""

    with pytest.raises(HostError, match="/no/such: cannot be run: No such file"):
        await run_program(["/no/such"], environment={})


def _is_running(pid: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    # A zombie is dead, whoever is slow to wait for it.
    return text.rpartition(")")[2].split()[0] != "Z"
