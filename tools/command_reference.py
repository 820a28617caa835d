"""Write docs/reference/command.md from the parsers of the command, or see that it is current.

Usage: python -m tools.command_reference [--check]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import Final

from berth.cli.commands import COMMANDS
from berth.cli.parsing import SUMMARY, Command
from tools.page import FOLDER, make

PAGE: Final = FOLDER / "command.md"

OUTPUT: Final = """\
What was asked for goes to standard output, remarks and errors go to standard error.
With `--json` the output is one JSON object: keys may be added to it, none is renamed or taken away.
A table on a terminal is folded at its width; elsewhere each row is one line.
Characters that cannot be seen are written as escapes, since links may be called almost anything.
"""

INTRODUCTION: Final = f"""\
# The command `berth`

<!-- Made by tools/command_reference.py from agent/berth/cli; edit the meaning there. -->

{SUMMARY}
It runs on the node, as root.
Commands that ask the daemon do so by its control socket, described in [control.md](control.md).

## Exit codes

| code | meaning |
| --- | --- |
| 0 | well |
| 1 | a finding, or a refusal, or an output that cannot be written |
| 2 | the command line or the configuration is wrong |
| 3 | no daemon is running, and the command needs one |
| 130 | ended by Ctrl-C |
| 141 | whoever read the output has gone |

## Output

{OUTPUT}
## Commands
"""

FORMS: Final = """\
## JSON

`status`, `holds`, `why` and `devices` give the daemon's answers, which [control.md](control.md) \
describes.
`devices` adds `by`: `daemon`, or `scan` when there was none to ask, or a file was named.
`reload` gives the daemon's answer and `refused`, a list of faults that is empty when the file was \
taken.

`check`:

| key | value |
| --- | --- |
| `config` | the file |
| `faults`, `warnings` | how many lines are of that level |
| `lines` | one object per line: `topic`, `level` (`ok`, `note`, `warning`, `fault`), `text`, \
`mend` |
| `features` | one object per [feature](kubernetes-features.md): `feature`, `gate`, `state` \
(`on`, `off`, `unknown`), `why`, `config` |
| `groups` | one object per group: `name`, `mode`, `nics` (how many it takes), `offered`, \
`excluded` (how many are not offered, by reason) |

`plan`:

| key | value |
| --- | --- |
| `claims` | one object per claim that a pod uses |
| `claims[].claim`, `.pods` | `namespace/name`, and the names of its pods |
| `claims[].allocated` | whether the file had an allocation; else one was made up |
| `claims[].faults` | why it would be refused, as kubelet would show it; empty when it would not |
| `claims[].notes` | what was taken for granted |
| `claims[].devices` | one object per device: `device`, `request`, `mode`, `interface`, `steps` |
| `claims[].devices[].steps` | in order: `place` (`home` or `pod`), `field` (what asks for it), \
`what` (netlink message and values) |
| `notes` | what was left out of the file, or made up |

`facts`:

| key | value |
| --- | --- |
| `schema` | 1; another number is another form |
| `berth` | the version that looked |
| `hashed` | whether hardware addresses were replaced |
| `scan` | what was seen; its form belongs to the version, and other versions may refuse it |
"""


DAEMON_ENDS: Final = """\
It ends with 0 after a stop that was asked for, with 1 when the machine does not allow the start, \
and with 2 when the configuration is refused.
SIGTERM and SIGINT stop it: claims in work are finished first.
SIGHUP lets it read the configuration again, as `berth reload` does.
"""

DAEMON: Final = f"""\
## The daemon `berthd`

`berthd [--config FILE] [--selftest] [--version]`

systemd starts it; [the package](../how-to/install.md) brings the units.
One runs per state folder: a second one ends at once and names the first.

| argument | meaning |
| --- | --- |
| `--config FILE` | the configuration (default: /etc/berth/agent.toml) |
| `--selftest` | load everything, read the configuration and the records, then end; it is silent \
when all is well, and changes nothing |
| `--version` | tell the version |

{DAEMON_ENDS}"""


def page() -> str:
    """The whole page."""
    listed = [f"- [`berth {each.name}`](#berth-{each.name}): {each.summary}" for each in COMMANDS]
    return "\n".join([INTRODUCTION, *listed, "", *_sections(), DAEMON, FORMS])


def _sections() -> Iterator[str]:
    for each in COMMANDS:
        yield f"## `berth {each.name}`\n"
        actions = arguments_of(each)
        yield f"`{usage_of(each)}`\n"
        yield _sentences(each.description)
        if actions:
            yield "| argument | meaning |"
            yield "| --- | --- |"
            yield from (f"| `{_cell(shown(a))}` | {_cell(meaning_of(a))} |" for a in actions)
            yield ""
        if each.examples:
            yield "```console"
            yield "\n".join(f"# {line}    # {meaning}" for line, meaning in each.examples)
            yield "```\n"


def arguments_of(command: Command) -> Sequence[argparse.Action]:
    """What a command takes, in the order of its help."""
    parser = argparse.ArgumentParser(prog=f"berth {command.name}", add_help=False)
    command.arguments(parser)
    return actions_of(parser)


def actions_of(parser: argparse.ArgumentParser) -> Sequence[argparse.Action]:
    """What a parser takes."""
    return parser._actions  # noqa: SLF001 - argparse has no public list of them


def usage_of(command: Command) -> str:
    """The form of a command line."""
    actions = arguments_of(command)
    words = [f"[{shown(a)}]" if a.option_strings else shown(a) for a in actions]
    return " ".join(["berth", command.name, *words])


def shown(action: argparse.Action) -> str:
    """An argument as it is written."""
    name = str(action.metavar or "|".join(action.choices or (action.dest,)))
    if not action.option_strings:
        return f"[{name}]" if action.nargs == "?" else name
    option = action.option_strings[-1]
    return option if action.nargs == 0 else f"{option} {name}"


def meaning_of(action: argparse.Action) -> str:
    """What help says of an argument."""
    return (action.help or "") % {"default": action.default}


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _sentences(text: str) -> str:
    """One sentence per line, as in every page."""
    return text.replace(". ", ".\n") + "\n"


if __name__ == "__main__":
    sys.exit(make(PAGE, page, sys.argv[1:]))
