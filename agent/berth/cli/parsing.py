"""What a command is: its words, its arguments and what it does; and the parser made of them."""

from __future__ import annotations

import argparse
import difflib
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NoReturn, TypeAlias

import attrs

from berth import __version__
from berth.cli.output import Output
from berth.config.load import CONFIG
from berth.control import FOLDER
from berth.errors import printable

SUMMARY: Final = "Asks the node agent berthd, and looks at this machine as it does."

EPILOG: Final = """\
exit codes:
    0  well
    1  a finding, or a refusal, or an output that cannot be written
    2  the command line or the configuration is wrong
    3  no daemon is running, and the command needs one
  130  ended by Ctrl-C
  141  whoever read the output has gone
"""

Run: TypeAlias = "Callable[[argparse.Namespace, Output], int]"


def _no_arguments(_: argparse.ArgumentParser) -> None:
    return


@attrs.frozen(kw_only=True)
class Command:
    """One command.

    Attributes:
        summary: One line, for the list of commands.
        description: What it does, whom it asks, what its answer means.
        examples: Command lines, each with what it is for.
        arguments: Adds what is its own to its parser.
    """

    name: str
    summary: str
    description: str
    run: Run
    examples: tuple[tuple[str, str], ...] = ()
    arguments: Callable[[argparse.ArgumentParser], None] = _no_arguments


class _Parser(argparse.ArgumentParser):
    """A parser whose every fault says where the allowed is told, and which option was near."""

    def error(self, message: str) -> NoReturn:
        """End the process with usage, the fault and where more is told."""
        self.print_usage(sys.stderr)
        fault = f"{self.prog}: error: {printable(message)}\n"
        self.exit(2, f"{fault}{self.prog}: `{self.prog} --help` tells more\n")


class _CommandParser(_Parser):
    """The parser of one command, which knows better than that of all what belongs to it."""

    # argparse declares overloads for namespaces of other types, which nobody hands in here.
    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse, and refuse what is left over here, where the command's own usage is told."""
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}{self._nearest(unknown)}")
        return parsed, unknown

    def _nearest(self, unknown: Sequence[str]) -> str:
        # argparse hides from help what is for tests alone.
        known = [
            option
            for action in self._actions
            if action.help is not argparse.SUPPRESS
            for option in action.option_strings
        ]
        near = [difflib.get_close_matches(word.split("=")[0], known, n=1) for word in unknown]
        meant = dict.fromkeys(option for found in near for option in found)
        return f"; did you mean {' '.join(meant)}?" if meant else ""


def make_parser(commands: Sequence[Command]) -> argparse.ArgumentParser:
    """The parser of the whole command line; what it parses has the command as ``command``."""
    parser = _Parser(
        prog="berth",
        description=SUMMARY,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"berth {__version__}")
    _add_runtime_dir(parser, default=FOLDER)
    choices = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=_CommandParser)
    # As argparse does for the rest of the page.
    width = shutil.get_terminal_size().columns - 2
    for command in commands:
        added = choices.add_parser(
            command.name,
            help=command.summary,
            description=textwrap.fill(command.description, width),
            epilog=_examples(command),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        command.arguments(added)
        # The same option behind the command: there its default must not hide what stood before.
        _add_runtime_dir(added, default=argparse.SUPPRESS)
        added.set_defaults(command=command)
    return parser


def add_config(parser: argparse.ArgumentParser) -> None:
    """Let a command be told another configuration."""
    parser.add_argument(
        "--config",
        type=Path,
        default=CONFIG,
        metavar="FILE",
        help="the configuration (default: %(default)s)",
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """Let a command answer for programs."""
    parser.add_argument("--json", action="store_true", help="answer in JSON, for programs")


def _add_runtime_dir(parser: argparse.ArgumentParser, *, default: object) -> None:
    parser.add_argument("--runtime-dir", type=Path, default=default, help=argparse.SUPPRESS)


def _examples(command: Command) -> str | None:
    if not command.examples:
        return None
    lines = [f"  {line}\n      {meaning}" for line, meaning in command.examples]
    return "examples:\n" + "\n".join(lines)
