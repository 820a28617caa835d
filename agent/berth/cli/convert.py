"""``berth convert``: the configuration of another device plugin as one of ours."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from berth.cli.exits import Exit
from berth.cli.output import Output
from berth.cli.parsing import Command
from berth.errors import ConfigError


def run(arguments: argparse.Namespace, output: Output) -> Exit:
    """Turn one file."""
    # Imported here: nothing else that the command does needs it.
    from berth.convert.conversion import convert
    from berth.convert.source import find
    from berth.rehearsal.manifests import documents_of, read_whole

    path = Path("/dev/stdin") if arguments.file == Path("-") else arguments.file
    source = find(
        read_whole(path, rule="no ConfigMap is"),
        str(path),
        key=arguments.key,
        read_yaml=documents_of,
    )
    made = convert(source.document, where=source.where, prefix=_prefix(arguments.resource_prefix))
    for remark in made.remarks:
        output.remark(f"note: {remark}")
    output.raw(made.text)
    return Exit.WELL


def _prefix(text: str) -> str:
    from berth.convert.forms import RESOURCE_PREFIX

    if text and RESOURCE_PREFIX.parse(text) is None:
        raise ConfigError(
            "--resource-prefix", f"is {text!r}", rule=f"it must be {RESOURCE_PREFIX.what}"
        )
    return text


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help="the plugin's config.json, or the ConfigMap with it in YAML or JSON; `-` reads "
        "standard input",
    )
    parser.add_argument(
        "--key",
        default="",
        metavar="KEY",
        help="which key of the ConfigMap, where it has several, such as one for each node",
    )
    parser.add_argument(
        "--resource-prefix",
        default="",
        metavar="DOMAIN",
        help="domain of resources that name none, as the SR-IOV plugin's option of this name says "
        "it (default: intel.com; rdma for the RDMA plugin)",
    )


COMMAND: Final = Command(
    name="convert",
    summary="the configuration of the SR-IOV or RDMA device plugin as one for berth",
    description="Reads the configuration of the SR-IOV network device plugin (resourceList) or of "
    "the shared RDMA device plugin (configList), and writes groups of NICs that offer the same "
    "NICs under the same resource names; each line says where it comes from. What is another way "
    "with berth is told on standard error and in the text. What cannot be turned is told with its "
    "place, and nothing is written then: were a resource left out, others would take its NICs. "
    "It needs neither root nor the daemon, and looks at no NIC.",
    arguments=_add_arguments,
    run=run,
    examples=(
        ("berth convert config.json > agent.toml", "then look at it, and `berth check` it"),
        (
            "kubectl -n kube-system get configmap sriovdp-config -o yaml | berth convert -",
            "as it is in the cluster",
        ),
        ("berth convert sriovdp.yaml --key node-7", "one node's part of a ConfigMap"),
    ),
)
