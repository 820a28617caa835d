"""The command line as a whole: help, wrong words, exit codes, odd terminals and readers."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import IO

import attrs
import pytest

from berth import __version__
from berth.cli import command, holds
from berth.cli.commands import COMMANDS
from berth.cli.exits import Exit
from berth.cli.output import Output
from berth.cli.parsing import Command
from berth.cli.wording import counted, duration, listed, tallied
from berth.errors import ClaimError, ConfigError, Faults, HostError, printable
from tests.unit.cli.conftest import Berth


@pytest.mark.parametrize("each", COMMANDS, ids=lambda each: each.name)
def test_help_of_each_command(berth: Berth, each: Command) -> None:
    """Each command says what it does and how it is used, and hides what is for tests."""

    ran = berth(each.name, "--help")

    assert ran.code == 0
    assert each.description[:20] in " ".join(ran.out.split())
    assert "--runtime-dir" not in ran.out
    assert each.summary in " ".join(berth("--help").out.split())
    assert "examples:" in ran.out


def test_version(berth: Berth) -> None:
    """The version is that of the package."""

    ran = berth("--version")

    assert (ran.code, ran.out) == (0, f"berth {__version__}\n")


@pytest.mark.parametrize(
    "words",
    [(), ("chekk",), ("check", "--jsn"), ("check", "--js"), ("why",), ("plan",), ("holds", "x")],
)
def test_end_when_the_command_line_is_wrong(berth: Berth, words: tuple[str, ...]) -> None:
    """A wrong word is answered by usage and 2, and nothing is guessed."""

    ran = berth(*words)

    assert (ran.code, ran.out) == (2, "")
    assert "usage: berth" in ran.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("", "the following arguments are required: COMMAND"),
        ("check --conf x", "unrecognized arguments: --conf x; did you mean --config?"),
        ("facts --hash-mac --save x", "unrecognized arguments: --hash-mac; did you mean"),
        ("why a b", "unrecognized arguments: b"),
        ("status --runtime-di x", "unrecognized arguments: --runtime-di x"),
    ],
)
def test_wrong_words_are_answered_by_the_usage_of_their_command(
    berth: Berth, words: str, told: str
) -> None:
    """What is allowed is told for the very command: its usage, what was meant, where more is."""

    usage, *_, fault, more = berth(*words.split()).err.splitlines()
    prog = " ".join(["berth", *words.split()[:1]])

    assert usage.startswith(f"usage: {prog} ")
    assert fault.startswith(f"{prog}: error: {told}")
    assert "--runtime-dir" not in fault
    assert more == f"{prog}: `{prog} --help` tells more"


@pytest.mark.parametrize("each", COMMANDS, ids=lambda each: each.name)
def test_help_is_as_wide_as_the_terminal(
    berth: Berth, monkeypatch: pytest.MonkeyPatch, each: Command
) -> None:
    """Long descriptions are wrapped as the rest is."""

    monkeypatch.setenv("COLUMNS", "80")
    lines = berth(each.name, "--help").out.splitlines()

    assert max(map(len, lines[: lines.index("examples:")])) <= 80


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("/x", "is bad"), Exit.USAGE),
        (Faults("/x", [ConfigError("/x", "is bad")]), Exit.USAGE),
        (HostError("/x", "is gone"), Exit.FINDING),
        (ClaimError("claim a/b", "is refused"), Exit.FINDING),
        (KeyboardInterrupt(), Exit.INTERRUPTED),
    ],
)
def test_end_when_a_command_fails(
    berth: Berth, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: Exit
) -> None:
    """What went wrong is one line and one code, never a traceback."""

    def fail(*_: object) -> int:
        raise error

    monkeypatch.setattr(command, "COMMANDS", (attrs.evolve(holds.COMMAND, run=fail),))
    ran = berth("holds")

    assert ran.code == code
    assert "Traceback" not in ran.err
    assert str(error) in ran.err


def test_end_when_the_reader_has_gone() -> None:
    """A reader that goes ends the command as it ends any other, without a word."""

    reading, writing = os.pipe()
    os.close(reading)
    words = [sys.executable, "-m", "berth", "devices", "--config", "/nowhere"]
    done = subprocess.run(words, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)

    assert done.returncode == Exit.CUT_OFF
    assert b"Traceback" not in done.stderr
    assert b"Exception" not in done.stderr


@pytest.mark.parametrize("words", [("devices", "--config", "/nowhere"), ("--help",)])
def test_end_when_the_output_is_full(words: tuple[str, ...]) -> None:
    """An answer that cannot be written is a fault with the system's reason, and no traceback."""

    with Path("/dev/full").open("wb") as full:
        done = end_of(*words, stdout=full)

    assert done.returncode == Exit.FINDING
    assert done.stderr.splitlines()[-1] == (
        "berth: standard output: cannot write: No space left on device; "
        "free space on that file system"
    )
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", ["devices --config /nowhere", "--help", "rehearse"])
def test_end_when_there_is_no_output(words: str) -> None:
    """A command whose output was closed says so before it does anything."""

    done = end_of(*words.split(), before=("sh", "-c", 'exec "$@" >&-', "sh"))

    assert done.returncode == Exit.FINDING
    assert done.stderr == (
        "berth: standard output: is closed; give the command somewhere to write\n"
    )


