"""``berth health``: how devices are, and what a person knows better."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from berth.cli.asking import ask
from berth.cli.exits import Exit
from berth.cli.output import Output
from berth.cli.parsing import Command, add_json
from berth.cli.wording import counted, health_word, listed
from berth.errors import ConfigError

HEADS: Final = ("DEVICE", "KIND", "HEALTH", "SINCE", "HOLDER")


def run(arguments: argparse.Namespace, output: Output) -> Exit:
    """Show, set or clear."""
    action = arguments.action
    if action == "list":
        return _list(arguments, output)
    if not arguments.device:
        raise ConfigError("DEVICE", "is missing", rule=f"health {action} is of one device")
    fields = {"device": arguments.device, "reason": arguments.reason or ""}
    if action == "set":
        fields["message"] = arguments.message
    answer = ask(arguments.runtime_dir, f"health.{action}", **fields)
    if arguments.json:
        output.json(answer)
    else:
        output.line(answer["done"])
        output.line(f"{answer['name']} is {health_word(answer['verdict'])} now")
    return Exit.WELL


def _list(arguments: argparse.Namespace, output: Output) -> Exit:
    answer = ask(arguments.runtime_dir, "health.list", device=arguments.device or "")
    if arguments.json:
        output.json(answer)
    else:
        _show(answer["devices"], output, is_one=bool(arguments.device))
        for warning in answer["warnings"]:
            output.remark(f"warning: {warning}")
    sick = any(device["status"] == "unhealthy" for device in answer["devices"])
    return Exit.FINDING if sick else Exit.WELL


def _show(every: Sequence[Mapping[str, Any]], output: Output, *, is_one: bool) -> None:
    # Nobody looks at NICs that no group selects.
    devices = [one for one in every if is_one or one["group"] or one["held_by"] or one["findings"]]
    if devices:
        output.table(HEADS, [_row(device) for device in devices])
    else:
        output.line("no device is watched")
    left = len(every) - len(devices)
    if left:
        output.line(
            f"{counted(left, 'NIC')} that no group selects {'is' if left == 1 else 'are'} "
            "not watched"
        )
    for device in devices:
        if device["findings"] or device["status"] == "unknown" or is_one:
            output.line()
            for line in _details(device):
                output.line(line)


def _row(device: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        device["name"],
        device["kind"],
        health_word(device),
        device["findings"][0]["since"] if device["findings"] else "-",
        listed(device["held_by"], empty="-"),
    )


def _details(device: Mapping[str, Any]) -> Iterator[str]:
    yield f"{device['name']} is {health_word(device)}"
    for finding in device["findings"]:
        of = f" of {finding['subject']}" if finding["subject"] != device["identity"] else ""
        yield (
            f"  {finding['code']}{of}, {finding['severity']}, by {finding['source']} "
            f"since {finding['since']}{_prospect(finding)}"
        )
        yield f"    {finding['message']}"
    if device["status"] == "unknown":
        yield f"  {device['message']}"
    for asker in device["asked_by"]:
        if asker["refused"]:
            yield f"  {asker['source']} cannot ask it: {asker['refused']}"


def _prospect(finding: Mapping[str, Any]) -> str:
    if finding["healing"]:
        return "; it is over, and counts until it was well for long enough"
    return "; a reboot does not heal it" if finding["permanent"] else ""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action",
        nargs="?",
        default="list",
        choices=("list", "set", "clear"),
        help="list (the default): how devices are, and what speaks against them; set: take one out "
        "of service; clear: take that back, or drop a cause that is over",
    )
    parser.add_argument(
        "device",
        nargs="?",
        metavar="DEVICE",
        help="its name in slices, interface name, path, PCI address, identity or hardware address",
    )
    parser.add_argument(
        "reason",
        nargs="?",
        metavar="REASON",
        help="a word of a-z, 0-9 and -, such as fan-broken; for clear a cause that list shows",
    )
    parser.add_argument(
        "--message", default="", metavar="TEXT", help="with set: what others are told, on pods too"
    )
    add_json(parser)


COMMAND: Final = Command(
    name="health",
    summary="how devices are; take one out of service, or back",
    description="`list` shows the verdict on every device, what speaks against it and since when, "
    "and ends with 1 when one is unhealthy. `set` takes a device out of service: no pod gets it, "
    "over restarts and reboots, until `clear`; pods that have it keep it. `clear` takes that back; "
    "with a reason it drops every cause of that name, whoever found it, and has the device asked "
    "anew, so that what is still wrong is back at once. What is of a whole GPU is cleared there, "
    "for all its parts.",
    arguments=_add_arguments,
    run=run,
    examples=(
        ("berth health", "which device is sick, and why?"),
        (
            'berth health set gpu-0000-3b-00-0 fan-broken --message "is replaced on Friday"',
            "no pod gets it from now on",
        ),
        ("berth health clear gpu-0000-3b-00-0", "it is replaced"),
        ("berth health clear gpu-0000-3b-00-0 xid-48", "that fault is dealt with"),
    ),
)
