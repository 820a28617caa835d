"""The kernel's notices about names."""

from __future__ import annotations

import ctypes
import errno
import struct
from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from berth.errors import HostError
from berth.runtime import inotify
from berth.runtime.inotify import CREATE, DELETE, Inotify, Notice, decode_notices


def encode(notice: Notice) -> bytes:
    """Give a notice as the kernel writes it: the name padded with zero bytes."""
    name = notice.name.encode()
    padded = name.ljust(-(-(len(name) + 1) // 16) * 16, b"\0") if name else b""
    return struct.pack("=iIII", notice.watch, notice.mask, 0, len(padded)) + padded


notices = st.builds(
    Notice,
    watch=st.integers(-1, 2**31 - 1),
    mask=st.integers(0, 2**32 - 1),
    name=st.text(st.characters(codec="utf-8", exclude_characters="\0/"), max_size=60),
)


@given(st.lists(notices, max_size=5))
def test_decode_gives_back_what_was_encoded(wanted: list[Notice]) -> None:
    """Any row of notices is read as it was written."""

    assert decode_notices(b"".join(map(encode, wanted))) == tuple(wanted)


@given(st.lists(notices, max_size=3), st.integers(0, 300))
def test_decode_when_cut_anywhere(wanted: list[Notice], cut: int) -> None:
    """A cut gives the notices that are whole, in order."""

    read = decode_notices(b"".join(map(encode, wanted))[:cut])

    assert read == tuple(wanted[: len(read)])


@given(st.binary(max_size=200))
def test_decode_when_given_garbage(data: bytes) -> None:
    """Garbage gives some notices or none, never an error."""

    assert len(decode_notices(data)) <= len(data) // 16


async def test_notices_of_a_folder(tmp_path: Path) -> None:
    """What is made and removed in a watched folder is told by name."""

    watcher = Inotify()
    number = watcher.watch(tmp_path)
    (tmp_path / "a").touch()
    (tmp_path / "a").unlink()

    assert [(n.watch, n.mask, n.name) for n in await watcher.wait_notices()] == [
        (number, CREATE, "a"),
        (number, DELETE, "a"),
    ]
    watcher.close()


async def test_watch_ends(tmp_path: Path) -> None:
    """After the end of a watch only that end is told."""

    watcher = Inotify()
    number = watcher.watch(tmp_path)
    assert number is not None
    watcher.unwatch(number)
    (tmp_path / "a").touch()

    ignored = 0x8000
    assert [notice.mask for notice in await watcher.wait_notices()] == [ignored]
    watcher.close()


def test_watch_when_there_is_no_folder(tmp_path: Path) -> None:
    """A missing folder, or a file in its place, is None."""

    (tmp_path / "file").touch()
    watcher = Inotify()

    assert watcher.watch(tmp_path / "none") is None
    assert watcher.watch(tmp_path / "file") is None
    assert watcher.watch(tmp_path) == watcher.watch(tmp_path)
    with pytest.RaisesGroup(trio.ClosedResourceError, allow_unwrapped=True):
        trio.run(_wait_while_closed, watcher)


async def _wait_while_closed(watcher: Inotify) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watcher.wait_notices)
        await trio.testing.wait_all_tasks_blocked()
        watcher.close()


@pytest.mark.parametrize(
    ("number", "mend"),
    [
        (errno.EMFILE, "raise fs.inotify.max_user_instances by sysctl"),
        (errno.ENOSPC, "raise fs.inotify.max_user_watches by sysctl"),
    ],
)
def test_refusal_says_what_to_raise(
    monkeypatch: pytest.MonkeyPatch, number: int, mend: str
) -> None:
    """Where the kernel has none left, the error names the limit."""

    class Library:
        def inotify_init1(self, _flags: int) -> int:
            ctypes.set_errno(number)
            return -1

    monkeypatch.setattr(inotify, "_libc", Library)
    with pytest.raises(HostError) as caught:
        Inotify()

    assert caught.value.mend == mend
