"""``berth check``: the configuration's faults, and what this machine lacks for it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Final

from berth.cli.checks.line import Level, Line
from berth.cli.exits import Exit
from berth.cli.output import Output
from berth.cli.parsing import Command, add_config, add_json
from berth.cli.wording import counted

_WIDTH: Final = 9


def run(arguments: argparse.Namespace, output: Output) -> Exit:
    """Check the file, and if it is good the machine."""
    # Imported here: what the checks look at is of no use to the other commands.
    from berth.cli.checks.examination import examine

    found = examine(arguments.config, runtime_dir=arguments.runtime_dir)
    faults, warnings = found.count(Level.FAULT), found.count(Level.WARNING)
    if arguments.json:
        output.json(
            {
                "config": str(arguments.config),
                "refused": found.refused,
                "faults": faults,
                "warnings": warnings,
                "lines": [_document(line) for line in found.lines],
                "groups": list(found.groups),
                "features": list(found.features),
            }
        )
    else:
        for text in render(found.lines):
            output.line(text)
        output.line()
        output.line(f"{counted(faults, 'fault')}, {counted(warnings, 'warning')}")
    if found.refused:
        output.remark("berth: the machine is looked at when these faults are mended")
        return Exit.USAGE
    return Exit.FINDING if faults else Exit.WELL


def render(lines: Sequence[Line]) -> Iterator[str]:
    """The lines for people, by topic in the order of their first appearance."""
    for topic in dict.fromkeys(line.topic for line in lines):
        yield topic
        for line in lines:
            if line.topic != topic:
                continue
            yield f"  {line.level.value:{_WIDTH}}{line.text}"
            if line.mend:
                yield f"  {'':{_WIDTH}}→ {line.mend}"


def _document(line: Line) -> dict[str, str]:
    return {
        "topic": line.topic,
        "level": line.level.value,
        "text": line.text,
        "mend": line.mend,
    }


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    add_json(parser)


COMMAND: Final = Command(
    name="check",
    summary="faults of the configuration, and what this machine lacks for it",
    description="Reads the configuration as the daemon does and prints every fault with file, line "
    "and mend; then it ends with 2. If the file is good it looks at the machine: kernel and "
    "modules, systemd's units, kubelet, the API server and what may be done there, the runtime's "
    "NRI and CDI, what each group selects, virtual functions, drivers and the host's network "
    "managers. Ends with 1 if something is missing that pods need. Nothing is changed.",
    arguments=_add_arguments,
    run=run,
    examples=(
        ("berth check", "is this node ready?"),
        ("berth check --config new.toml", "try a file before it is taken"),
    ),
)
