"""Write the pages berth(1), berthd(8) and agent.toml(5), which the package brings.

Usage: python -m tools.manpages FOLDER

They are made of what the pages of docs/reference are made of: the parsers of both programs, and the
tables and keys that the agent reads.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from berth import __version__
from berth.cli.commands import COMMANDS
from berth.cli.parsing import EPILOG, SUMMARY, Command
from berth.config.decode import Table, Tables, keys_of
from berth.config.schema import Config
from berth.daemon.start import make_parser
from tools.command_reference import (
    DAEMON_ENDS,
    OUTPUT,
    actions_of,
    arguments_of,
    meaning_of,
    shown,
    usage_of,
)
from tools.reference import INTRODUCTION, default_of

FILES: Final = (
    ("/etc/berth/agent.toml", "The configuration; see `agent.toml`(5)."),
    ("/usr/share/doc/berthd/agent.toml", "Every key with its default, to copy lines from."),
    ("/usr/share/doc/berthd/examples", "Configurations and Kubernetes objects."),
    ("/var/lib/berth", "Records of what was given to pods."),
)


def pages() -> dict[str, str]:
    """The text of each page, by its file name."""
    return {"berth.1": _berth(), "berthd.8": _berthd(), "agent.toml.5": _agent_toml()}


def _berth() -> str:
    lines = [
        *_head("berth", 1, SUMMARY),
        ".SH SYNOPSIS",
        *(line for each in COMMANDS for line in (_text(f"`{usage_of(each)}`"), ".br")),
        ".SH DESCRIPTION",
        *_paragraph(f"{SUMMARY} It runs on the node, as root."),
        ".SH COMMANDS",
        *(line for each in COMMANDS for line in _command(each)),
        ".SH OUTPUT",
        *_paragraph(OUTPUT),
        ".SH EXIT STATUS",
        *_list((code, told) for code, told in re.findall(r"^ +(\d+)  (.+)$", EPILOG, re.MULTILINE)),
        *_end("`berthd`(8), `agent.toml`(5)"),
    ]
    return _page(lines)


def _berthd() -> str:
    parser = make_parser()
    options = [each for each in actions_of(parser) if each.dest != "help"]
    synopsis = " ".join(["berthd", *(f"[{shown(each)}]" for each in options)])
    lines = [
        *_head("berthd", 8, parser.description or ""),
        ".SH SYNOPSIS",
        _text(f"`{synopsis}`"),
        ".SH DESCRIPTION",
        *_paragraph(
            f"{parser.description} It is the node's DRA driver, device plugin and NRI plugin, and "
            "is started by systemd as `berthd.service`; `berthd.socket` holds kubelet's sockets "
            "while it restarts. One runs per state folder: a second one ends at once and names "
            "the first."
        ),
        ".SH OPTIONS",
        *_list((shown(each), meaning_of(each)) for each in options),
        ".SH EXIT STATUS AND SIGNALS",
        *_paragraph(DAEMON_ENDS),
        *_end("`berth`(1), `agent.toml`(5)"),
    ]
    return _page(lines)


def _agent_toml() -> str:
    lines = [
        *_head("agent.toml", 5, "Configuration of the node agent berthd."),
        ".SH DESCRIPTION",
        *_paragraph(INTRODUCTION),
        *_tables(Config, ()),
        *_end("`berth`(1), `berthd`(8)"),
    ]
    return _page(lines)


def _tables(kind: type[Any], above: tuple[str, ...]) -> Iterator[str]:
    for key in keys_of(kind):
        if isinstance(key.form, Table | Tables):
            path = (*above, key.name)
            name = ".".join(path)
            header = f"[[{name}]]" if isinstance(key.form, Tables) else f"[{name}]"
            yield f".SH {_text(header)}"
            yield from _paragraph(key.meaning)
            yield from _list(_keys(key.form.kind))
            yield from _tables(key.form.kind, path)


def _keys(kind: type[Any]) -> Iterator[tuple[str, str]]:
    for key in keys_of(kind):
        if not isinstance(key.form, Table | Tables):
            unit = f", in {key.unit}" if key.unit else ""
            default = default_of(key)
            told = default if default in {"required", "not given"} else f"default: {default}"
            yield key.name, f"{key.meaning} ({key.form.label}{unit}; {told})"


def _command(command: Command) -> Iterator[str]:
    yield f".SS {_text(usage_of(command))}"
    yield from _paragraph(command.description)
    yield from _list((shown(each), meaning_of(each)) for each in arguments_of(command))
    for line, meaning in command.examples:
        yield ".PP"
        yield _text(f"# `{line}`")
        yield ".br"
        yield _text(meaning)


def _head(name: str, section: int, summary: str) -> Iterator[str]:
    yield f'.TH {name.upper()} {section} "" "berth {__version__}"'
    yield ".SH NAME"
    yield rf"{_text(name)} \- {_text(summary[0].lower() + summary[1:].rstrip('.'))}"


def _end(others: str) -> Iterator[str]:
    yield ".SH FILES"
    yield from _list(FILES)
    yield ".SH SEE ALSO"
    yield _text(others)


def _list(items: Iterable[tuple[str, str]]) -> Iterator[str]:
    for name, meaning in items:
        yield ".TP"
        yield _text(f"`{name}`")
        yield _text(meaning)


def _paragraph(text: str) -> Iterator[str]:
    yield ".PP"
    # One sentence a line, so that the formatter knows where each ends.
    yield from map(_text, text.replace(". ", ".\n").splitlines())


def _text(text: str) -> str:
    """A line that roff takes for text, with what stands between backticks in bold."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-").replace("'", r"\(aq")
    bold = re.sub(r"`([^`]*)`", r"\\fB\1\\fR", escaped)
    return rf"\&{bold}" if bold.startswith(".") else bold


def _page(lines: Iterable[str]) -> str:
    return '.\\" Made by tools/manpages.py of the sources.\n' + "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Write them."""
    (folder,) = map(Path, arguments)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
