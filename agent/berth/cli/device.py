"""``berth device``: have the daemon forget a device that is gone."""

from __future__ import annotations

import argparse
from typing import Final

from berth.cli.asking import ask
from berth.cli.exits import Exit
from berth.cli.output import Output
from berth.cli.parsing import Command, add_json


def run(arguments: argparse.Namespace, output: Output) -> Exit:
    """Do what was asked for."""
    answer = ask(arguments.runtime_dir, "device", action=arguments.action, device=arguments.device)
    if arguments.json:
        output.json(answer)
    else:
        output.line(answer["done"])
    return Exit.WELL


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action", choices=("forget",), help="forget: drop what is remembered of the device"
    )
    parser.add_argument("device", metavar="NAME", help="the device's name, as in `berth devices`")
    add_json(parser)


COMMAND: Final = Command(
    name="device",
    summary="forget a device that is gone",
    description="`forget` drops what is remembered of a device that is lost and that nobody holds. "
    "A GPU that was listed since boot and is not any more stays in the lists, unhealthy, until "
    "the machine is booted anew or it is forgotten; of a device node its number in its group is "
    "kept for it until then. What is seen, or held, is refused.",
    arguments=_add_arguments,
    run=run,
    examples=(("berth device forget gpu-0000-3b-00-0", "that card will not come back"),),
)
