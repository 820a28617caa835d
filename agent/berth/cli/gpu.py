"""``berth gpu``: who has GPUs open, and letting go of them for a reset or another driver."""

from __future__ import annotations

import argparse
import re
from typing import Final

from berth.cli.asking import ask
from berth.cli.exits import Exit
from berth.cli.output import Output
from berth.cli.parsing import Command, add_json
from berth.cli.wording import duration
from berth.errors import ConfigError

HEADS: Final = ("PROCESS", "COMMAND", "OPEN", "CONTROL GROUP")
NODES: Final = "/dev/nvidia"
RELEASE_S: Final = 600.0
_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600}
_MOST_S: Final = 24 * 3600


def run(arguments: argparse.Namespace, output: Output) -> Exit:
    """Do what was asked for."""
    if arguments.action == "holders":
        return _holders(arguments, output)
    for_s = _span(arguments.span)
    answer = ask(arguments.runtime_dir, "gpu", action=arguments.action, for_s=for_s)
    if arguments.json:
        output.json(answer)
    elif arguments.action == "release":
        output.line(f"berthd has let go of the driver for {duration(for_s)}, or until a bind")
        output.line("`berth gpu holders` names who else has GPUs open")
    else:
        output.line(f"berthd has taken up the driver again: {answer['session']}")
    return Exit.WELL


def _holders(arguments: argparse.Namespace, output: Output) -> Exit:
    # Imported here: nothing else that the command does needs it.
    from berth.host.openers import openers

    found = openers(NODES)
    if arguments.json:
        output.json(
            {
                "holders": [
                    {
                        "pid": one.pid,
                        "command": one.command,
                        "group": one.group,
                        "paths": list(one.paths),
                    }
                    for one in found
                ]
            }
        )
    elif not found:
        output.line("no process that can be seen here has a GPU open")
    else:
        rows = [(str(one.pid), one.command, ", ".join(one.paths), one.group) for one in found]
        output.table(HEADS, rows)
    return Exit.WELL


def _span(text: str) -> float:
    found = re.fullmatch(r"(\d{1,6})([smh]?)", text)
    seconds = int(found[1]) * _UNITS[found[2]] if found is not None else 0
    if not 0 < seconds <= _MOST_S:
        raise ConfigError("--for", f"is {text!r}", rule="it must be a time such as 90s, 10m or 2h")
    return float(seconds)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action",
        choices=("holders", "release", "resume"),
        help="holders: name every process that has a GPU open; release: let go of the driver for a "
        "time; resume: take it up again before that",
    )
    parser.add_argument(
        "--for",
        dest="span",
        default="10m",
        metavar="TIME",
        help="how long berthd stays away from the driver, such as 90s, 10m (the default) or 2h",
    )
    add_json(parser)


COMMAND: Final = Command(
    name="gpu",
    summary="who has GPUs open; let go of them for a reset or another driver",
    description="`holders` names every process on this machine that has a GPU open; run it as "
    "root, since others' files are seen by root alone. `release` has berthd close its session with "
    "the driver for a time, so that a GPU can be reset, divided anew, or the driver replaced; pods "
    "keep what they have, and the GPUs stay offered as they were last known. It takes the driver "
    "up again when the time is over, when a driver is bound, or by `resume`.",
    arguments=_add_arguments,
    run=run,
    examples=(
        ("berth gpu holders", "why does this GPU not let itself be reset?"),
        ("berth gpu release --for 30m", "before the driver is replaced"),
    ),
)
