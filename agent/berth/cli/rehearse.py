"""``berth rehearse``: pods get a NIC, a device node and a GPU, without Kubernetes."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from berth.cli.output import Output
from berth.cli.parsing import Command


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Play the rehearsal; it prints by itself, and gives the exit code."""
    # Imported here: the daemon and all stand-ins come with it.
    from berth.rehearsal.story import RehearsalOptions, rehearse

    output.flush()
    return rehearse(RehearsalOptions(config=arguments.config, claim=arguments.claim))


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="rehearse by this configuration, not our own"
    )
    parser.add_argument(
        "--claim", type=Path, metavar="FILE", help="rehearse the claims and pods in this YAML file"
    )


COMMAND: Final = Command(
    name="rehearse",
    summary="pods get a NIC, a device node and a GPU: the whole main job, without Kubernetes",
    description="Runs the real daemon against stand-ins for kubelet, API server and container "
    "runtime, in network namespaces of its own with real links, and shows each stage with its "
    "time: discovered, published, prepared, attached, completed, returned. Nothing of this machine "
    "is touched. Ends with 0 only if every stage was verified.",
    arguments=_add_arguments,
    run=run,
    examples=(
        ("berth rehearse", "see it work"),
        ("berth rehearse --config agent.toml", "try a configuration before it goes to a node"),
    ),
)
