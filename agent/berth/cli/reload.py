"""``berth reload``: let the daemon read its configuration again."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any, Final

from berth.cli.asking import Refused, ask
from berth.cli.exits import Exit
from berth.cli.output import Output
from berth.cli.parsing import Command, add_json


def run(arguments: argparse.Namespace, output: Output) -> Exit:
    """Ask for the reload, and say what came of it."""
    try:
        answer = ask(arguments.runtime_dir, "reload")
    except Refused as error:
        return _refused(error, output, as_json=arguments.json)
    if arguments.json:
        output.json({"refused": [], **answer})
    else:
        for line in render(answer):
            output.line(line)
    return Exit.WELL


def render(answer: Mapping[str, Any]) -> Iterator[str]:
    """What a reload has done, as lines."""
    applied, later = answer["applied"], answer["at_next_start"]
    if not applied and not later:
        yield f"{answer['config']}: nothing has changed"
    if applied:
        yield "in effect now:"
        yield from (f"  {change}" for change in applied)
    if later:
        yield "in effect at the next start (systemctl restart berthd):"
        yield from (f"  {change}" for change in later)
    yield from (f"warning: {warning}" for warning in answer["warnings"])


def _refused(error: Refused, output: Output, *, as_json: bool) -> Exit:
    faults = error.faults or (error.found,)
    if as_json:
        output.json({"refused": list(faults), "applied": [], "at_next_start": [], "warnings": []})
        return Exit.FINDING
    for fault in faults:
        output.line(fault)
    output.remark("berth: refused, the former configuration stays in force")
    return Exit.FINDING


COMMAND: Final = Command(
    name="reload",
    summary="let the daemon read its configuration again",
    description="Lets the running daemon read its configuration file again. "
    "A file with faults is refused as a whole: the faults are printed, the former configuration "
    "stays in force, and the command ends with 1. Otherwise tables of devices take effect at once; "
    "what is changed elsewhere takes effect at the next start, and is listed. "
    "Devices that somebody holds keep their group until they are free.",
    arguments=add_json,
    run=run,
    examples=(("berth check && berth reload", "check the file first, then take it"),),
)
