"""Atomic files in one directory."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from berth.errors import HostError
from berth.runtime.files import (
    Folder,
    list_names,
    make_folder,
    quarantine_file,
    read_file,
    remove_file,
    sweep_temporaries,
    write_file,
)


def names_in(folder: Path) -> list[str]:
    """Give all names in a folder, hidden ones too."""
    return sorted(path.name for path in folder.iterdir())


class Crash(BaseException):
    """The process ends here; nothing may catch it."""


def test_write_when_new_and_again(tmp_path: Path) -> None:
    """The newest content is there whole, with its mode, and nothing beside it."""

    path = tmp_path / "a.json"
    write_file(path, b"one" * 1000)
    write_file(path, b"two", mode=0o644)

    assert path.read_bytes() == b"two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert names_in(tmp_path) == ["a.json"]


@pytest.mark.parametrize("step", ["fsync", "fchmod"])
def test_write_when_the_system_refuses_midway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """A full disk leaves the old content, no temporary file, and an error that names all."""

    path = tmp_path / "a.json"
    write_file(path, b"old")

    def refuse(*_args: object) -> None:
        raise OSError(errno.ENOSPC, "")

    monkeypatch.setattr(os, step, refuse)
    with pytest.raises(HostError) as caught:
        write_file(path, b"new")

    assert path.read_bytes() == b"old"
    assert names_in(tmp_path) == ["a.json"]
    assert caught.value.errno == errno.ENOSPC
    expected = f"{path}: cannot write: No space left on device; free space on that file system"
    assert expected == str(caught.value)


def test_write_when_killed_before_the_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that dies leaves the old content and a temporary file, which a sweep removes."""

    path = tmp_path / "a.json"
    write_file(path, b"old")

    def die(_self: Path, *_args: object) -> None:
        raise Crash

    monkeypatch.setattr(os, "rename", die)
    monkeypatch.setattr(os, "unlink", die)
    with pytest.raises(Crash):
        write_file(path, b"new")
    monkeypatch.undo()

    assert path.read_bytes() == b"old"
    assert list_names(tmp_path) == ("a.json",)
    assert len(sweep_temporaries(tmp_path)) == 1
    assert names_in(tmp_path) == ["a.json"]


def test_write_when_the_folder_is_missing(tmp_path: Path) -> None:
    """The error names the path and the system's reason."""

    with pytest.raises(HostError, match=r"none/a: cannot write: No such file or directory"):
        write_file(tmp_path / "none" / "a", b"")


@pytest.mark.parametrize("data", [b"", b"x", b"x" * 4096])
def test_read_gives_what_was_written(tmp_path: Path, data: bytes) -> None:
    """Content comes back as it was, up to the limit."""

    write_file(tmp_path / "a", data)

    assert data == read_file(tmp_path / "a", limit=4096)


def test_read_when_missing(tmp_path: Path) -> None:
    """A file that is not there is None, no error."""

    assert read_file(tmp_path / "a") is None


def test_read_when_too_long(tmp_path: Path) -> None:
    """A file above the limit is refused, not cut."""

    write_file(tmp_path / "a", b"12345")

    with pytest.raises(HostError, match="is longer than 4 bytes"):
        read_file(tmp_path / "a", limit=4)


def test_read_when_something_else_lies_there(tmp_path: Path) -> None:
    """A pipe in the place of a file is refused where it could have hung; so is a folder."""

    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(HostError, match="is no regular file"):
        read_file(tmp_path)
    with pytest.raises(HostError, match="is no regular file"):
        read_file(tmp_path / "pipe")


@pytest.mark.parametrize(
    ("act", "doing"),
    [
        (read_file, "cannot read"),
        (remove_file, "cannot remove"),
        (quarantine_file, "cannot set aside"),
        (list_names, "cannot list"),
        (sweep_temporaries, "cannot list"),
        (make_folder, "cannot make the folder"),
    ],
)
def test_each_act_when_a_file_lies_in_the_way(
    tmp_path: Path, act: Callable[[Path], object], doing: str
) -> None:
    """Whatever is refused becomes our error, with the path and what was tried."""

    write_file(tmp_path / "file", b"")

    with pytest.raises(HostError) as caught:
        act(tmp_path / "file" / "below")

    assert f"{tmp_path}/file/below: {doing}: Not a directory" == str(caught.value)


def test_remove_when_there_and_not(tmp_path: Path) -> None:
    """Removal says whether there was something."""

    write_file(tmp_path / "a", b"")

    assert [remove_file(tmp_path / "a"), remove_file(tmp_path / "a")] == [True, False]


