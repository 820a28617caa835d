"""The command line: which command it names, and how its end becomes an exit code."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from berth.cli.asking import NoDaemon, Refused
from berth.cli.commands import COMMANDS
from berth.cli.exits import Exit
from berth.cli.output import Output
from berth.cli.parsing import make_parser
from berth.errors import BerthError, ConfigError, Faults
from berth.runtime.streams import Unheard, let_go


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        The exit code; argparse itself ends the process with 2 for a wrong command line.
    """
    try:
        return _run(argv, Output.standard())
    except Unheard as error:
        let_go(sys.stdout)
        if error.is_cut_off:
            return Exit.CUT_OFF
        if sys.stderr is not None:
            sys.stderr.writelines(f"{line}\n" for line in told(error))
        return Exit.FINDING
    except KeyboardInterrupt:
        return Exit.INTERRUPTED


def _run(argv: Sequence[str] | None, output: Output) -> int:
    try:
        arguments = make_parser(COMMANDS).parse_args(argv)
    except SystemExit:
        # Help and version are output as any other.
        output.flush()
        raise
    try:
        code = arguments.command.run(arguments, output)
    except Unheard:
        raise
    except BerthError as error:
        for line in told(error):
            output.remark(line)
        code = exit_of(error)
    output.flush()
    return int(code)


def told(error: BerthError) -> Iterator[str]:
    """An error as the command tells it: one line per fault."""
    faults: Sequence[object] = (error,)
    if isinstance(error, Faults | Refused):
        faults = error.faults or faults
    return (f"berth: {fault}" for fault in faults)


def exit_of(error: BerthError) -> Exit:
    """The exit code for an error that ended a command."""
    if isinstance(error, NoDaemon):
        return Exit.NO_DAEMON
    return Exit.USAGE if isinstance(error, ConfigError) else Exit.FINDING
