"""``berth plan``: what would be done for a claim, or why it would be refused."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from berth.cli.exits import Exit
from berth.cli.output import Output
from berth.cli.parsing import Command, add_config, add_json
from berth.cli.wording import listed
from berth.errors import BerthError, ConfigError, Faults

if TYPE_CHECKING:
    # Loaded when the command runs: it is the daemon's whole judgement.
    from berth.cli.planning import ClaimPlan, DevicePlan

_T = TypeVar("_T")

STANDARD_INPUT: Final = Path("/dev/stdin")

HEADS: Final = ("PLACE", "FIELD", "WHAT")


def run(arguments: argparse.Namespace, output: Output) -> Exit:
    """Plan the claims of a file."""
    from berth.cli.factfile import read_facts
    from berth.cli.looking import read_config, read_gear, scan_machine
    from berth.cli.planning import plan_claims
    from berth.rehearsal.manifests import read_manifests

    faults: list[BerthError] = []
    config = _read(read_config, arguments.config, faults)
    claim = STANDARD_INPUT if arguments.claim == Path("-") else arguments.claim
    manifests = _read(read_manifests, claim, faults)
    facts = arguments.facts
    scan = _read(read_facts, facts, faults) if facts is not None else None
    if config is None or manifests is None or faults:
        raise Faults(str(claim), faults)
    # A file of facts tells of the network alone.
    gear = read_gear(config) if scan is None else None
    plans = plan_claims(manifests, scan or scan_machine(config), config, gear=gear)
    if arguments.json:
        output.json({"claims": [_document(each) for each in plans], "notes": list(manifests.notes)})
    else:
        for note in manifests.notes:
            output.remark(f"note: {note}")
        for number, each in enumerate(plans):
            if number:
                output.line()
            _show(each, output)
    return Exit.FINDING if any(each.faults for each in plans) else Exit.WELL


def _read(read: Callable[[Path], _T], path: Path, faults: list[BerthError]) -> _T | None:
    """What a file says; ``None`` when it cannot be used, with its faults put to the others."""
    try:
        return read(path)
    except Faults as error:
        faults.extend(error.faults)
    except ConfigError as error:
        faults.append(error)
    return None


def _show(claim: ClaimPlan, output: Output) -> None:
    output.line(f"claim {claim.name} (pod {listed(claim.pods)})")
    if not claim.allocated and not claim.faults:
        devices = listed(device.device for device in claim.devices)
        output.line(f"  it has no allocation: as if it were given {devices}")
    for note in claim.notes:
        output.line(f"  note: {note}")
    if claim.faults:
        output.line("  refused:")
    for fault in claim.faults:
        output.line(f"  {fault}")
    for device in claim.devices:
        output.line(f'  {device.device} (request "{device.request}"): {_way(device)}')
        for gift in device.gifts:
            output.line(f"    {gift}")
        if device.steps:
            output.table(HEADS, _rows(device), indent=4)


def _way(device: DevicePlan) -> str:
    if device.mode == "look":
        return "only looked at (adminAccess), nothing is moved"
    if device.mode == "give":
        return "stays where it is; each container that uses the claim gets"
    return f"{device.mode}, in the pod as {device.interface}"


def _rows(device: DevicePlan) -> Iterator[tuple[str, str, str]]:
    from berth.cli.steptext import words

    for step in device.steps:
        yield step.place.value, step.field, words(step.change)


def _document(claim: ClaimPlan) -> dict[str, Any]:
    return {
        "claim": claim.name,
        "pods": list(claim.pods),
        "allocated": claim.allocated,
        "faults": list(claim.faults),
        "notes": list(claim.notes),
        "devices": [
            {
                "device": device.device,
                "request": device.request,
                "mode": device.mode,
                "interface": device.interface,
                "gifts": list(device.gifts),
                "steps": [
                    {"place": place, "field": field, "what": what}
                    for place, field, what in _rows(device)
                ],
            }
            for device in claim.devices
        ],
    }


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "claim",
        type=Path,
        metavar="CLAIM.yaml",
        help="ResourceClaims and ResourceClaimTemplates, with the pods that use them if you like; "
        "`-` reads standard input",
    )
    parser.add_argument(
        "--facts",
        type=Path,
        metavar="FILE",
        help="plan for the machine of which `berth facts --save` made this file, "
        "instead of this one",
    )
    add_config(parser)
    add_json(parser)


COMMAND: Final = Command(
    name="plan",
    summary="what would be done for a claim, step by step, or why it would be refused",
    description="Takes a YAML file with claims or claim templates and tells what berth would do "
    "for them on this machine: every netlink step with its place (at home, or in the pod) and the "
    "field that asks for it; or every fault, in the words that kubelet would show in the pod's "
    "event. Nothing is changed. A claim without an allocation gets one out of the devices that the "
    "groups offer. Claims that the running daemon holds are not considered. "
    "Ends with 1 if a claim would be refused.",
    arguments=_add_arguments,
    run=run,
    examples=(
        ("berth plan claim.yaml", "try a claim on this node"),
        ("kubectl get resourceclaim uplink -o yaml | berth plan -", "one that is in the cluster"),
        (
            "berth plan claim.yaml --facts node7.json --config agent.toml",
            "try it far from any node",
        ),
    ),
)