def test_list_when_folder_holds_all_kinds(tmp_path: Path) -> None:
    """Only regular files that are not hidden are listed, sorted, by prefix and suffix."""

    for name in ("b.json", "a.json", ".hidden.json", "a.txt"):
        write_file(tmp_path / name, b"")
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "link.json").symlink_to(tmp_path / "a.json")

    assert list_names(tmp_path, suffix=".json") == ("a.json", "b.json")
    assert list_names(tmp_path, prefix="a") == ("a.json", "a.txt")


def test_list_and_sweep_when_folder_is_missing(tmp_path: Path) -> None:
    """A folder that is not there holds nothing."""

    assert list_names(tmp_path / "none") == ()
    assert sweep_temporaries(tmp_path / "none") == ()


def test_quarantine_when_names_are_taken(tmp_path: Path) -> None:
    """A bad file gets the first name that is free, and overwrites none before it."""

    moved = []
    for content in (b"one", b"two"):
        write_file(tmp_path / "a.json", content)
        moved.append(quarantine_file(tmp_path / "a.json"))

    assert [path.read_bytes() for path in moved] == [b"one", b"two"]
    assert names_in(tmp_path) == ["a.json.bad-1", "a.json.bad-2"]


def test_quarantine_when_a_folder_lies_there(tmp_path: Path) -> None:
    """A folder in the place of a file is seen when asked for, and set aside as a file is."""

    for _ in range(2):
        (tmp_path / "a.json" / "inside").mkdir(parents=True)
        assert list_names(tmp_path, suffix=".json") == ()
        assert list_names(tmp_path, suffix=".json", any_kind=True) == ("a.json",)
        quarantine_file(tmp_path / "a.json")

    assert names_in(tmp_path) == ["a.json.bad-1", "a.json.bad-2"]
    assert (tmp_path / "a.json.bad-2" / "inside").is_dir()


def test_sweep_leaves_other_files(tmp_path: Path) -> None:
    """Only the temporary files of our own writes are removed."""

    for name in (".berth-0.tmp", "a.tmp", ".other.tmp", "a.json"):
        (tmp_path / name).touch()

    assert (tmp_path / ".berth-0.tmp",) == sweep_temporaries(tmp_path)
    assert names_in(tmp_path) == [".other.tmp", "a.json", "a.tmp"]


async def test_folder_does_the_same_in_a_thread(tmp_path: Path) -> None:
    """A folder's operations are those of the functions, for tasks."""

    folder = Folder(tmp_path / "claims" / "deep", mode=0o640)
    await folder.make()
    await folder.write("a.json", b"{}")
    (folder.path / ".berth-x.tmp").touch()

    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder.path / "a.json").stat().st_mode) == 0o640
    assert await folder.read("a.json") == b"{}"
    assert await folder.names(suffix=".json") == ("a.json",)
    assert (folder.path / ".berth-x.tmp",) == await folder.sweep()
    assert folder.path / "a.json.bad-1" == await folder.quarantine("a.json")
    assert await folder.remove("a.json.bad-1")
    assert await folder.read("a.json") is None


async def test_folder_leaves_no_name_with_the_interpreter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its table of interned text is made anew, and bigger, by names that come and go."""

    folder = Folder(tmp_path)
    interned: list[str] = []

    def intern(text: str) -> str:
        interned.append(text)
        return text

    # This is how `pathlib` asks for it.
    monkeypatch.setattr(sys, "intern", intern)

    await folder.write("claim.json", b"{}")
    assert await folder.read("claim.json") == b"{}"
    assert await folder.remove("claim.json")

    assert "claim.json" not in interned


async def test_folder_knows_what_it_wrote_and_how_often_it_could_not(tmp_path: Path) -> None:
    """What lay there before is known when it is listed or read, and forgotten with the file."""

    folder = Folder(tmp_path / "claims")
    await folder.make()
    (folder.path / "old.json").write_bytes(b"123")
    (folder.path / "unread.json").write_bytes(b"1")
    await folder.write("a.json", b"{}")
    with pytest.raises(HostError):
        await folder.write("no/such.json", b"{}")
    await folder.names()
    await folder.read("old.json")

    assert folder.sizes == {"a.json": 2, "old.json": 3, "unread.json": 0}
    assert folder.writes.series() == {("ok",): 1, ("error",): 1}
    await folder.remove("old.json")
    await folder.quarantine("a.json")
    assert folder.sizes == {"unread.json": 0}
    assert folder.quarantined.series() == {(): 1}


@pytest.mark.parametrize(("durable", "synced"), [(True, 2), (False, 0)])
def test_write_waits_for_the_disk_only_where_it_must(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, durable: bool, synced: int
) -> None:
    """File and folder are synced, unless what is written can be made anew after a power cut."""

    calls: list[int] = []
    monkeypatch.setattr(os, "fsync", calls.append)

    write_file(tmp_path / "a", b"x", durable=durable)

    assert len(calls) == synced
    assert (tmp_path / "a").read_bytes() == b"x"
