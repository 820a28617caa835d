"""Unix sockets by path: limits, connecting, waiting."""

from __future__ import annotations

import errno
import math
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from berth.errors import HostError
from berth.runtime import sockets
from berth.runtime.inotify import Inotify
from berth.runtime.sockets import (
    SocketId,
    check_path,
    connect_unix,
    find_socket,
    wait_socket,
    watch_inode,
)
from tests.unit.runtime.floods import flood
from tests.unit.runtime.refusals import refuse


@contextmanager
def listening(path: Path) -> Iterator[SocketId | None]:
    """Bind a listening socket while the block runs, and say which; its file stays."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen()
        yield find_socket(path)


def test_path_at_its_limit() -> None:
    """107 bytes are a path, 108 are an error that says so."""

    assert check_path(Path("/" + "x" * 106)) == Path("/" + "x" * 106)
    with pytest.raises(HostError, match="has 108 bytes: the kernel takes at most 107;"):
        check_path(Path("/" + "ä" * 53 + "x"))


def test_find_socket_when_it_is_one_or_not(tmp_path: Path) -> None:
    """Only a socket counts; a file, a link and nothing do not."""

    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("dra.sock")
    with listening(tmp_path / "dra.sock"):
        found = (tmp_path / "dra.sock").stat()
        assert find_socket(tmp_path / "dra.sock") == SocketId(
            device=found.st_dev, inode=found.st_ino, made_ns=found.st_mtime_ns
        )

    for other in ("file", "link", "none", "file/below"):
        assert find_socket(tmp_path / other) is None


async def test_connect_when_somebody_listens(tmp_path: Path) -> None:
    """A stream comes back that reaches the listener."""

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(tmp_path / "x.sock"))
        listener.listen()
        async with await connect_unix(tmp_path / "x.sock") as stream:
            accepted, _ = listener.accept()
            with accepted:
                await stream.send_all(b"hello")
                assert accepted.recv(5) == b"hello"


async def test_connect_when_nobody_listens(tmp_path: Path) -> None:
    """A missing and a dead socket are told with the system's reason."""

    with pytest.raises(HostError, match=r"x\.sock: cannot connect: No such file"):
        await connect_unix(tmp_path / "x.sock")
    with listening(tmp_path / "x.sock"):
        pass
    with pytest.raises(HostError, match=r"x\.sock: cannot connect: Connection refused"):
        await connect_unix(tmp_path / "x.sock")


class Reader:
    """Reads the changes at a path as they come."""

    def __init__(self, inotify: Inotify, path: Path) -> None:
        self.inotify = inotify
        self.path = path
        self.seen: list[SocketId | None] = []

    async def read(self) -> None:
        """Read until cancelled."""
        with watch_inode(self.inotify, self.path) as changes:
            async for found in changes:
                self.seen.append(found)

    async def settle(self, count: int) -> list[SocketId | None]:
        """Wait until that many are read, and a little longer would bring no more."""
        while len(self.seen) < count:
            await wait_all_tasks_blocked(0.001)
        await wait_all_tasks_blocked(0.01)
        return self.seen


async def test_watch_when_made_removed_and_made_anew(inotify: Inotify, tmp_path: Path) -> None:
    """Each change of the socket is told, with the state of now first."""

    path = tmp_path / "kubelet.sock"
    reader = Reader(inotify, path)
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(reader.read)
            await reader.settle(1)
            with listening(path) as first:
                await reader.settle(2)
            path.unlink()
            await reader.settle(3)
            with listening(path) as second:
                await reader.settle(4)
            (tmp_path / "other").touch()

            assert await reader.settle(4) == [None, first, None, second]
            nursery.cancel_scope.cancel()


async def test_watch_when_made_anew_at_once(inotify: Inotify, tmp_path: Path) -> None:
    """A socket in the place of another is told even with the same inode in the same moment."""

    path = tmp_path / "kubelet.sock"
    reader = Reader(inotify, path)
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(reader.read)
            await reader.settle(1)
            for count in range(2, 20):
                path.unlink(missing_ok=True)
                with listening(path) as made:
                    pass
                assert len(await reader.settle(count)) == count
                assert reader.seen[-1] == made
            path.chmod(0o777)
            assert len(await reader.settle(19)) == 19
            nursery.cancel_scope.cancel()


async def test_watch_when_replaced_by_a_rename(inotify: Inotify, tmp_path: Path) -> None:
    """Another socket moved over the path is told as another."""

    path = tmp_path / "kubelet.sock"
    reader = Reader(inotify, path)
    with trio.fail_after(5), listening(path) as first, listening(tmp_path / "new") as second:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(reader.read)
            await reader.settle(1)
            (tmp_path / "new").rename(path)

            assert await reader.settle(2) == [first, second]
            nursery.cancel_scope.cancel()


