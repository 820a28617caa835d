"""What is made when the package is built: manual pages, completion; and its scripts."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from berth.cli.commands import COMMANDS
from berth.config.schema import Config
from tests.unit.config.test_reference import all_keys
from tools.completion import script
from tools.manpages import pages


def formatted(text: str) -> str:
    """A page as `man` shows it, in lines of endless length; it warns of nothing."""
    done = subprocess.run(
        ["man", "--warnings", "--local-file", "-"],
        check=True,
        capture_output=True,
        text=True,
        input=text,
        env={"PATH": "/usr/bin:/bin", "MANWIDTH": "1000", "LC_ALL": "C.UTF-8"},
    )
    assert done.stderr == ""
    return done.stdout


def completed(line: str, folder: Path) -> list[str]:
    """What bash offers for a command line whose last word is begun."""
    asked = """
        eval "$SCRIPT"
        read -ra COMP_WORDS <<<"$LINE"
        [[ $LINE != *' ' ]] || COMP_WORDS+=('')
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        _berth
        printf '%s\\n' "${COMPREPLY[@]}"
    """
    done = subprocess.run(
        ["bash", "-uc", asked],
        check=True,
        capture_output=True,
        text=True,
        cwd=folder,
        env={"SCRIPT": script(), "LINE": line, "PATH": "/usr/bin:/bin"},
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize("name", pages())
def test_page_is_shown_without_a_warning(name: str) -> None:
    """`man` takes it, and its name is what it is found by."""

    assert f"\n       {name.rpartition('.')[0]} - " in formatted(pages()[name])


def test_page_of_the_command_tells_every_command() -> None:
    """With its whole usage, and its examples."""
    page = formatted(pages()["berth.1"])

    for command in COMMANDS:
        assert f"   berth {command.name}" in page
        for line, _ in command.examples:
            assert f"# {line}\n" in page


def test_page_of_the_configuration_tells_every_key() -> None:
    """Each has its entry."""
    page = formatted(pages()["agent.toml.5"])

    for key in all_keys(Config):
        assert (
            f"       {key.name} " in page
            or f"       {key.name}\n" in page
            or f"{key.name}]" in page
        )


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("berth he", ["health"]),
        ("berth --v", ["--version"]),
        ("berth health ", ["list", "set", "clear"]),
        ("berth health set ", []),
        ("berth gpu rel", ["release"]),
        ("berth gpu release --f", ["--for"]),
        ("berth gpu release --for ", []),
        ("berth plan cl", ["claim.yaml"]),
        ("berth plan claim.yaml --facts f", ["facts.json"]),
        ("berth check --config ", ["claim.yaml", "facts.json"]),
        ("berth status --", ["--help", "--json"]),
        ("berth nothing ", []),
    ],
)
def test_completion(tmp_path: Path, line: str, words: list[str]) -> None:
    """Commands, their actions, options and files, each where it may stand."""
    for name in ("claim.yaml", "facts.json"):
        (tmp_path / name).touch()

    assert sorted(completed(line, tmp_path)) == sorted(words)


def test_completion_knows_every_command(tmp_path: Path) -> None:
    """In the order of help."""

    assert completed("berth ", tmp_path) == [each.name for each in COMMANDS]


@pytest.mark.parametrize("name", ["preinst", "postinst", "prerm", "postrm"])
def test_maintainer_script_is_sound(scripts: Path, name: str) -> None:
    """As it is in the package, with debhelper's parts."""

    subprocess.run(["shellcheck", "--shell=sh", scripts / name], check=True)


def test_completion_is_sound(tmp_path: Path) -> None:
    """Shellcheck finds nothing."""
    file = tmp_path / "berth"
    file.write_text(script())

    subprocess.run(["shellcheck", "--shell=bash", file], check=True)


def test_package_listens_for_another_python(scripts: Path) -> None:
    """Then it is compiled anew and restarted."""
    lines = (scripts / "triggers").read_text(encoding="utf-8").splitlines()

    assert "interest-noawait /usr/bin/python3" in lines
