"""CDI files on disk."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from berth.cdi.document import CdiDevice
from berth.cdi.store import CdiStore
from berth.errors import HostError
from berth.model.edits import Edits

UID = "5b0c6a52-0f0e-4a51-9a2b-6a3d3a0c9f11"


@pytest.fixture
async def store(tmp_path: Path) -> CdiStore:
    made = CdiStore("berth.dev", tmp_path / "cdi")
    await made.open()
    return made


async def test_write_makes_one_readable_file_per_claim_and_kind(
    store: CdiStore, tmp_path: Path
) -> None:
    """The runtime reads `*.json` files of mode 0644 in a folder of mode 0755."""

    await store.write("nic", UID, [CdiDevice(name="a", edits=Edits(env=("A=b",)))])

    [file] = (tmp_path / "cdi").iterdir()
    assert file.name == f"berth.dev-nic_{UID}.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o755


async def test_write_without_devices_takes_the_file_away(store: CdiStore, tmp_path: Path) -> None:
    """An empty file would be invalid, so there is none."""

    await store.write("nic", UID, [CdiDevice(name="a", edits=Edits(env=("A=b",)))])
    await store.write("nic", UID, [])

    assert list((tmp_path / "cdi").iterdir()) == []


async def test_remove_takes_every_kind_of_one_claim_and_no_other(
    store: CdiStore, tmp_path: Path
) -> None:
    """Files of other claims and of other vendors stay."""

    foreign = tmp_path / "cdi" / f"nvidia.com-gpu_{UID}.json"
    foreign.write_text("{}")
    for kind in ("nic", "metadata"):
        await store.write(kind, UID, [CdiDevice(name="a", edits=Edits(env=("A=b",)))])
        await store.write(kind, "other", [CdiDevice(name="a", edits=Edits(env=("A=b",)))])

    await store.remove(UID)
    await store.remove(UID)

    assert await store.claims() == {"other"}
    assert foreign.exists()


async def test_environment_is_read_from_the_claims_file(store: CdiStore) -> None:
    """Evidence of what a claim has survives the loss of its record."""

    await store.write("nic", UID, [CdiDevice(name="a", edits=Edits(env=("M=x",)))])

    assert await store.environment(UID) == ("M=x",)
    assert await store.environment("other") == ()


async def test_write_names_the_folder_when_it_is_gone(store: CdiStore, tmp_path: Path) -> None:
    """A refusal of the disk names the path."""

    (tmp_path / "cdi").rmdir()

    with pytest.raises(HostError, match=str(tmp_path)):
        await store.write("nic", UID, [CdiDevice(name="a", edits=Edits(env=("A=b",)))])


async def test_files_are_counted_by_kind(store: CdiStore, tmp_path: Path) -> None:
    """Those of claims and the lasting ones, and what an earlier life left; foreign ones are not."""
    (tmp_path / "cdi" / "berth.dev-gpu_older.json").write_text("{}")
    (tmp_path / "cdi" / "other.dev-gpu_x.json").write_text("{}")
    await store.claims()
    await store.write("nic", "u1", [CdiDevice(name="a", edits=Edits(env=("A=b",)))])
    await store.write("nic", "u2", [CdiDevice(name="b", edits=Edits(env=("A=b",)))])
    await store.write_lasting("plugin-generic", [CdiDevice(name="c", edits=Edits(env=("A=b",)))])
    await store.remove("u2")

    assert store.kinds() == {"gpu": 1, "nic": 1, "plugin-generic": 1}
    assert store.writes.series() == {("ok",): 3, ("error",): 0}