async def test_watch_when_folders_come_and_go(inotify: Inotify, tmp_path: Path) -> None:
    """Folders above the socket may be missing, be removed and be made again."""

    path = tmp_path / "a" / "b" / "nri.sock"
    reader = Reader(inotify, path)
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(reader.read)
            await reader.settle(1)
            path.parent.mkdir(parents=True)
            with listening(path) as first:
                await reader.settle(2)
            shutil.rmtree(tmp_path / "a")
            await reader.settle(3)
            path.parent.mkdir(parents=True)
            await reader.settle(3)
            with listening(path) as second:
                await reader.settle(4)
            path.parent.rename(tmp_path / "moved")

            assert await reader.settle(5) == [None, first, None, second, None]
            nursery.cancel_scope.cancel()


async def test_watch_when_other_files_change_often(
    inotify: Inotify, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names that do not matter do not even make it look again."""

    looks: list[Path] = []

    def look(path: Path) -> SocketId | None:
        looks.append(path)
        return find_socket(path)

    monkeypatch.setattr(sockets, "find_socket", look)
    reader = Reader(inotify, tmp_path / "x.sock")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reader.read)
        await reader.settle(1)
        before = len(looks)
        for number in range(50):
            (tmp_path / str(number)).touch()
        await reader.settle(1)

        assert len(looks) == before
        nursery.cancel_scope.cancel()


async def test_watch_when_notices_were_lost(inotify: Inotify, tmp_path: Path) -> None:
    """The socket that was there is no new one; one that came meanwhile is told."""

    path = tmp_path / "kubelet.sock"
    reader = Reader(inotify, path)
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(reader.read)
            with listening(path) as first:
                await reader.settle(1)
            flood(tmp_path)
            assert await reader.settle(1) == [first]

            flood(tmp_path)
            path.unlink()
            with listening(path) as second:
                pass
            assert await reader.settle(2) == [first, second]
            nursery.cancel_scope.cancel()


async def test_wait_socket_when_there_and_when_it_comes(inotify: Inotify, tmp_path: Path) -> None:
    """It answers at once for one that is there, and else when it is made."""

    path = tmp_path / "nri.sock"
    found: list[SocketId] = []

    async def wait() -> None:
        found.append(await wait_socket(inotify, path))

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await wait_all_tasks_blocked(0.01)
            assert found == []
            with listening(path) as identity:
                pass
        assert [await wait_socket(inotify, path), *found] == [identity, identity]


@pytest.mark.parametrize(
    ("call", "number"), [("inotify_init1", errno.EMFILE), ("inotify_add_watch", errno.ENOSPC)]
)
async def test_watch_while_the_kernel_has_no_inotify_left(
    inotify: Inotify,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    autojump_clock: MockClock,
    caplog: pytest.LogCaptureFixture,
    *,
    call: str,
    number: int,
) -> None:
    """The path is looked at each second, which the log says once; then the kernel tells again."""

    path = tmp_path / "x.sock"

    async def later(act: Callable[[Path], object]) -> None:
        await trio.sleep(9.5)
        act(path)

    with watch_inode(inotify, path) as changes, monkeypatch.context() as refusing:
        refuse(refusing, call, number)
        assert await changes.wait_next() is None
        start = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(later, leave_dead)
            assert await changes.wait_next() == find_socket(path)
        assert trio.current_time() - start == 10

        refusing.undo()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(later, Path.unlink)
            assert await changes.wait_next() is None
        assert trio.current_time() - start == 19.5

    assert caplog.text.count("a path is polled") == 1


async def test_watch_begins_when_the_kernel_has_inotify_again(
    inotify: Inotify, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever polls asks for it each time that he looks."""

    monkeypatch.setattr(sockets, "POLL_S", 0.01)
    reader = Reader(inotify, tmp_path / "x.sock")
    with trio.fail_after(5), monkeypatch.context() as refusing:
        refuse(refusing, "inotify_init1", errno.EMFILE)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(reader.read)
            await trio.sleep(0.05)
            refusing.undo()
            await trio.sleep(0.05)
            monkeypatch.setattr(sockets, "POLL_S", math.inf)
            leave_dead(tmp_path / "x.sock")
            assert await reader.settle(2) == [None, find_socket(tmp_path / "x.sock")]
            nursery.cancel_scope.cancel()


def leave_dead(path: Path) -> None:
    """Leave a socket on which nobody listens any more."""
    with listening(path):
        pass
