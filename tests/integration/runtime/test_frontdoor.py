"""Public sockets in front of private ones, kept over plugins, processes and removals."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
from google.protobuf.wrappers_pb2 import StringValue
from trio.testing import wait_all_tasks_blocked

from berth.errors import HostError, LocalProtocolError
from berth.runtime import frontdoor
from berth.runtime.asyncthread import AsyncioThread
from berth.runtime.backoff import BackOff
from berth.runtime.frontdoor import FrontDoor
from berth.runtime.grpcbridge import GrpcChannel, GrpcServer, open_channel
from berth.runtime.inotify import Inotify
from berth.runtime.sockets import connect_unix, find_socket
from tests.integration.runtime.conftest import Stage

DOORKEEPER = Path(__file__).with_name("doorkeeper.py")


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nobody wait a whole second."""
    monkeypatch.setattr(frontdoor, "BackOff", functools.partial(BackOff, first_s=0.01))
    monkeypatch.setattr(frontdoor, "ACCEPT_PAUSE_S", 0.01)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Give the public path."""
    return tmp_path / "public.sock"


@pytest.fixture
def backend(tmp_path: Path) -> Path:
    """Give the private path."""
    return tmp_path / "private.sock"


@pytest.fixture
async def shouter(backend: Path, nursery: trio.Nursery) -> Path:
    """Serve, at the private path, streams that give back in capitals all that came, at its end."""
    listener = trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    await listener.bind(str(backend))
    listener.listen()

    async def shout(stream: trio.SocketStream) -> None:
        with contextlib.suppress(trio.BrokenResourceError):
            data = b"".join([chunk async for chunk in stream])
            await stream.send_all(data.upper())

    nursery.start_soon(trio.serve_listeners, shout, [trio.SocketListener(listener)])
    return backend


def bound(path: Path) -> socket.socket:
    """Bind a listening socket of somebody else's."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    listener.listen()
    return listener


@contextlib.asynccontextmanager
async def opened(door: FrontDoor) -> AsyncIterator[FrontDoor]:
    """Open a door while the block runs."""
    await trio.lowlevel.checkpoint()
    door.open()
    try:
        yield door
    finally:
        door.close()


def mode_of(path: Path) -> int:
    """Give the permissions of a file."""
    return stat.S_IMODE(path.stat().st_mode)


def replace(new: Path, path: Path) -> None:
    """Move one socket over another."""
    new.rename(path)


def remove(path: Path) -> None:
    """Remove a file, as kubelet does."""
    path.unlink()


async def shout_through(path: Path, data: bytes) -> bytes:
    """Send bytes through a door, end the sending half, and give what comes back."""
    async with await connect_unix(path) as stream:
        await stream.send_all(data)
        await stream.send_eof()
        return b"".join([chunk async for chunk in stream])


async def wait_until_ours(door: FrontDoor, count: int) -> None:
    """Wait until the door has bound its path so many times."""
    with trio.fail_after(5):
        await door.bound.wait_value(lambda bound: bound >= count)


async def test_copies_when_half_closed(path: Path, shouter: Path, nursery: trio.Nursery) -> None:
    """What is sent before the end of the sending half is answered after it, whatever its size."""

    async with opened(FrontDoor(path=path)) as door:
        await nursery.start(door.serve, shouter)
        for data in (b"", b"hello", b"x" * 3_000_000):
            assert await shout_through(path, data) == data.upper()
        await wait_all_tasks_blocked(0.01)

        assert (door.statistics().accepted, door.statistics().connections) == (3, 0)


async def test_heard_when_a_client_speaks(path: Path, shouter: Path, nursery: trio.Nursery) -> None:
    """A look whether somebody listens is not a client: `open` itself takes one."""

    async with opened(FrontDoor(path=path, inherited=bound(path))) as door:
        await nursery.start(door.serve, shouter)
        async with await connect_unix(path):
            pass
        await wait_all_tasks_blocked(0.01)
        silent = (door.statistics().accepted, door.heard.get())
        await shout_through(path, b"hello")

        assert silent == (2, False)
        assert door.heard.get()


