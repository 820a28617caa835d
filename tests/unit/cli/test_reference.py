"""The reference pages say what the command and the daemon do."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from berth.cli.commands import COMMANDS
from berth.cli.exits import Exit
from berth.cli.looking import check_config
from berth.cli.parsing import EPILOG, make_parser
from berth.config.document import parsed
from berth.nic.record import Stage
from berth.node.views import devices_view, health_view, holds_view, status_view, why_view
from berth.rehearsal.manifests import read_manifests
from berth.runtime.supervisor import Phase
from tests.unit.cli.test_asking import REFUSED
from tests.unit.node.views.illness import HEALTH, courses_of
from tests.unit.node.views.scenes import INVENTORY, claim_record, nic_record
from tests.unit.node.views.test_views import WELL
from tests.unit.node.views.test_why import known
from tools.command_reference import PAGE, page

ROOT = PAGE.parent.parent.parent
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/*/*.md")])
CONTROL = PAGE.parent / "control.md"
RECORD = claim_record(nic_record(Stage.ATTACHED))


def commands_of(text: str) -> Iterator[list[str]]:
    """Every command line of ours in the code blocks of a page, without pipes and redirections."""
    for block in re.findall(r"^```(?:sh|console)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            for part in re.split(r"&&|\||>", re.sub(r"^# ", "", line).split(" #")[0]):
                if part.strip().startswith("berth "):
                    yield shlex.split(part)


@pytest.mark.parametrize("page_path", PAGES, ids=lambda path: path.stem)
def test_commands_in_the_pages_can_be_typed(page_path: Path) -> None:
    """Each command line that a page shows is one that the command takes, with files that exist."""

    parser = make_parser(COMMANDS)
    for words in commands_of(page_path.read_text(encoding="utf-8")):
        arguments = parser.parse_args(words[1:])
        for file in (getattr(arguments, "claim", None), getattr(arguments, "config", None)):
            if file is not None and Path(file).parts[0] == "configs":
                assert (ROOT / file).is_file(), words


def test_page_is_up_to_date() -> None:
    """``make docs`` was run after the last change of the command."""

    assert page() == PAGE.read_text(encoding="utf-8")


def test_page_tells_every_command() -> None:
    """Each command has its heading, its words and an example."""

    text = page()

    for each in COMMANDS:
        section = text.partition(f"## `berth {each.name}`\n")[2].partition("\n## ")[0]
        assert f"berth {each.name}" in section
        assert "```console" in section


def keys_of(value: Any) -> Iterator[str]:
    """Every key of an answer, but names that are data."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield key
            if key not in {"pools", "excluded", "attributes"}:
                yield from keys_of(inner)
    if isinstance(value, list):
        for item in value:
            yield from keys_of(item)


@pytest.mark.parametrize(
    ("verb", "answer"),
    [
        ("status", status_view(WELL)),
        ("devices", devices_view(INVENTORY, HEALTH)),
        ("health.list", health_view(HEALTH, INVENTORY, courses_of)),
        ("holds", holds_view([RECORD], [])),
        ("why", why_view("web", known(RECORD, troubles=(REFUSED,)))),
        ("why", why_view("ens1f0", known(RECORD))),
    ],
)
def test_page_tells_every_key_of_an_answer(verb: str, answer: dict[str, Any]) -> None:
    """Each key that a verb's answer has is described in its section, or where that points to."""

    text = CONTROL.read_text(encoding="utf-8")
    section = text.partition(f"## `{verb}`\n")[2].partition("\n## ")[0]
    for other in ("status", "devices", "holds", "health.list"):
        if f"as in `{other}`" in section or f"as in [`{other}`]" in section:
            section += text.partition(f"## `{other}`\n")[2].partition("\n## ")[0]

    assert {key for key in keys_of(answer) if f"`{key}`" not in section} == set()


def test_page_tells_every_word_of_stages_and_phases() -> None:
    """Words that programs compare are listed."""

    text = CONTROL.read_text(encoding="utf-8")

    assert all(f"`{word.value}`" in text for word in (*Stage, *Phase))


def test_how_to_pages_name_commands_that_exist() -> None:
    """Every ``berth X`` in the pages for operators is a command."""

    pages = [*(PAGE.parent.parent / "how-to").glob("*.md"), CONTROL]
    words = {
        word.partition(" ")[0].strip("`.,:;)")
        for path in pages
        for word in path.read_text(encoding="utf-8").split("`berth ")[1:]
    }

    assert len(pages) > 3
    assert words <= {each.name for each in COMMANDS}


def blocks(language: str) -> Iterator[Any]:
    """Code blocks of the pages for operators, each with its page's name."""
    for path in sorted((PAGE.parent.parent / "how-to").glob("*.md")):
        parts = path.read_text(encoding="utf-8").split(f"```{language}\n")[1:]
        for number, part in enumerate(parts, start=1):
            yield pytest.param(part.partition("```")[0], id=f"{path.stem} {number}")


@pytest.mark.parametrize("text", list(blocks("toml")))
def test_how_to_configurations_are_good(text: str, tmp_path: Path) -> None:
    """What operators copy is taken as it stands; what is another program's is no fault of TOML."""

    path = tmp_path / "agent.toml"
    path.write_text(text, encoding="utf-8")
    if "containerd" in text:
        assert parsed("page", text)["version"] == 2
    else:
        assert check_config(path).faults == ()


@pytest.mark.parametrize("text", list(blocks("yaml")))
def test_how_to_claims_are_good(text: str, tmp_path: Path) -> None:
    """Manifests that operators copy are ones that an API server would take."""

    path = tmp_path / "claim.yaml"
    path.write_text(text, encoding="utf-8")

    assert read_manifests(path).templates


def test_page_and_help_tell_the_same_exit_codes() -> None:
    """Each code that a command may end with is told in both places, in the same words."""

    told = re.findall(r"^\| (\d+) \| (.*?) \|$", page(), re.MULTILINE)

    assert [int(code) for code, _ in told] == [int(code) for code in Exit]
    assert [f"{code:>5}  {meaning}" for code, meaning in told] == EPILOG.splitlines()[1:]
