"""Metadata files on the host."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import attrs
import pytest

from berth.errors import HostError
from berth.metadata.document import DeviceEntry, RequestMetadata, render
from berth.metadata.store import MetadataStore
from berth.model.claim import ClaimRef

CLAIM = ClaimRef(namespace="default", name="c1", uid="5b0c6a52-0f0e-4a51-9a2b-6a3d3a0c9f11")
METADATA = RequestMetadata(
    claim=CLAIM,
    pod_claim_name=None,
    generation=1,
    devices=(DeviceEntry(request="nic", pool="n/nic", device="nic-a", attributes={}),),
)


@pytest.fixture
def store(tmp_path: Path) -> MetadataStore:
    return MetadataStore("berth.dev", tmp_path)


def file_of(root: Path) -> Path:
    folder = root / "plugins/berth.dev/dra-device-metadata" / CLAIM.uid / "nic"
    return folder / "metadata.json"


async def test_write_puts_the_file_where_the_mount_says(
    store: MetadataStore, tmp_path: Path
) -> None:
    """The path that is told for the mount is the file's, which everyone may read."""

    await store.write(METADATA)

    assert store.path(METADATA) == str(file_of(tmp_path))
    assert file_of(tmp_path).read_bytes() == render(METADATA, driver="berth.dev")
    assert stat.S_IMODE(file_of(tmp_path).stat().st_mode) == 0o644


async def test_no_name_of_a_claim_stays_with_the_interpreter(
    store: MetadataStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its table of interned text is made anew, and bigger, by names that come and go."""

    interned: list[str] = []

    def intern(text: str) -> str:
        interned.append(text)
        return text

    # This is how `pathlib` asks for it.
    monkeypatch.setattr(sys, "intern", intern)

    await store.write(METADATA)
    await store.remove(CLAIM.uid)

    assert CLAIM.uid not in interned


async def test_an_update_is_another_inode(store: MetadataStore, tmp_path: Path) -> None:
    """A reader of the old file is never shown half of the new one."""

    await store.write(METADATA)
    with file_of(tmp_path).open("rb") as old:
        await store.write(attrs.evolve(METADATA, generation=2))

        assert old.read() == render(METADATA, driver="berth.dev")
    assert b'"generation": 2' in file_of(tmp_path).read_bytes()


async def test_remove_takes_the_claims_folder_and_may_be_repeated(store: MetadataStore) -> None:
    """Nothing of a claim is left, and a second removal is no fault."""

    await store.write(METADATA)
    await store.write(attrs.evolve(METADATA, claim=attrs.evolve(CLAIM, uid="other")))

    await store.remove(CLAIM.uid)
    await store.remove(CLAIM.uid)

    assert await store.claims() == {"other"}


async def test_write_names_the_path_that_the_system_refused(tmp_path: Path) -> None:
    """A file in the place of a folder is told with its path."""

    (tmp_path / "plugins").write_text("in the way")

    with pytest.raises(HostError, match="dra-device-metadata"):
        await MetadataStore("berth.dev", tmp_path).write(METADATA)


async def test_writes_are_counted_and_first_ones_told_from_updates(tmp_path: Path) -> None:
    """As the KEP wants it; each is timed, whatever came of it."""
    (tmp_path / "plugins").write_text("in the way")
    store = MetadataStore("berth.dev", tmp_path)
    for generation in (1, 2, 3):
        with pytest.raises(HostError):
            await store.write(attrs.evolve(METADATA, generation=generation))
    (tmp_path / "plugins").unlink()
    await store.write(METADATA)

    assert store.write_errors.series() == {(): 1}
    assert store.update_errors.series() == {(): 2}
    assert store.writes.series() == {(): 1}
    assert store.seconds.counts() == {(): 4}
