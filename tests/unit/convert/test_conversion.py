"""Whole files of the device plugins: what becomes of them, and that berth can read it."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from berth.config.document import parse
from berth.config.load import load
from berth.convert.conversion import Conversion, convert
from berth.errors import Faults
from berth.model import jsontext
from berth.nic.config.group import check_groups

GOLDEN = Path(__file__).parent / "golden"
FILES = sorted(GOLDEN.glob("*.json"))


def converted(path: Path) -> Conversion:
    """What becomes of a file."""
    return convert(jsontext.loads(path.read_text(encoding="utf-8")), where=path.name)


def golden(path: Path, seen: str) -> str:
    """What is to be written; ``GOLDEN=write`` makes it what was seen, to be looked at."""
    if os.environ.get("GOLDEN") == "write":
        path.write_text(seen, encoding="utf-8")
    return path.read_text(encoding="utf-8")


def faults_of(text: str) -> list[str]:
    """What stands in the way of a document."""
    with pytest.raises(Faults) as caught:
        convert(jsontext.loads(text), where="f")
    return [str(fault).removeprefix("f: ") for fault in caught.value.faults]


def groups_in(text: str) -> list[dict[str, Any]]:
    """The groups of a configuration."""
    groups: list[dict[str, Any]] = parse(text)["nic"]["group"]
    return groups


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_file_becomes_what_a_person_has_looked_at(path: Path) -> None:
    """The text, and the remarks beside it."""
    made = converted(path)
    remarks = "".join(f"{each}\n" for each in made.remarks)

    assert made.text == golden(path.with_suffix(".toml"), made.text)
    assert remarks == golden(path.with_suffix(".remarks.txt"), remarks)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_file_is_one_that_berth_loads(path: Path, tmp_path: Path) -> None:
    """Whole, and nothing in it is odd."""
    text = converted(path).text
    there = tmp_path / "agent.toml"
    there.write_text(text, encoding="utf-8")

    groups = load(there, also=(check_groups,)).nic.groups
    assert [group.name for group in groups] == [each["name"] for each in groups_in(text)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_key_has_a_comment_on_where_it_comes_from(path: Path) -> None:
    """Behind it or, where there is no room, above it; and no line is too long without need."""
    lines = converted(path).text.splitlines()

    for above, line in pairwise(lines):
        if " = " in line and not line.startswith("#"):
            assert "  # " in line or (above.startswith("# ") and "Note:" not in above), line
        assert len(line) <= 100


def test_prefix_of_the_command_line_stands_where_the_file_names_none() -> None:
    """As with the SR-IOV plugin's own option; a prefix in the file goes before it."""
    document = {
        "resourceList": [
            {"resourceName": "a", "selectors": {"vendors": ["8086"]}},
            {"resourceName": "b", "resourcePrefix": "", "selectors": {"vendors": ["15b3"]}},
            {
                "resourceName": "c",
                "resourcePrefix": "own.example",
                "selectors": {"rootDevices": []},
            },
        ]
    }
    groups = groups_in(convert(document, where="f", prefix="site.example").text)

    assert [each["resource"] for each in groups] == [
        "site.example/a",
        "site.example/b",
        "own.example/c",
    ]


def test_names_of_groups_are_labels_of_which_no_two_are_alike() -> None:
    """Whatever resources are called."""
    names = ["a_b", "A-b", "a__b", "x" * 63, "X" * 63]
    document = {
        "resourceList": [
            {"resourceName": name, "selectors": [{"vendors": ["8086"]}, {"vendors": ["15b3"]}]}
            for name in names
        ]
    }
    groups = groups_in(convert(document, where="f").text)

    assert [each["name"] for each in groups] == [
        *("a-b", "a-b-2"),
        *("a-b-3", "a-b-2-2"),
        *("a-b-4", "a-b-2-3"),
        *("x" * 63, "x" * 61 + "-2"),
        *("x" * 61 + "-3", "x" * 61 + "-4"),
    ]


def test_selectors_that_cannot_meet_one_nic_leave_nothing_to_each_other() -> None:
    """Only those that might are named, which keeps the file readable."""
    selectors = [
        {"vendors": ["8086"], "pfNames": ["ens1f0#0-3"]},
        {"vendors": ["8086"], "pfNames": ["ens1f0#4-7"]},
        {"vendors": ["8086"], "pfNames": ["ens1f1"]},
        {"vendors": ["8086"], "rootDevices": ["0000:41:00.0#0-1"]},
        {"vendors": ["15b3"], "isRdma": True},
        {"isRdma": True},
    ]
    document = {"resourceList": [{"resourceName": "r", "selectors": selectors}]}
    groups = groups_in(convert(document, where="f").text)

    assert [each.get("except", []) for each in groups] == [
        [],
        [],
        [],
        ["r", "r-2", "r-3"],
        [],
        ["r", "r-2", "r-3", "r-4", "r-5"],
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[]", ["has neither resourceList nor configList"]),
        ("{}", ["has neither resourceList nor configList"]),
        ('{"resourceList": [], "configList": []}', ["has both resourceList and configList"]),
        ('{"resourceList": []}', ["has an empty resourceList"]),
        ('{"configList": null}', ["has an empty configList"]),
        ('{"resourceList": {}}', ["resourceList is an object"]),
        ('{"resourceList": [7], "log": 1}', ["log is unknown", "resourceList[0] is 7"]),
        ('{"configList": [{}], "periodicUpdateInterval": "1m"}', ["periodicUpdateInterval is"]),
    ],
)
def test_document_that_is_neither_plugins_is_refused(text: str, told: list[str]) -> None:
    """In words that say what a file of theirs looks like."""
    said = faults_of(text)

    assert [each for each in told if not any(each in fault for fault in said)] == []


def test_no_more_than_a_hundred_faults_are_told() -> None:
    """A file of something else has thousands."""
    keys = ", ".join(f'"k{number}": 1' for number in range(20_000))
    said = faults_of(f'{{"resourceList": [{{{keys}}}]}}')

    assert len(said) == 101
    assert said[-1] == "may have more than these 100 faults"


def test_more_groups_than_one_file_takes_are_refused() -> None:
    """The configuration would be refused for it."""
    document = {"resourceList": [{"resourceName": "r", "selectors": [{}] * 257}]}

    with pytest.raises(Faults, match=r"makes too many groups: one file takes 256 of them"):
        convert(document, where="f")
