"""``berth facts``: what was seen of this machine, for ``berth plan`` elsewhere and for reports."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from berth.cli.exits import Exit
from berth.cli.output import Output
from berth.cli.parsing import Command, add_config


def run(arguments: argparse.Namespace, output: Output) -> Exit:
    """Look at the machine, and write what was seen."""
    from berth.cli.factfile import facts_text, save_facts
    from berth.cli.looking import read_config_or_defaults, scan_machine

    config, called = read_config_or_defaults(arguments.config)
    scan = scan_machine(config)
    if called != str(arguments.config):
        output.remark(f"berth: looked at by {called}")
    text = facts_text(scan, hash_macs=arguments.hash_macs)
    if arguments.save is None:
        output.raw(text)
        return Exit.WELL
    save_facts(arguments.save, text)
    output.remark(f"berth: {len(scan.links)} links, {len(scan.functions)} PCI functions saved")
    return Exit.WELL


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--save", type=Path, metavar="FILE", help="write to a file, not to output")
    parser.add_argument(
        "--hash-macs",
        action="store_true",
        help="replace each hardware address by one made from its hash; equal ones stay equal",
    )
    add_config(parser)


COMMAND: Final = Command(
    name="facts",
    summary="what is seen of this machine, as JSON",
    description="Writes one look at this machine as JSON: PCI functions, links, addresses, routes. "
    "`berth plan --facts` reads it anywhere. It holds no secrets, but names, addresses and "
    "hardware addresses; the last can be hashed.",
    arguments=_add_arguments,
    run=run,
    examples=(
        ("berth facts --save node7.json --hash-macs", "for planning elsewhere, or for a report"),
    ),
)