@pytest.mark.parametrize("closing", ["2>&-", "2>/dev/full"])
def test_end_when_nobody_hears_remarks(closing: str) -> None:
    """A remark that cannot be written changes neither answer nor exit code."""

    words = ("devices", "--config", "/nowhere", "--json")
    done = end_of(*words, before=("sh", "-c", f'exec "$@" {closing}', "sh"))

    assert done.returncode == Exit.WELL
    assert '"by": "scan"' in done.stdout


def end_of(
    *words: str, before: tuple[str, ...] = (), stdout: IO[bytes] | int = subprocess.PIPE
) -> subprocess.CompletedProcess[str]:
    """The end of a command that is a process of its own, with its output buffered as usual."""
    return subprocess.run(
        [*before, sys.executable, "-m", "berth", *words],
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )


def test_output_when_the_terminal_has_other_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a terminal's encoding lacks is written as an escape."""

    buffer = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(buffer, encoding="ascii"))
    output = Output.standard()
    output.line("a → b")
    output.flush()

    assert buffer.getvalue() == b"a \\u2192 b\n"


def test_table_when_the_terminal_is_narrow() -> None:
    """Cells are folded at the terminal's width, and lost nowhere."""

    out = io.StringIO()
    Output(out, io.StringIO(), columns=80).table(["A", "B"], [["x" * 10, "word " * 30]])
    lines = out.getvalue().splitlines()

    assert max(map(len, lines)) <= 80
    assert out.getvalue().split().count("word") == 30


def test_table_when_nobody_looks() -> None:
    """In a pipe each row is one line, however long."""

    out = io.StringIO()
    Output(out, io.StringIO()).table(["A", "B"], [["x" * 300, "y " * 500]], indent=2)

    assert [len(line) for line in out.getvalue().splitlines()] == [305, 1303]


def test_table_keeps_marks_of_markup() -> None:
    """What looks like markup is text."""

    out = io.StringIO()
    Output(out, io.StringIO()).table(["A"], [["[red]x[/red]"]])

    assert out.getvalue() == "A\n[red]x[/red]\n"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain → text", "plain → text"),
        ("\x1b[2J", r"\x1b[2J"),
        ("a\tb", r"a\tb"),
        ("\udc80", r"\udc80"),
        ("\u202egnp", r"\u202egnp"),
    ],
)
def test_printable(text: str, shown: str) -> None:
    """Characters that are not seen are shown as their escapes."""

    assert printable(text) == shown


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (0.4, "0 s"),
        (59.6, "1 min"),
        (61, "1 min 1 s"),
        (3600, "1 h"),
        (90061, "1 d 1 h"),
    ],
)
def test_duration(seconds: float, words: str) -> None:
    """The two largest units are enough."""

    assert duration(seconds) == words


def test_counts_and_lists() -> None:
    """Numbers agree with their words, and nothing has a word too."""

    assert [counted(n, "slice") for n in (0, 1, 2)] == ["0 slices", "1 slice", "2 slices"]
    assert counted(2, "child", "children") == "2 children"
    assert (listed([]), listed(["a", 1]), listed([], empty="-")) == ("none", "a, 1", "-")
    assert tallied({"b": 1, "a": 1, "c": 3}) == "3 c, 1 a, 1 b"
