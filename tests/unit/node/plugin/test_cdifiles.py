"""CDI files for the device plugin: each id by its name, before the list that tells of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs

from berth.cdi.store import CdiStore
from berth.model.peripheral import Door
from berth.node.plugin.cdifiles import PluginFiles
from tests.unit.node.peripherals import kvm, modem


def files(folder: Path) -> dict[str, Any]:
    """What lies there."""
    return {path.name: json.loads(path.read_text()) for path in folder.glob("*.json")}


def inodes(folder: Path) -> list[int]:
    """Which files lie there."""
    return [path.stat().st_ino for path in folder.glob("*.json")]


async def test_each_id_has_its_edits(tmp_path: Path) -> None:
    """Shares of one device are alike; what is told by kubelet is in no file."""

    kept = PluginFiles(CdiStore("berth.dev", tmp_path))
    shared = attrs.evolve(kvm(), inject="cdi")
    await kept.write([shared, modem(), attrs.evolve(modem(1, door=Door.DRA), inject="cdi")])

    (document,) = files(tmp_path).values()
    assert list(files(tmp_path)) == ["berth.dev-plugin-generic.json"]
    assert [device["name"] for device in document["devices"]] == list(shared.ids)
    assert kept.id(shared, shared.ids[1]) == f"berth.dev/plugin-generic={shared.ids[1]}"


async def test_file_goes_with_the_last_device(tmp_path: Path) -> None:
    """An empty one would be invalid; what has not changed is not written again."""

    kept = PluginFiles(CdiStore("berth.dev", tmp_path))
    shared = attrs.evolve(kvm(), inject="cdi")
    await kept.write([shared])
    before = inodes(tmp_path)
    await kept.write([shared])
    assert inodes(tmp_path) == before != []

    await kept.write([])

    assert files(tmp_path) == {}


async def test_folder_that_is_away_is_tried_again(tmp_path: Path) -> None:
    """The list goes on; the next change writes the file."""

    folder = tmp_path / "cdi"
    kept = PluginFiles(CdiStore("berth.dev", folder))
    shared = attrs.evolve(kvm(), inject="cdi")
    await kept.write([shared])
    folder.mkdir()

    await kept.write([shared])

    assert list(files(folder)) == ["berth.dev-plugin-generic.json"]
