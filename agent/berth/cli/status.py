"""``berth status``: how the daemon fares."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from berth.cli.asking import ask
from berth.cli.exits import Exit
from berth.cli.output import Output
from berth.cli.parsing import Command, add_json
from berth.cli.wording import counted, duration, listed, tallied

_WIDTH: Final = 10


def run(arguments: argparse.Namespace, output: Output) -> Exit:
    """Show the daemon's state; a trouble is a finding."""
    answer = ask(arguments.runtime_dir, "status")
    if arguments.json:
        output.json(answer)
    else:
        for line in render(answer):
            output.line(line)
    return Exit.WELL if answer["well"] else Exit.FINDING


def render(answer: Mapping[str, Any]) -> Iterator[str]:
    """The answer as lines."""
    troubles = answer["troubles"]
    state = "well" if not troubles else counted(len(troubles), "trouble")
    up = duration(answer["uptime_s"])
    yield f"berthd {answer['version']}, process {answer['pid']}, up {up}: {state}"
    yield from (f"  {trouble}" for trouble in troubles)
    yield ""
    for name, text in _parts(answer):
        yield f"{name:{_WIDTH}}{text}"
    yield from (f"{'warning':{_WIDTH}}{warning}" for warning in answer["warnings"])


def _parts(answer: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "node", _node(answer["node"])
    yield "driver", answer["driver"]
    yield "config", answer["config"]
    yield "state", answer["state_dir"]
    yield "kubelet", answer["kubelet"]["state"] if answer["kubelet"] else "off: [dra] enabled"
    yield "API", _api(answer["api"])
    yield "NRI", _nri(answer["nri"])
    yield "slices", _slices(answer["publication"])
    if answer.get("features"):
        yield "features", _features(answer["features"])
    yield "plugins", listed(_plugin(plugin) for plugin in answer["plugins"])
    yield "NICs", _nics(answer["nics"])
    if answer["peripherals"]["seen"]:
        yield "devices", _nics(answer["peripherals"])
    if answer["gpu"] and answer["gpu"]["functions"]:
        yield "GPUs", _gpu(answer["gpu"])
    for resource in answer["resources"]:
        yield "resource", _resource(resource)
    yield "claims", _claims(answer["claims"])


def _gpu(gpu: Mapping[str, Any]) -> str:
    driver = f", driver {gpu['driver']}" if gpu["driver"] else ""
    detail = f": {gpu['detail']}" if gpu["detail"] else ""
    return f"{gpu['functions']} on the bus, session {gpu['state']}{driver}{detail}"


def _resource(resource: Mapping[str, Any]) -> str:
    state = "registered" if resource["registered"] else f"not registered: {resource['reason']}"
    return f"{resource['name']}, {resource['healthy']} of {resource['units']} to give, {state}"


def _node(node: Mapping[str, Any] | None) -> str:
    if node is None:
        return "not known yet"
    if not node["name"]:
        return f"unknown: {node['conflict']}"
    return f"{node['name']}, a name taken from {node['source']}"


def _api(api: Mapping[str, Any] | None) -> str:
    if api is None or not api["server"]:
        return f"not connected: {api['source']}" if api else "not connected"
    return f"{api['server']}, by {api['source']} ({api['kind']})"


def _nri(nri: Mapping[str, Any] | None) -> str:
    if nri is None:
        return "off"
    if nri["synchronized"]:
        return f"{nri['runtime']} at {nri['socket']}"
    return f"not connected: {nri['reason']}"


def _slices(publication: Mapping[str, Any] | None) -> str:
    if publication is None:
        return "not published yet"
    pools = [
        f"{name} (generation {pool['generation']}, {counted(pool['slices'], 'slice')}, "
        f"{counted(pool['devices'], 'device')})"
        for name, pool in publication["pools"].items()
    ]
    return f"{publication['state']}: {listed(pools, empty='no pool')}"


def _features(features: Sequence[Mapping[str, Any]]) -> str:
    """How many the cluster has; `berth check` tells each."""
    states = [feature["state"] for feature in features]
    return ", ".join(f"{states.count(each)} {each}" for each in ("on", "off", "unknown"))


def _plugin(plugin: Mapping[str, Any]) -> str:
    failed = plugin["failures"]
    failures = f" ({counted(failed, 'failure')})" if failed else ""
    return f"{plugin['name']} {plugin['phase']}{failures}"


def _nics(nics: Mapping[str, Any]) -> str:
    excluded = nics["excluded"]
    rest = f"; not offered: {tallied(excluded)}" if excluded else ""
    return f"{nics['seen']} seen, {nics['offered']} offered, {nics['held']} held{rest}"


def _claims(claims: Mapping[str, int]) -> str:
    states = {name: claims[name] for name in ("prepared", "preparing", "undoing") if claims[name]}
    away, faults = claims["nics_away"], claims["nics_at_fault"]
    parts = [f"{count} {name}" for name, count in states.items()]
    parts += [counted(away, "NIC") + " away from home"] if away else []
    parts += [counted(faults, "NIC") + " at fault"] if faults else []
    return listed(parts)


COMMAND: Final = Command(
    name="status",
    summary="how the daemon fares",
    description="Shows what the daemon tells of itself: its connections to kubelet, the API server "
    "and the container runtime, what it publishes, and how many claims it holds. "
    "Ends with 1 when something keeps pods from their devices.",
    arguments=add_json,
    run=run,
    examples=(
        ("berth status", "is all well?"),
        ("berth status --json", "the same for a monitoring system"),
    ),
)
