"""Names that come and go where paths lead; the kernel's inotify is real."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import trio
from trio.testing import wait_all_tasks_blocked

from berth.model.pathglob import PathGlob
from berth.runtime.inotify import Inotify
from berth.runtime.pathwatch import PathChanges, watch_paths


async def is_told(changes: PathChanges, act: Callable[[], object]) -> bool:
    """Whether something that is done is told; what the kernel has to tell is there at once."""
    told = False

    async def wait() -> None:
        nonlocal told
        await changes.wait_next()
        told = True

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await wait_all_tasks_blocked()
        act()
        await wait_all_tasks_blocked(0.01)
        nursery.cancel_scope.cancel()
    return told


async def test_name_that_comes_and_goes_is_told_and_no_other(
    inotify: Inotify, tmp_path: Path
) -> None:
    """By one of its names or by a pattern that it fits."""

    exact, wild, other = tmp_path / "kvm", tmp_path / "ttyUSB0", tmp_path / "ttyS0"
    with watch_paths(inotify) as changes:
        changes.aim([str(exact)], [PathGlob(f"{tmp_path}/ttyUSB*")])
        for path in (exact, wild):
            assert await is_told(changes, path.touch)
            assert await is_told(changes, path.unlink)
        assert not await is_told(changes, other.touch)
        assert await is_told(changes, lambda: other.rename(exact))


async def test_folders_may_come_later(inotify: Inotify, tmp_path: Path) -> None:
    """Whatever exists above is watched for the next of them, in time for what is made in it."""

    node = tmp_path / "bus" / "usb" / "001"
    with watch_paths(inotify) as changes:
        changes.aim([str(node)], [])
        assert await is_told(changes, node.parent.parent.mkdir)
        assert await is_told(changes, node.parent.mkdir)
        assert await is_told(changes, node.touch)
        assert not await is_told(changes, (tmp_path / "other").touch)
        assert await is_told(changes, node.unlink)
        assert await is_told(changes, node.parent.rmdir)
        assert await is_told(changes, node.parent.mkdir)


async def test_folder_whose_name_has_wildcards_is_told_itself(
    inotify: Inotify, tmp_path: Path
) -> None:
    """What is in it is for whoever looks now and then."""

    with watch_paths(inotify) as changes:
        changes.aim([], [PathGlob(f"{tmp_path}/card*/dsp")])
        assert await is_told(changes, (tmp_path / "card0").mkdir)
        assert not await is_told(changes, (tmp_path / "card0" / "dsp").touch)


async def test_another_aim_replaces_the_first(inotify: Inotify, tmp_path: Path) -> None:
    """Nobody is woken for what he does not want any more."""

    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with watch_paths(inotify) as changes:
        changes.aim([f"{tmp_path}/a/node"], [])
        changes.aim([f"{tmp_path}/b/node"], [])
        assert not await is_told(changes, (tmp_path / "a" / "node").touch)
        assert await is_told(changes, (tmp_path / "b" / "node").touch)


async def test_two_paths_to_one_folder_are_both_watched(inotify: Inotify, tmp_path: Path) -> None:
    """The kernel has one watch for both, by whichever name it was asked."""

    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with watch_paths(inotify) as changes:
        changes.aim([f"{tmp_path}/real/a", f"{tmp_path}/link/b"])
        for name in ("a", "b"):
            assert await is_told(changes, (tmp_path / "real" / name).touch)
        assert not await is_told(changes, (tmp_path / "real" / "c").touch)


async def test_many_names_of_one_folder_are_quickly_aimed_at(inotify: Inotify) -> None:
    """Each is taken once, and not once more for each that follows."""

    nodes = [f"/node{number}" for number in range(30_000)]
    with watch_paths(inotify) as changes:
        began = time.process_time()
        changes.aim(nodes)

    assert time.process_time() - began < 2
