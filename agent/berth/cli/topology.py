"""``berth topology``: what each container has of this node, and whether that lies together."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from berth.cli.asking import ask
from berth.cli.exits import Exit
from berth.cli.output import Output
from berth.cli.parsing import Command, add_json
from berth.cli.picture.owners import has_something
from berth.cli.picture.sentences import sentences
from berth.cli.wording import counted, listed, memory_size
from berth.model.numa import cpus_text, numbers_text

DEVICE_HEADS: Final = ("DEVICE", "KIND", "PLACE", "PCI", "NUMA", "PCIE ROOT", "CONTAINERS")
HEADS: Final = ("HAS", "NUMA", "PCIE ROOT", "BY")

_PICTURE_MODE: Final = 0o644


def run(arguments: argparse.Namespace, output: Output) -> Exit:
    """Show the node, as words, for programs, or as a picture."""
    answer = ask(arguments.runtime_dir, "topology", pod=arguments.pod or "")
    if arguments.svg is not None:
        _draw(answer, arguments.svg)
    if arguments.json:
        output.json(answer)
    elif arguments.svg is None:
        _show(answer, output, whole=not arguments.pod)
    for warning in answer["warnings"]:
        output.remark(f"warning: {warning}")
    return Exit.WELL


def _draw(answer: Mapping[str, Any], path: Path) -> None:
    # Imported here: words need none of it.
    from berth.cli.picture.drawing import draw
    from berth.runtime.files import write_file

    write_file(path, draw(answer).encode(), mode=_PICTURE_MODE)


def _show(answer: Mapping[str, Any], output: Output, *, whole: bool) -> None:
    """Show the node and everybody who has something; of one pod that alone, with all of it."""
    pods = answer["pods"]
    if whole:
        _show_node(answer, output)
        idle = [pod for pod in pods if not any(map(has_something, pod["containers"]))]
        pods = [pod for pod in pods if pod not in idle]
        for pod in pods:
            output.line()
            _show_pod(pod, answer["numa"], output)
        if idle:
            output.line()
            output.line(f"{counted(len(idle), 'pod')} more without anything of their own")
    else:
        for pod in pods:
            _show_pod(pod, answer["numa"], output)


def _show_node(answer: Mapping[str, Any], output: Output) -> None:
    for node in answer["numa"]:
        memory = f", {memory_size(node['memory_bytes'])}" if node["memory_bytes"] else ""
        output.line(f"NUMA node {node['id']}: CPUs {numbers_text(node['cpus']) or '-'}{memory}")
    if answer["devices"]:
        output.line()
        output.table(DEVICE_HEADS, map(_device_row, answer["devices"]))


def _device_row(device: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        device["name"],
        device["kind"],
        device["ifname"] or device["path"] or "-",
        device["pci"] or "-",
        numbers_text(device["numa"]) or "-",
        device["pcie_root"] or "-",
        listed(device["containers"] or device["held_by"], empty="-"),
    )


def _show_pod(pod: Mapping[str, Any], nodes: Iterable[Mapping[str, Any]], output: Output) -> None:
    output.line(f"pod {pod['namespace']}/{pod['name']}")
    for container in pod["containers"]:
        verdict = "; ".join(sentences(container)) or "nothing of its own"
        output.line(f"  {container['name']}: {verdict}")
        rows = [*_shared_rows(container, nodes), *map(_given_row, container["devices"])]
        if rows:
            output.table(HEADS, rows, indent=4)


def _shared_rows(
    container: Mapping[str, Any], nodes: Iterable[Mapping[str, Any]]
) -> Iterable[tuple[str, ...]]:
    """CPUs and memory."""
    cpus = set(container["cpus"])
    if cpus:
        near = [node["id"] for node in nodes if cpus & {*node["cpus"]}]
        yield cpus_text(cpus), numbers_text(near) or "-", "-", container["cpus_of"]
    for block in container["memory"]:
        name = f"{block['type']} {memory_size(block['bytes'])}"
        yield name, numbers_text(block["numa"]) or "-", "-", container["memory_of"]


def _given_row(device: Mapping[str, Any]) -> tuple[str, ...]:
    by = f"claim {device['claim']}" if device["claim"] else device["resource"]
    where = numbers_text(device["numa"]) or "-"
    return device["name"], where, device["pcie_root"] or "-", by


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "pod",
        nargs="?",
        metavar="POD",
        help="this pod alone: its name, or namespace/name",
    )
    add_json(parser)
    parser.add_argument(
        "--svg",
        type=Path,
        metavar="FILE",
        help="draw the node into this file, as SVG",
    )


COMMAND: Final = Command(
    name="topology",
    summary="what each container has of the node, and whether that lies together",
    description="Shows the NUMA nodes with their CPUs and memory, the devices with their NUMA node "
    "and PCIe root, and of each container the CPUs and memory that kubelet's static managers set "
    "apart for it and its devices: ours by either door, and other plugins' and drivers', as far as "
    "kubelet lists them. Each container is aligned if one NUMA node is near to all of it, else "
    "spread, and so are its devices by their PCIe root. What a container shares with all others "
    "is not told. The daemon asks kubelet, so it must run.",
    arguments=_add_arguments,
    run=run,
    examples=(
        ("berth topology", "the node, and everybody who has something of it"),
        ("berth topology default/web", "does this pod have its CPUs and its NIC on one node?"),
        ("berth topology --svg node.svg", "a picture of it"),
        ("berth topology --json | jq -r '.pods[].containers[].numa.says'", "for programs"),
    ),
)
