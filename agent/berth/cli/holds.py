"""``berth holds``: who has which device, by which door."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any, Final

from berth.cli.asking import ask
from berth.cli.exits import Exit
from berth.cli.output import Output
from berth.cli.parsing import Command, add_json
from berth.cli.wording import listed

HEADS: Final = ("DEVICE", "HOLDER", "POD", "DOOR", "STAGE", "INTERFACE", "SLOTS", "FAULT")


def run(arguments: argparse.Namespace, output: Output) -> Exit:
    """Show every hold."""
    answer = ask(arguments.runtime_dir, "holds")
    if arguments.json:
        output.json(answer)
    elif not answer["holds"]:
        output.line("nobody holds a device")
    else:
        output.table(HEADS, [_row(hold) for hold in answer["holds"]])
    return Exit.WELL


def _row(hold: Mapping[str, Any]) -> tuple[str, ...]:
    stage = hold["stage"] or hold["state"]
    undoing = ", undoing" if hold["state"] == "undoing" else ""
    shared = hold["share"] or hold["slot_limit"] > 1
    return (
        hold["device"],
        hold["claim"] or hold["resource"],
        listed(hold["pods"], empty="-"),
        hold["door"],
        f"{stage}{undoing}",
        hold["interface"] or "-",
        f"{hold['slots']}/{hold['slot_limit']}" if shared else "-",
        hold["fault"] or "-",
    )


COMMAND: Final = Command(
    name="holds",
    summary="who has which device, by which door",
    description="Shows every device that somebody holds: a claim, or a container that asked for "
    "an extended resource. Of a NIC it shows how far it is on its way: reserved, staged (ready at "
    "home), attaching, attached (in the pod), returning, home, lost; or lent, if a CNI plugin "
    "moves it. Of a resource: reserved (asked for), bound (kubelet named its container), missed "
    "(not in kubelet's last list), undoing (a NIC is on its way home).",
    arguments=add_json,
    run=run,
    examples=(("berth holds", "who has what"),),
)
