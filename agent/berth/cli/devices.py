"""``berth devices``: every NIC and peripheral of this machine, offered or the reason why not."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from berth.cli.asking import NoDaemon, ask
from berth.cli.exits import Exit
from berth.cli.output import Output
from berth.cli.parsing import Command, add_json
from berth.cli.wording import health_word, listed
from berth.config.load import CONFIG

HEADS: Final = (
    "DEVICE",
    "KIND",
    "GROUP",
    "PLACE",
    "PCI",
    "DRIVER",
    "DOOR",
    "OFFERED",
    "HEALTH",
    "HOLDER",
)


def run(arguments: argparse.Namespace, output: Output) -> Exit:
    """List the devices by the daemon's word, or by a look of our own."""
    if arguments.config is not None:
        answer = _look(arguments.config, output, "this is what berthd would find by")
    else:
        try:
            answer = {"by": "daemon", **ask(arguments.runtime_dir, "devices")}
        except NoDaemon:
            words = "berthd is not running; this is what it would find by"
            answer = _look(CONFIG, output, words)
    if arguments.json:
        output.json(answer)
    else:
        _show(answer, output)
    return Exit.WELL


def _look(config: Path, output: Output, words: str) -> Mapping[str, Any]:
    # Imported here: the daemon's answer needs none of it.
    from berth.cli.looking import look, read_config_or_defaults
    from berth.node.views.devices import devices_view

    settings, called = read_config_or_defaults(config)
    view = devices_view(look(settings).inventory)
    output.remark(f"berth: {words} {called}, without claims that are held")
    return {"by": "scan", **view}


def _show(answer: Mapping[str, Any], output: Output) -> None:
    devices = answer["devices"]
    if devices:
        output.table(HEADS, [_row(device) for device in devices])
    else:
        output.line("no device was found")
    shared = [device for device in devices if device["mode"] == "shared"]
    if any(not device["path"] for device in shared):
        output.line()
        output.line("Bandwidth of shared NICs is accounted among claims, and not enforced.")
    if any(device["path"] for device in shared):
        output.line()
        output.line("Who shares a device is not kept from what the others do with it.")
    for warning in answer["warnings"]:
        output.remark(f"warning: {warning}")


def _row(device: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        device["name"],
        f"{device['kind']}, shared" if device["mode"] == "shared" else device["kind"],
        device["group"] or "-",
        device["ifname"] or device["path"] or "-",
        device["pci"] or "-",
        device["driver"] or "-",
        device["door"],
        _offered(device),
        _health(device),
        listed(device["held_by"], empty="-"),
    )


def _offered(device: Mapping[str, Any]) -> str:
    """Yes, or the reason; of one that is held and would not be offered any more, both."""
    reason = ": ".join(part for part in (device["reason"], device["detail"]) if part)
    if device["health"]:
        return f"while held; it is {device['health']}"
    if not reason:
        return "yes" if device["offered"] else "no"
    return f"while held; then {reason}" if device["offered"] else reason


def _health(device: Mapping[str, Any]) -> str:
    """The verdict; nobody looks at what no group selects."""
    is_watched = device["group"] or device["held_by"]
    return health_word(device["verdict"]) if is_watched else "-"


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="look at the machine by this configuration, and do not ask the daemon",
    )
    add_json(parser)


COMMAND: Final = Command(
    name="devices",
    summary="every device of this machine, offered or the reason why not",
    description="Lists every NIC of this machine, every virtual link that a group names, and every "
    "device node that a group of [[generic]] selects: its name in slices, its kind, the group that "
    "takes it, by which door it is asked for, whether it is offered, or why not, and its health. "
    f"The running daemon is asked; without one the machine is looked at by {CONFIG}, and the "
    "command says so.",
    arguments=_add_arguments,
    run=run,
    examples=(
        ("berth devices", "what is offered, and why the rest is not"),
        ("berth devices --config new.toml", "what would be offered by another file"),
        ("berth devices --json", "the same for programs"),
    ),
)
