"""Records on disk and in memory: written before memory changes, bad files set aside."""

from __future__ import annotations

import errno
import gc
import json
import os
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
import trio
import trio.testing

from berth.errors import ClaimError, HostError, StateError
from berth.nic.record import Stage
from berth.node.records.document import to_bytes
from berth.node.records.record import SCHEMA
from berth.node.records.records import Records
from tests.unit.node.claimrecords import NIC, RECORD, of_claim


def write(folder: Path, uid: str, content: bytes | None = None) -> Path:
    """Put a record's file into the folder."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{uid}.json"
    path.write_bytes(to_bytes(of_claim(uid)) if content is None else content)
    return path


def names_below(folder: Path) -> list[str]:
    """Everything in a folder and below it."""
    return sorted(path.name for path in folder.rglob("*"))


def make_folder(path: Path) -> None:
    """A folder in the place of a file, with something in it."""
    path.unlink()
    (path / "inside").mkdir(parents=True)


def make_dangling(path: Path) -> None:
    """A link in the place of a file, which leads nowhere."""
    path.unlink()
    path.symlink_to("nowhere")


def make_pipe(path: Path) -> None:
    """A pipe in the place of a file, on which a reader could hang."""
    path.unlink()
    os.mkfifo(path)


def make_unreadable(path: Path) -> None:
    """A file that nobody may read; root may read any."""
    path.chmod(0)
    if os.geteuid() == 0:
        path.write_bytes(b"")


DAMAGES: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-50]),
    "another shape": lambda path: path.write_bytes(b'{"schema": 1, "record": []}'),
    "random": lambda path: path.write_bytes(bytes(range(256))),
    "folder": make_folder,
    "dangling link": make_dangling,
    "pipe": make_pipe,
    "unreadable": make_unreadable,
    "of another claim": lambda path: path.write_bytes(to_bytes(of_claim("u2"))),
    "of no claim": lambda path: path.write_bytes(to_bytes(of_claim("../u1\0"))),
}


async def test_put_load_and_delete(tmp_path: Path) -> None:
    """What was put is there in the next life, and what was deleted is not."""

    first = Records(tmp_path / "claims")
    assert await first.load() == ()
    for uid in ("u1", "u2"):
        await first.put(of_claim(uid))
    await first.delete("u1")
    await first.delete("nobody")
    second = Records(tmp_path / "claims")

    assert await second.load() == ()
    assert second.all() == (of_claim("u2"),) == first.all()
    assert (tmp_path / "claims" / "u2.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("damage", sorted(DAMAGES))
async def test_load_when_a_file_is_damaged(tmp_path: Path, damage: str) -> None:
    """It is kept aside and told with both names; the others are read."""

    folder = tmp_path / "claims"
    DAMAGES[damage](write(folder, "u1"))
    write(folder, "u9")
    records = Records(folder)
    (told,) = await records.load()

    assert [record.claim.uid for record in records.all()] == ["u9"]
    assert f"{folder}/u1.json" in told
    assert told.endswith(f"; kept as {folder}/u1.json.bad-1")
    assert sorted(path.name for path in folder.iterdir()) == ["u1.json.bad-1", "u9.json"]
    assert await Records(folder).load() == ()


async def test_load_when_a_text_holds_half_a_character(tmp_path: Path) -> None:
    """It can be written again, and made a path of, which half a surrogate pair cannot."""

    content = to_bytes(of_claim("u1")).replace(b'"boot_id": "', b'"boot_id": "\\ud800')
    write(tmp_path / "claims", "u1", content)
    records = Records(tmp_path / "claims")

    assert await records.load() == ()
    assert records.all()[0].boot_id.startswith("\ufffd")


async def test_load_when_a_file_is_of_a_newer_program(tmp_path: Path) -> None:
    """The start is refused and the file stays: nothing may be undone that cannot be read."""

    path = write(tmp_path / "claims", "u1", json.dumps({"schema": SCHEMA + 1}).encode())
    with pytest.raises(StateError, match="has schema"):
        await Records(tmp_path / "claims").load()

    assert path.exists()


async def test_load_sweeps_interrupted_writes(tmp_path: Path) -> None:
    """What a crash left of a write is taken away."""

    folder = tmp_path / "claims"
    folder.mkdir()
    (folder / ".berth-0.tmp").touch()
    await Records(folder).load()

    assert list(folder.iterdir()) == []


async def test_load_when_something_else_is_the_folder(tmp_path: Path) -> None:
    """Without a folder there is no state to go by, and no start."""

    (tmp_path / "claims").touch()
    with pytest.raises(HostError):
        await Records(tmp_path / "claims").load()


async def test_put_when_the_disk_refuses(tmp_path: Path) -> None:
    """Memory says what disk says; on the way home it may say more."""

    records = Records(tmp_path / "missing")
    with pytest.raises(HostError) as caught:
        await records.put(RECORD)
    assert (caught.value.errno, records.all()) == (errno.ENOENT, ())
    version = records.changes.version
    await records.put_or_note(RECORD)

    assert records.all() == (RECORD,)
    assert records.changes.version == version + 1


async def test_delete_when_the_disk_refuses(tmp_path: Path) -> None:
    """The record stands until its file is gone."""

    records = Records(tmp_path / "claims")
    await records.load()
    await records.put(RECORD)
    path = tmp_path / "claims" / "u1.json"
    make_folder(path)
    with pytest.raises(HostError):
        await records.delete("u1")

    assert records.get("u1") == RECORD


@pytest.mark.parametrize("uid", ["", "../u1", "a/b", ".hidden", "a\0b"])
async def test_uid_that_is_no_file_name(tmp_path: Path, uid: str) -> None:
    """Nothing is written outside the folder."""

    records = Records(tmp_path / "claims")
    await records.load()
    with pytest.raises(ClaimError, match="is no name of a file"):
        await records.put(of_claim(uid))

    assert names_below(tmp_path) == ["claims"]


async def test_records_of_a_pod(tmp_path: Path) -> None:
    """Prepared ones of its consumers, and none that is being undone."""

    records = Records(tmp_path)
    for record in (
        of_claim("u1"),
        of_claim("u2", prepared=False),
        of_claim("u3", revoked=True),
        of_claim("u4", consumers=()),
    ):
        await records.put_or_note(record)

    assert [record.claim.uid for record in records.of_pod("pod-uid")] == ["u1"]
    assert records.of_pod("another") == ()


async def test_away(tmp_path: Path) -> None:
    """Every NIC that is in a pod or on the way, with its place."""

    records = Records(tmp_path)
    home = RECORD.with_nic(0, attrs.evolve(NIC, stage=Stage.HOME))
    await records.put_or_note(RECORD)
    await records.put_or_note(attrs.evolve(home, claim=of_claim("u2").claim))

    assert list(records.away()) == [(RECORD, 0)]


async def test_locks_are_taken_in_one_order(tmp_path: Path) -> None:
    """Two who want the same claims in different order do not wait for each other for ever."""

    records = Records(tmp_path)
    await records.put_or_note(of_claim("b"))
    order = []

    async def work(*uids: str) -> None:
        async with records.locked(uids) as found:
            order.append([record.claim.uid for record in found])
            await trio.testing.wait_all_tasks_blocked()

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(work, "a", "b")
            nursery.start_soon(work, "b", "a", "b")

    assert order == [["b"], ["b"]]


async def test_lock_is_one_as_long_as_anybody_has_it(tmp_path: Path) -> None:
    """Also over the end of the record; nobody's lock is kept."""

    records = Records(tmp_path)
    await records.load()
    await records.put(RECORD)
    async with records.lock("u1"):
        await records.delete("u1")
        assert records.lock("u1").locked()
    gc.collect()

    assert len(records._locks) == 0


async def test_put_is_whole_when_it_is_cancelled(tmp_path: Path) -> None:
    """A cancel comes before or after: disk and memory agree."""

    records = Records(tmp_path)
    await records.load()
    with trio.CancelScope() as scope:
        scope.cancel()
        await records.put(RECORD)
    again = Records(tmp_path)
    await again.load()

    assert again.all() == records.all() == (RECORD,)