async def test_client_when_the_plugin_comes_later(path: Path, shouter: Path) -> None:
    """A client that connects while nobody serves waits, and is served by the next run."""

    async with opened(FrontDoor(path=path)) as door:
        for word in (b"first", b"second"):
            async with await connect_unix(path) as stream, trio.open_nursery() as run:
                await stream.send_all(word)
                await wait_all_tasks_blocked(0.01)
                assert not door.statistics().accepting
                await run.start(door.serve, shouter)
                assert door.statistics().accepting
                await stream.send_eof()
                assert await stream.receive_some() == word.upper()
                run.cancel_scope.cancel()


async def test_serve_ends_its_connections_when_cancelled(path: Path, shouter: Path) -> None:
    """The end of a run closes its connections, so that clients connect again."""

    async with opened(FrontDoor(path=path)) as door:
        async with trio.open_nursery() as run:
            await run.start(door.serve, shouter)
            stream = await connect_unix(path)
            while not door.statistics().connections:
                await wait_all_tasks_blocked(0.001)
            run.cancel_scope.cancel()

        assert await stream.receive_some() == b""
        await stream.aclose()


async def test_stop_accepting_lets_connections_end(path: Path, shouter: Path) -> None:
    """After it, serve goes on until the last connection has ended; new clients wait."""

    async with opened(FrontDoor(path=path)) as door:
        async with await connect_unix(path) as old, trio.open_nursery() as run:
            await run.start(door.serve, shouter)
            while not door.statistics().connections:
                await wait_all_tasks_blocked(0.001)
            door.stop_accepting()
            late = await connect_unix(path)
            await old.send_all(b"bye")
            await old.send_eof()
            assert await old.receive_some() == b"BYE"

        assert (door.statistics().accepted, door.statistics().accepting) == (1, False)
        async with late, trio.open_nursery() as run:
            await run.start(door.serve, shouter)
            await late.send_eof()
            assert await late.receive_some() == b""
            run.cancel_scope.cancel()


