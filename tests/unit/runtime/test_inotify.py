"""The one inotify descriptor and those who share it; the kernel is real."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from berth.errors import HostError
from berth.runtime.inotify import Inotify, Subscription, open_inotify
from berth.runtime.notices import Names
from tests.descriptors import inotify_watches
from tests.unit.runtime.floods import flood
from tests.unit.runtime.refusals import refuse

SOCK = Names(exact=frozenset({"a.sock"}))
TTYS = Names(patterns=frozenset({"ttyUSB*"}))


async def told(*subscriptions: Subscription) -> list[bool]:
    """Who was told of something; the kernel has told at once what there was to tell."""
    await wait_all_tasks_blocked(0.01)
    return [subscription.take_nowait() for subscription in subscriptions]


async def test_two_watch_one_folder_each_for_its_names(inotify: Inotify, tmp_path: Path) -> None:
    """Nobody is woken for another's, and the kernel has one watch for both."""

    with inotify.subscribe() as door, inotify.subscribe() as stock:
        assert door.aim({tmp_path: SOCK})
        assert stock.aim({tmp_path: TTYS})
        assert inotify_watches() == (1,)

        (tmp_path / "a.sock").touch()
        assert await told(door, stock) == [True, False]
        (tmp_path / "ttyUSB0").touch()
        assert await told(door, stock) == [False, True]
        (tmp_path / "other").touch()
        assert await told(door, stock) == [False, False]


async def test_one_leaves_and_the_other_is_served_on(inotify: Inotify, tmp_path: Path) -> None:
    """Whether it aims elsewhere or ends; with the last one the kernel's watch ends."""

    with inotify.subscribe() as door:
        door.aim({tmp_path: SOCK})
        with inotify.subscribe() as stock:
            stock.aim({tmp_path: TTYS})
            stock.aim({Path("/"): TTYS})
            (tmp_path / "a.sock").touch()
            assert await told(door, stock) == [True, False]
            stock.aim({tmp_path: TTYS})
        (tmp_path / "a.sock").unlink()
        (tmp_path / "ttyUSB0").touch()
        assert await told(door, stock) == [True, False]
        assert inotify_watches() == (1,)
    assert inotify_watches() == (0,)


async def test_folder_watched_anew_at_once_is_served(inotify: Inotify, tmp_path: Path) -> None:
    """The end of the watch before is told under its own number, and does not end the new one."""

    with inotify.subscribe() as door:
        for _ in range(3):
            door.aim({tmp_path: SOCK})
            door.aim({})
        door.aim({tmp_path: SOCK})
        assert await told(door) == [False]
        (tmp_path / "a.sock").touch()
        assert await told(door) == [True]


def remove(folder: Path) -> None:
    """Remove it."""
    folder.rmdir()


def move(folder: Path) -> None:
    """Move it away."""
    folder.rename(folder.with_name("moved"))


def empty(folder: Path) -> None:
    """Remove it with the one above."""
    shutil.rmtree(folder.parent)


@pytest.mark.parametrize("end", [remove, move, empty])
async def test_folder_that_goes_and_comes_again(
    inotify: Inotify, tmp_path: Path, end: Callable[[Path], None]
) -> None:
    """All who watch it are told, the folder that is made in its place is another one."""

    folder = tmp_path / "above" / "folder"
    folder.mkdir(parents=True)
    with inotify.subscribe() as door, inotify.subscribe() as stock:
        for one, names in ((door, SOCK), (stock, TTYS)):
            one.aim({folder: names})
        end(folder)
        assert await told(door, stock) == [True, True]
        assert not door.aim({folder: SOCK})

        folder.mkdir(parents=True)
        assert door.aim({folder: SOCK})
        assert stock.aim({folder: TTYS})
        await told(door, stock)
        (folder / "a.sock").touch()
        assert await told(door, stock) == [True, False]
        assert inotify_watches() == (1,)


async def test_missing_folder_keeps_the_others_watched(inotify: Inotify, tmp_path: Path) -> None:
    """A file in its place is as good as none."""

    (tmp_path / "file").touch()
    with inotify.subscribe() as door:
        assert not door.aim({tmp_path / "file": SOCK, tmp_path: SOCK, tmp_path / "none": SOCK})
        (tmp_path / "a.sock").touch()
        assert await told(door) == [True]


async def test_everybody_looks_again_when_notices_were_lost(
    inotify: Inotify, tmp_path: Path
) -> None:
    """More names came and went than the kernel keeps, none of which is known to be wanted."""

    (tmp_path / "quiet").mkdir()
    with inotify.subscribe() as door, inotify.subscribe() as stock:
        door.aim({tmp_path: SOCK})
        stock.aim({tmp_path / "quiet": TTYS})
        flood(tmp_path)
        with trio.fail_after(5):
            await door.wait_told()
            await stock.wait_told()
        assert await told(door, stock) == [False, False]
        with trio.move_on_after(0.01):
            await door.wait_told()
            pytest.fail("told twice")

        (tmp_path / "a.sock").touch()
        assert await told(door, stock) == [True, False]


async def test_reader_wakes_for_what_is_told_and_sleeps_then(
    inotify: Inotify, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One wake-up of the process for one event, whoever shares the folder; none without."""

    reads = 0
    read = inotify.read_nowait

    def count() -> None:
        nonlocal reads
        reads += 1
        read()

    monkeypatch.setattr(inotify, "read_nowait", count)
    with inotify.subscribe() as door, inotify.subscribe() as stock:
        door.aim({tmp_path: SOCK})
        stock.aim({tmp_path: SOCK})
        (tmp_path / "a.sock").touch()
        with trio.fail_after(5):
            await door.wait_told()
            await stock.wait_told()
        await wait_all_tasks_blocked(0.05)
        assert reads == 1


async def test_one_instance_for_all_and_none_afterwards(tmp_path: Path) -> None:
    """However often somebody watches; and none while nobody has."""

    async with open_inotify() as inotify:
        assert inotify_watches() == ()
        for _ in range(20):
            with inotify.subscribe() as one, inotify.subscribe() as other:
                one.aim({tmp_path: SOCK})
                other.aim({tmp_path: TTYS})
        assert inotify_watches() == (0,)
    assert inotify_watches() == ()


@pytest.mark.parametrize(
    ("call", "number", "mend"),
    [
        ("inotify_init1", errno.EMFILE, "raise fs.inotify.max_user_instances by sysctl"),
        ("inotify_add_watch", errno.ENOSPC, "raise fs.inotify.max_user_watches by sysctl"),
    ],
)
async def test_refusal_says_what_to_raise_and_the_next_tries_again(
    inotify: Inotify,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    call: str,
    number: int,
    mend: str,
) -> None:
    """Where the kernel has none left, the error names the limit."""

    with inotify.subscribe() as door:
        with monkeypatch.context() as refusing:
            refuse(refusing, call, number)
            with pytest.raises(HostError) as caught:
                door.aim({tmp_path: SOCK})
        assert caught.value.mend == mend

        assert door.aim({tmp_path: SOCK})
        (tmp_path / "a.sock").touch()
        assert await told(door) == [True]


async def test_refusal_in_the_middle_leaves_no_watch_behind(
    inotify: Inotify, tmp_path: Path
) -> None:
    """What was watched before it ends with the subscription."""

    with inotify.subscribe() as door:
        with pytest.raises(HostError, match="cannot watch it: File name too long"):
            door.aim({tmp_path: SOCK, tmp_path / ("x" * 300): SOCK})
        assert inotify_watches() == (1,)
    assert inotify_watches() == (0,)
