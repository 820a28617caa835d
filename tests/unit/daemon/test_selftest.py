"""What an upgrade asks of a release before it lets it take over."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import berth
from berth.daemon.selftest import load_every_module, read_state
from berth.errors import HostError, StateError
from berth.node.records.document import to_bytes
from berth.node.records.record import SCHEMA
from tests.unit.node.claimrecords import of_claim


def newer(content: bytes) -> bytes:
    """The same record as the next program may write it."""
    return json.dumps({**json.loads(content), "schema": SCHEMA + 1}).encode()


def put(state: Path, kind: str, content: bytes) -> Path:
    """Lay a record's file into the state folder."""
    path = state / kind / "one.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    return path


@pytest.fixture
def broken_module(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A release to whose modules one more belongs, which its author never ran."""
    (tmp_path / "halved.py").write_text("import nowhere\n")
    monkeypatch.setattr(berth, "__path__", [*berth.__path__, str(tmp_path)])


def test_every_module_can_be_loaded() -> None:
    """Nothing is missing here."""

    load_every_module()


@pytest.mark.usefixtures("broken_module")
def test_module_that_cannot_be_loaded_is_named() -> None:
    """One line says which module it is, and why."""

    with pytest.raises(HostError) as caught:
        load_every_module()

    assert str(caught.value) == (
        "berth.halved: cannot be loaded: ModuleNotFoundError: No module named 'nowhere'; "
        "install the package again"
    )


@pytest.mark.parametrize("kind", ["claims", "ledger"])
def test_record_of_a_newer_program_is_refused(tmp_path: Path, kind: str) -> None:
    """A start would refuse it too, since nothing may be undone that cannot be read."""
    path = put(tmp_path, kind, newer(to_bytes(of_claim("one"))))

    with pytest.raises(StateError, match=f"{path}: has schema {SCHEMA + 1}"):
        read_state(tmp_path)


@pytest.mark.parametrize("content", [to_bytes(of_claim("one")), b"{", b""])
def test_record_that_a_start_takes_or_sets_aside_is_left_as_it_is(
    tmp_path: Path, content: bytes
) -> None:
    """The start decides about it; here the running daemon's files are read, and no more."""
    path = put(tmp_path, "claims", content)

    read_state(tmp_path)

    assert [each for each in tmp_path.rglob("*") if each.is_file()] == [path]
    assert path.read_bytes() == content


def test_node_without_state_is_fine(tmp_path: Path) -> None:
    """Nothing is made there."""

    read_state(tmp_path / "state")

    assert list(tmp_path.iterdir()) == []
