"""``berth why``: what keeps a pod, or what becomes of a device."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any, Final

from berth.cli.asking import ask
from berth.cli.exits import Exit
from berth.cli.output import Output
from berth.cli.parsing import Command, add_json
from berth.cli.wording import health_word, listed, tallied
from berth.errors import ConfigError


def run(arguments: argparse.Namespace, output: Output) -> Exit:
    """Tell all that the daemon knows of the thing that is asked about."""
    if not arguments.what.strip():
        raise ConfigError("POD|DEVICE|PATH", "is empty", rule="it must be a name, address or UID")
    answer = ask(arguments.runtime_dir, "why", what=arguments.what)
    if arguments.json:
        output.json(answer)
    else:
        for line in render(answer):
            output.line(line)
    return Exit.WELL if answer["found"] else Exit.FINDING


def render(answer: Mapping[str, Any]) -> Iterator[str]:
    """The answer as lines."""
    for subject in answer["found"]:
        yield from _SHAPES.get(subject["kind"], _pod)(subject)
        yield ""
    if not answer["found"]:
        yield from _unknown(answer["asked"])
    yield from _node(answer["node"])


def _pod(subject: Mapping[str, Any]) -> Iterator[str]:
    uid = f" ({subject['uid']})" if subject["uid"] else ""
    yield f"{subject['kind']} {subject['name']}{uid}"
    yield from _verdict(subject)
    for claim in subject["claims"]:
        if claim["claim"]:
            told = subject["verdict"].endswith(claim["says"])
            yield from _several(
                f"  claim {claim['claim']}: ", "as above" if told else claim["says"]
            )
        for device in claim["devices"]:
            request = f'request "{device["request"]}"' if claim["claim"] else device["resource"]
            yield f"    {device['device']} ({request}): {device['says']}"


def _device(subject: Mapping[str, Any]) -> Iterator[str]:
    device = subject["device"]
    yield f"device {subject['name']} ({device['identity']})"
    yield from _verdict(subject)
    yield from _health(device)
    for key in (
        "kind",
        "group",
        "mode",
        "door",
        "resource",
        "path",
        "ifname",
        "pci",
        "driver",
        "mac",
    ):
        if device[key]:
            yield f"  {key}: {device[key]}"
    for holder in subject["holders"]:
        pods = listed(holder["pods"], empty="no pod")
        who = f"{holder['holder']} ({pods})" if holder["claim"] else holder["holder"]
        yield f"  {who}: {holder['says']}"


def _path(subject: Mapping[str, Any]) -> Iterator[str]:
    yield f"path {subject['name']}"
    yield from _verdict(subject)
    for opinion in subject["groups"]:
        says = opinion["says"] or "all its conditions hold"
        yield f"  group {opinion['group']}: {says}"


def _health(device: Mapping[str, Any]) -> Iterator[str]:
    verdict = device["verdict"]
    if verdict is not None and (device["group"] or device["held_by"]):
        yield f"  health: {health_word(verdict)}"
        if verdict["message"]:
            yield f"    {verdict['message']}"


_SHAPES: Final = {"device": _device, "node": _path}


def _verdict(subject: Mapping[str, Any]) -> Iterator[str]:
    yield from _several("  → ", subject["verdict"])
    if subject["mend"]:
        yield f"    {subject['mend']}"


def _several(head: str, says: str) -> Iterator[str]:
    """What is said, a marked line for each further fault of a text that has several."""
    first, *more = says.split("\n")
    yield f"{head}{first}"
    yield from (f"      - {each}" for each in more)


def _unknown(asked: str) -> Iterator[str]:
    yield f"{asked}: no pod, claim or device of this node is so called"
    yield "  Kubelet asks for a claim when its pod has come to this node. `kubectl describe pod`"
    yield "  tells where the pod is, and why the scheduler finds no device for it."
    yield "  Devices are what `berth devices` lists; of a device node that is not among them ask by"
    yield "  its path, such as /dev/ttyUSB0."
    yield ""


def _node(node: Mapping[str, Any]) -> Iterator[str]:
    nics = node["nics"]
    excluded = f"; not offered: {tallied(nics['excluded'])}" if nics["excluded"] else ""
    offered, held = nics["offered"], nics["held"]
    yield f"this node: {nics['seen']} NICs, {offered} offered, {held} held{excluded}"
    yield from (f"  {trouble}" for trouble in node["troubles"])


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what",
        metavar="POD|DEVICE|PATH",
        help="a pod or claim as NAMESPACE/NAME, name or UID; a device by its name in slices, "
        "interface name, PCI address, identity or hardware address; the path of a device node",
    )
    add_json(parser)


COMMAND: Final = Command(
    name="why",
    summary="why a pod does not start, or what becomes of a device",
    description="Tells everything that this node knows of a pod that does not start: its claims, "
    "their devices, how far each NIC is on its way, the last fault in the kernel's words, and what "
    "is waited for. Of a device it tells why it is not offered, or who holds it; of a device node "
    "what each group of [[generic]] says of it. "
    "Ends with 1 when nothing here is so called.",
    arguments=_add_arguments,
    run=run,
    examples=(
        ("berth why default/web-0", "why does this pod not start?"),
        ("berth why ens1f0", "why is this NIC not offered?"),
        ("berth why /dev/ttyUSB0", "which group takes this node, or why none does"),
    ),
)
