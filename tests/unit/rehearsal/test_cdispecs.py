"""CDI files as a runtime reads them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from berth.cdi.document import CdiDevice, render
from berth.errors import RemoteProtocolError
from berth.model.edits import Edits, Mount
from berth.rehearsal.cdispecs import resolve


def spec(**changes: Any) -> dict[str, Any]:
    """A valid file of one device."""
    return {
        "cdiVersion": "0.5.0",
        "kind": "berth.dev/nic",
        "devices": [{"name": "1-a", "containerEdits": {"env": ["A=1"]}}],
        **changes,
    }


def put(folder: Path, name: str, value: Any) -> None:
    """Write a file."""
    folder.mkdir(exist_ok=True)
    text = value if isinstance(value, str) else json.dumps(value)
    (folder / name).write_text(text, encoding="utf-8")


def test_our_own_files_are_resolved(tmp_path: Path) -> None:
    """What our CDI document renders, a runtime reads back as edits, each name once."""

    mount = Mount(host_path="/h/m.json", container_path="/c/m.json", options=("ro", "bind"))
    devices = [
        CdiDevice(name="7-a", edits=Edits(env=("X=1",))),
        CdiDevice(name="7-b", edits=Edits(mounts=(mount,))),
    ]
    (tmp_path / "f.json").write_bytes(render("berth.dev/nic", devices))

    ids = ["berth.dev/nic=7-a", "berth.dev/nic=7-b", "berth.dev/nic=7-a"]
    edits = resolve(ids, [tmp_path])

    assert edits.env == ("X=1",)
    assert edits.mounts == (mount,)


def test_general_edits_of_a_file_are_applied_once(tmp_path: Path) -> None:
    """The file's own edits come before its devices', however many of them are used."""

    devices = [{"name": n, "containerEdits": {"env": [f"{n}=1"]}} for n in ("a", "b")]
    put(tmp_path, "f.json", spec(devices=devices, containerEdits={"env": ["ALL=1"]}))

    edits = resolve(["berth.dev/nic=a", "berth.dev/nic=b"], [tmp_path])

    assert edits.env == ("ALL=1", "a=1", "b=1")


def test_missing_device_is_refused_in_containerds_words(tmp_path: Path) -> None:
    """A name that no file has fails the container."""

    with pytest.raises(
        RemoteProtocolError,
        match=r"CDI device injection failed: unresolvable CDI devices berth\.dev/nic=gone",
    ):
        resolve(["berth.dev/nic=gone"], [tmp_path, tmp_path / "missing"])


@pytest.mark.parametrize(
    "value",
    [
        "{",
        spec(cdiVersion="9.9.9"),
        spec(cdiVersion="0.3.0"),
        spec(kind="1vendor/nic"),
        spec(kind="nic"),
        spec(devices=[]),
        spec(extra=1),
        spec(devices=[{"name": "a", "containerEdits": {}}]),
        spec(devices=[{"name": "-a", "containerEdits": {"env": ["A=1"]}}]),
        spec(devices=[{"name": "a", "containerEdits": {"intelRdt": {}}}]),
        spec(devices=2 * [{"name": "a", "containerEdits": {"env": ["A=1"]}}]),
    ],
)
def test_broken_file_offers_nothing_and_is_named(tmp_path: Path, value: Any) -> None:
    """A file that is not valid CDI gives none of its devices, and the refusal names it."""

    put(tmp_path, "bad.json", value)

    with pytest.raises(RemoteProtocolError, match=r"bad\.json"):
        resolve(["berth.dev/nic=1-a"], [tmp_path])


def test_broken_file_does_not_touch_others(tmp_path: Path) -> None:
    """Another vendor's broken file hinders nobody."""

    put(tmp_path, "bad.json", "no json")
    put(tmp_path, "good.json", spec())

    assert resolve(["berth.dev/nic=1-a"], [tmp_path]).env == ("A=1",)


def test_later_folder_wins_and_one_folder_never_holds_a_name_twice(tmp_path: Path) -> None:
    """Folders have priorities; within one the same name is a conflict and gives no device."""

    low, high = tmp_path / "low", tmp_path / "high"
    put(low, "a.json", spec())
    put(high, "a.json", spec(devices=[{"name": "1-a", "containerEdits": {"env": ["A=2"]}}]))
    assert resolve(["berth.dev/nic=1-a"], [low, high]).env == ("A=2",)

    put(high, "b.json", spec())
    with pytest.raises(RemoteProtocolError, match="stands in two files"):
        resolve(["berth.dev/nic=1-a"], [high])


def test_other_suffixes_are_not_read(tmp_path: Path) -> None:
    """What is being written beside its place is no file yet."""

    put(tmp_path, "a.json.tmp", spec())

    with pytest.raises(RemoteProtocolError):
        resolve(["berth.dev/nic=1-a"], [tmp_path])
