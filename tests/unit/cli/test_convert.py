"""``berth convert`` as an operator runs it: what it writes where, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from berth.config.document import parse
from berth.rehearsal.manifests import SIZE_LIMIT
from tests.unit.cli.conftest import Berth

FILES = Path(__file__).parents[1] / "convert" / "golden"


def test_configuration_goes_to_output_and_notes_beside_it(berth: Berth) -> None:
    """So that the output can be made a file."""
    ran = berth("convert", FILES / "operator.json")
    written = (FILES / "operator.toml").read_text(encoding="utf-8")
    notes = (FILES / "operator.remarks.txt").read_text(encoding="utf-8").splitlines()

    assert ran.code == 0
    assert ran.out == written.replace("from operator.json", f"from {FILES / 'operator.json'}")
    assert ran.err.splitlines() == [f"note: {each}" for each in notes]


def test_config_map_is_read_by_its_key_and_prefix(berth: Berth, tmp_path: Path) -> None:
    """As `kubectl get configmap` gives it."""
    path = tmp_path / "map.yaml"
    file = json.dumps({"resourceList": [{"resourceName": "r", "selectors": {}}]})
    path.write_text(f"kind: ConfigMap\ndata:\n  a: '{{}}'\n  b: '{file}'\n", encoding="utf-8")
    ran = berth("convert", path, "--key", "b", "--resource-prefix", "site.example")

    assert ran.code == 0
    assert parse(ran.out)["nic"]["group"][0]["resource"] == "site.example/r"


def test_faults_are_a_line_each_and_nothing_is_written(berth: Berth, tmp_path: Path) -> None:
    """A part would give pods the NICs of what is left out."""
    path = tmp_path / "config.json"
    selectors = [{"vendors": ["8086"], "ddpProfiles": ["x"]}, {"pKeys": ["0x1"], "drivers": [1]}]
    resource = {"resourceName": "r", "selectors": selectors}
    path.write_text(json.dumps({"resourceList": [resource]}), encoding="utf-8")
    ran = berth("convert", path)

    assert (ran.code, ran.out) == (2, "")
    assert [line.split(" ")[:3] for line in ran.err.splitlines()] == [
        ["berth:", f"{path}:", "resourceList[0].selectors[0].ddpProfiles"],
        ["berth:", f"{path}:", "resourceList[0].selectors[1].pKeys"],
        ["berth:", f"{path}:", "resourceList[0].selectors[1].drivers[0]"],
    ]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("nowhere",), "nowhere: cannot be read: No such file or directory"),
        ((FILES / "edge.json", "--resource-prefix", "A_b"), "--resource-prefix: is 'A_b': it must"),
        ((FILES / "edge.json", "--key", "k"), f"{FILES / 'edge.json'}: is no ConfigMap"),
    ],
)
def test_what_cannot_be_used_is_told(berth: Berth, words: tuple[object, ...], told: str) -> None:
    """With 2, as for any configuration that is wrong."""
    ran = berth("convert", *words)

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"berth: {told}")


def test_file_that_is_too_large_is_refused(berth: Berth, tmp_path: Path) -> None:
    """A ConfigMap has at most 1 MiB; what is larger is something else."""
    path = tmp_path / "config.json"
    path.write_bytes(b"{" + b" " * SIZE_LIMIT)
    ran = berth("convert", path)

    assert (ran.code, ran.out) == (2, "")
    assert ran.err == f"berth: {path}: is larger than 1 MiB: no ConfigMap is\n"
