"""The command line: which command it names, and how its end becomes an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from berth.cli.asking import NoDaemon
from berth.cli.commands import COMMANDS
from berth.cli.exits import Exit
from berth.cli.output import Output
from berth.cli.parsing import make_parser
from berth.errors import BerthError, ConfigError, Faults


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        The exit code; argparse itself ends the process with 2 for a wrong command line.
    """
    arguments = make_parser(COMMANDS).parse_args(argv)
    output = Output.standard()
    try:
        try:
            code = arguments.command.run(arguments, output)
        except BerthError as error:
            output.remark(told(error))
            code = exit_of(error)
        output.flush()
    except BrokenPipeError:
        _leave_pipe()
        return Exit.CUT_OFF
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    return int(code)


def told(error: BerthError) -> str:
    """An error as the command tells it: one line per fault."""
    faults: Sequence[object] = error.faults if isinstance(error, Faults) else (error,)
    return "\n".join(f"berth: {fault}" for fault in faults)


def exit_of(error: BerthError) -> Exit:
    """The exit code for an error that ended a command."""
    if isinstance(error, NoDaemon):
        return Exit.NO_DAEMON
    return Exit.USAGE if isinstance(error, ConfigError) else Exit.FINDING


def _leave_pipe() -> None:
    """Keep the interpreter from writing to a pipe that nobody reads, when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