async def test_connection_when_nobody_is_behind(
    path: Path, backend: Path, nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    """A connection that cannot be passed on ends alone; the door goes on."""

    async with opened(FrontDoor(path=path)) as door:
        await nursery.start(door.serve, backend)
        for _ in range(2):
            async with await connect_unix(path) as stream:
                assert await stream.receive_some() == b""

        assert door.statistics().accepted == 2
        assert "its plugin does not answer" in caplog.text


async def test_connection_when_its_client_resets(
    path: Path, shouter: Path, nursery: trio.Nursery
) -> None:
    """Clients that vanish in the middle disturb nobody."""

    async with opened(FrontDoor(path=path)) as door:
        await nursery.start(door.serve, shouter)
        for _ in range(10):
            stream = await connect_unix(path)
            await stream.send_all(b"x" * 100_000)
            await stream.aclose()

        assert await shout_through(path, b"still here") == b"STILL HERE"


async def test_connections_up_to_the_limit(
    path: Path, shouter: Path, nursery: trio.Nursery
) -> None:
    """More clients than the limit wait until another one ends."""

    async with opened(FrontDoor(path=path, connections=2)) as door:
        await nursery.start(door.serve, shouter)
        first, second, third = [await connect_unix(path) for _ in range(3)]
        await wait_all_tasks_blocked(0.01)
        assert door.statistics().connections == 2
        await third.send_all(b"me too")
        await third.send_eof()
        await first.aclose()
        assert await third.receive_some() == b"ME TOO"
        await second.aclose()
        await third.aclose()


async def test_serve_when_served_already(path: Path, shouter: Path, nursery: trio.Nursery) -> None:
    """One run at a time."""

    async with opened(FrontDoor(path=path)) as door:
        await nursery.start(door.serve, shouter)
        with pytest.raises(LocalProtocolError, match="was served twice"):
            await door.serve(shouter)


async def test_accept_when_descriptors_run_out(
    path: Path,
    shouter: Path,
    nursery: trio.Nursery,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The kernel's refusal is told and outlived."""

    async with opened(FrontDoor(path=path)) as door:
        (listener,) = door._listeners.get()
        accept = listener.accept
        refusals = iter([OSError(24, "Too many open files")] * 3)

        async def refuse_first() -> object:
            for error in refusals:
                await trio.lowlevel.checkpoint()
                raise error
            return await accept()

        monkeypatch.setattr(listener, "accept", refuse_first)
        await nursery.start(door.serve, shouter)

        assert await shout_through(path, b"after") == b"AFTER"
        assert caplog.text.count("cannot accept") == 3


async def test_open_makes_a_private_socket(path: Path) -> None:
    """Only the own user may connect, whatever the umask; the end takes the file away."""

    before = os.umask(0)
    try:
        async with opened(FrontDoor(path=path)):
            assert mode_of(path) == 0o600
    finally:
        os.umask(before)

    assert find_socket(path) is None


async def test_open_when_the_folder_is_missing(tmp_path: Path) -> None:
    """A missing folder is an error, or is made when that is wanted."""

    path = tmp_path / "a" / "b" / "x.sock"
    with pytest.raises(HostError, match=r"x\.sock: cannot bind it: No such file or directory"):
        FrontDoor(path=path).open()
    async with opened(FrontDoor(path=path, make_parent=True)):
        assert mode_of(path.parent) == 0o750


async def test_open_when_a_dead_socket_lies_there(path: Path) -> None:
    """What a process that died left behind is replaced."""

    bound(path).close()
    async with opened(FrontDoor(path=path)), await connect_unix(path):
        pass


def test_open_when_somebody_answers_there(path: Path) -> None:
    """Another process's socket is left alone, and told."""

    with bound(path):
        theirs = find_socket(path)
        with pytest.raises(HostError, match="there is a socket on which a process listens: only"):
            FrontDoor(path=path).open()
        assert find_socket(path) == theirs


def test_open_when_the_dead_socket_is_another_users(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dead socket that is not ours is left alone too."""

    bound(path).close()
    monkeypatch.setattr(os, "geteuid", lambda: 4711)

    with pytest.raises(HostError, match="there is a socket on which nobody listens"):
        FrontDoor(path=path).open()
    assert path.is_socket()


def test_open_when_a_file_lies_there(path: Path) -> None:
    """What is no socket is never removed."""

    path.write_text("mine")

    with pytest.raises(HostError, match="there is something that is no socket"):
        FrontDoor(path=path).open()
    assert path.read_text() == "mine"


async def test_close_when_another_socket_lies_there(path: Path) -> None:
    """At the end only the file that was bound here is removed."""

    with bound(path.with_name("new")):
        async with opened(FrontDoor(path=path)):
            theirs = find_socket(path.with_name("new"))
            replace(path.with_name("new"), path)

        assert find_socket(path) == theirs


async def test_keep_when_the_file_is_removed(
    inotify: Inotify, path: Path, shouter: Path, nursery: trio.Nursery
) -> None:
    """The path is bound anew each time, also while it serves, and who asks is told."""

    async with opened(FrontDoor(path=path)) as door:
        nursery.start_soon(door.keep, inotify)
        await nursery.start(door.serve, shouter)
        for count in (2, 3, 4):
            remove(path)
            await wait_until_ours(door, count)
            assert await shout_through(path, b"again") == b"AGAIN"

        assert door.statistics().bound == 4
        assert len(door._listeners.get()) == 1


async def test_keep_when_the_folder_is_removed(
    inotify: Inotify, tmp_path: Path, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder is made again where that is wanted; else the door waits for it."""

    for make_parent in (True, False):
        path = tmp_path / str(make_parent) / "x.sock"
        path.parent.mkdir()
        async with opened(FrontDoor(path=path, make_parent=make_parent)) as door:
            nursery.start_soon(door.keep, inotify)
            await wait_all_tasks_blocked(0.01)
            remove(path)
            path.parent.rmdir()
            if not make_parent:
                await wait_all_tasks_blocked(0.01)
                path.parent.mkdir()
            await wait_until_ours(door, 2)
            assert find_socket(path) is not None


async def test_keep_when_somebody_else_takes_the_path(
    inotify: Inotify, path: Path, nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    """Another process's socket is left alone while it lives; then the path is ours again."""

    async with opened(FrontDoor(path=path)) as door:
        nursery.start_soon(door.keep, inotify)
        await wait_all_tasks_blocked(0.01)
        with bound(path.with_name("new")):
            replace(path.with_name("new"), path)
            theirs = find_socket(path)
            await wait_all_tasks_blocked(0.01)
            assert find_socket(path) == theirs
            assert "public socket is lost" in caplog.text
        await wait_until_ours(door, 2)
        async with await connect_unix(path):
            pass


@pytest.mark.parametrize("left", ["nothing", "dead"])
async def test_inherited_when_its_file_is_gone(
    path: Path,
    shouter: Path,
    nursery: trio.Nursery,
    caplog: pytest.LogCaptureFixture,
    left: str,
) -> None:
    """The path is bound here, with one warning; who waits on the inherited one is served too."""

    inherited = bound(path)
    waiting = await connect_unix(path)
    remove(path)
    if left == "dead":
        bound(path).close()
    async with opened(FrontDoor(path=path, inherited=inherited)) as door:
        await nursery.start(door.serve, shouter)
        await waiting.send_all(b"waited")
        await waiting.send_eof()

        assert await waiting.receive_some() == b"WAITED"
        assert await shout_through(path, b"new") == b"NEW"
        assert caplog.text.count("file of the inherited socket is gone") == 1
        await waiting.aclose()

    assert find_socket(path) is None


async def test_inherited_when_its_file_goes_later(
    inotify: Inotify, path: Path, shouter: Path, nursery: trio.Nursery
) -> None:
    """A removed file of an inherited socket is bound here as well."""

    async with opened(FrontDoor(path=path, inherited=bound(path))) as door:
        nursery.start_soon(door.keep, inotify)
        await nursery.start(door.serve, shouter)
        remove(path)
        await wait_until_ours(door, 1)

        assert await shout_through(path, b"again") == b"AGAIN"


async def test_inherited_file_stays_at_the_end(path: Path) -> None:
    """The file of an inherited socket belongs to who made it."""

    async with opened(FrontDoor(path=path, inherited=bound(path))) as door:
        assert door.statistics().inherited

    assert find_socket(path) is not None


async def test_grpc_through_the_door(
    thread: AsyncioThread, server: GrpcServer, stage: Stage, path: Path, nursery: trio.Nursery
) -> None:
    """Two hundred calls at once, a stream, and a client that goes away, all through the door."""

    answers: list[str] = []

    async def call(text: str) -> None:
        async with open_channel(thread, path) as channel:
            reply = await channel.unary("/test.Stage/Wait", StringValue(value=text), StringValue)
            answers.append(reply.value)

    async with opened(FrontDoor(path=path)) as door:
        await nursery.start(door.serve, server.path)
        async with open_channel(thread, path) as channel:
            request = StringValue(value="300")
            async with channel.stream("/test.Stage/Count", request, StringValue) as replies:
                assert len([reply async for reply in replies]) == 300
            async with trio.open_nursery() as doomed:
                doomed.start_soon(call, "doomed")
                await stage.wait_began(2)
                doomed.cancel_scope.cancel()
            await stage.wait_cancelled("doomed")
        async with trio.open_nursery() as calls:
            for number in range(50):
                calls.start_soon(call, str(number))
            await stage.wait_began(52)
            stage.go.set()

    assert sorted(answers, key=int) == [str(number) for number in range(50)]


class Doorkeeper:
    """A daemon in small, in a process of its own, with its socket handed in as systemd does."""

    def __init__(self, name: str, listener: socket.socket, folder: Path) -> None:
        public = listener.getsockname()
        daemon = f'"{sys.executable}" "{DOORKEEPER}" {name} "{public}" "{folder}"'
        self.process = subprocess.Popen(
            ["sh", "-c", f"LISTEN_PID=$$ LISTEN_FDS=1 exec {daemon} 3<&0 0</dev/null"],
            stdin=listener.fileno(),
            stdout=subprocess.PIPE,
        )

    async def wait_serving(self) -> None:
        """Wait until it says that it serves."""
        assert self.process.stdout is not None
        assert await trio.to_thread.run_sync(self.process.stdout.readline) == b"serving\n"

    async def end(self, number: signal.Signals) -> int:
        """Send a signal, wait for the end, and give the exit code."""
        self.process.send_signal(number)
        return await trio.to_thread.run_sync(self.process.wait)

    def close(self) -> None:
        """Clean up."""
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_call_while_the_daemon_is_replaced(
    thread: AsyncioThread, tmp_path: Path, number: signal.Signals
) -> None:
    """A call sent while nobody serves an inherited socket is answered by the next process."""

    answers: list[str] = []

    async def call(channel: GrpcChannel) -> None:
        reply = await channel.unary("/test.Door/Name", StringValue(), StringValue)
        answers.append(reply.value)

    with bound(tmp_path / "dra.sock") as listener, contextlib.ExitStack() as stack:
        file = find_socket(tmp_path / "dra.sock")
        first = Doorkeeper("first", listener, tmp_path)
        stack.callback(first.close)
        await first.wait_serving()
        async with (
            open_channel(thread, tmp_path / "dra.sock") as old,
            open_channel(thread, tmp_path / "dra.sock") as new,
        ):
            await call(old)
            assert await first.end(number) in {0, -signal.SIGKILL}
            async with trio.open_nursery() as nursery:
                nursery.start_soon(call, old)
                nursery.start_soon(call, new)
                await wait_all_tasks_blocked(0.05)
                assert answers == ["first"]
                second = Doorkeeper("second", listener, tmp_path)
                stack.callback(second.close)

        assert answers == ["first", "second", "second"]
        assert find_socket(tmp_path / "dra.sock") == file


async def test_no_call_is_cut_while_the_daemon_is_replaced(
    thread: AsyncioThread, tmp_path: Path
) -> None:
    """Clients that call on and on hear no error: some calls are the first's, the others wait."""

    answers: list[list[str]] = [[] for _ in range(8)]

    async def call_on(number: int, channel: GrpcChannel) -> None:
        while not answers[number] or answers[number][-1] == "first":
            reply = await channel.unary("/test.Door/Name", StringValue(), StringValue)
            answers[number].append(reply.value)

    with bound(tmp_path / "dra.sock") as listener, contextlib.ExitStack() as stack:
        first = Doorkeeper("first", listener, tmp_path)
        stack.callback(first.close)
        await first.wait_serving()
        async with contextlib.AsyncExitStack() as channels, trio.open_nursery() as nursery:
            for number in range(len(answers)):
                channel = await channels.enter_async_context(
                    open_channel(thread, tmp_path / "dra.sock")
                )
                nursery.start_soon(call_on, number, channel)
            await trio.sleep(0.2)
            assert await first.end(signal.SIGTERM) == 0
            second = Doorkeeper("second", listener, tmp_path)
            stack.callback(second.close)

    assert {each[-1] for each in answers} == {"second"}
    assert all("first" in each for each in answers)
