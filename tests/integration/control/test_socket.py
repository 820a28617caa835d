"""The control socket as files and processes see it: who may ask, how many, and for how long."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import stat
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import trio

from berth import control
from berth.control import (
    ANSWER_LIMIT,
    CONNECTION_LIMIT,
    NAME,
    ControlClient,
    ControlServer,
    Event,
    Verb,
)
from berth.errors import HostError, RemoteProtocolError
from berth.runtime.backoff import BackOff
from berth.runtime.inotify import Inotify, open_inotify
from berth.runtime.sockets import wait_socket, watch_inode
from tests.descriptors import inotify_watches, open_descriptors

LIMIT_S = 20.0


async def echo(request: Mapping[str, Any], tell: Event) -> Mapping[str, Any]:
    """Answer with what was asked, after one event."""
    await tell({"event": "heard"})
    return {"said": request.get("say")}


async def never(_: Mapping[str, Any], __: Event) -> Mapping[str, Any]:
    """Give no answer."""
    await trio.sleep_forever()
    raise AssertionError


VERBS: Mapping[str, Verb] = {"echo": echo, "never": never}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The runtime folder, which the server makes."""
    return tmp_path / "run" / "berth"


@contextlib.asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[trio.CancelScope]:
    """A server in the folder; cancelling the scope ends it as the daemon's stop does."""
    with trio.fail_after(LIMIT_S):
        async with open_inotify() as inotify, trio.open_nursery() as nursery:
            server = ControlServer(folder, VERBS, inotify=inotify)
            await nursery.start(server.run)
            yield nursery.cancel_scope
            nursery.cancel_scope.cancel()


async def in_thread(ask: Callable[[], Any]) -> Any:
    """Run the blocking client beside the server."""
    return await trio.to_thread.run_sync(ask, abandon_on_cancel=True)


def ask(folder: Path, verb: str, **fields: Any) -> tuple[Mapping[str, Any], list[Any]]:
    """Ask as the command does; gives answer and events."""
    events: list[Any] = []
    client = ControlClient(folder, timeout_s=LIMIT_S)
    try:
        return client.ask(verb, told=events.append, **fields), events
    finally:
        client.close()


async def test_answer_by_client(folder: Path) -> None:
    """The command's client gets events and the answer."""

    async with serving(folder):
        answer, events = await in_thread(lambda: ask(folder, "echo", say="grüß dich"))

    assert answer == {"id": 1, "ok": True, "said": "grüß dich"}
    assert events == [{"event": "heard", "id": 1}]


async def test_socket_is_for_root_alone(folder: Path) -> None:
    """Folder and socket let nobody in but their owner."""

    async with serving(folder):
        assert mode_of(folder) == 0o700
        assert mode_of(folder / NAME) == 0o600


def mode_of(path: Path) -> int:
    """The permissions of a file."""
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can ask as somebody else")
async def test_answer_when_another_user_asks(caplog: pytest.LogCaptureFixture) -> None:
    """Another user gets no answer, even where the files would let them in."""

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with serving(folder):
            open_to_all(folder)
            said = await in_thread(lambda: ask_as(65534, folder))

    assert said == b""
    reasons = [str(vars(record)["berth_fields"]["reason"]) for record in caplog.records]
    assert reasons == ["control: user 65534 asked: only root may"]


def open_to_all(folder: Path) -> None:
    """Let every user reach the socket."""
    folder.chmod(0o755)
    (folder / NAME).chmod(0o666)


def ask_as(uid: int, folder: Path) -> bytes:
    """What a process of another user reads from the socket."""
    with socket.socket(socket.AF_UNIX) as ours:
        child = os.fork()
        if child == 0:
            os.setuid(uid)
            # The kernel takes the user of now, at connect.
            os._exit(ours.connect_ex(str(folder / NAME)))
        assert os.waitpid(child, 0)[1] == 0
        # What was sent is not read, so the end may come as a reset.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            ours.sendall(b'{"verb": "echo"}\n')
            return ours.recv(1000)
        return b""


async def test_answers_when_a_thousand_ask(folder: Path) -> None:
    """A thousand connections are all answered, and leave nothing open."""

    answered = []

    async def one(stream: trio.SocketStream, number: int) -> None:
        async with stream:
            await stream.send_all(json.dumps({"verb": "echo", "say": number}).encode() + b"\n")
            data = bytearray()
            while data.count(b"\n") < 2:
                data += await stream.receive_some(65536)
            answered.append(json.loads(data.splitlines()[1])["said"])

    async with serving(folder):
        while not inotify_watches():  # noqa: ASYNC110 - a thread opens it, after the start
            await trio.sleep(0.01)
        before = len(open_descriptors())
        async with trio.open_nursery() as nursery:
            for number in range(1000):
                nursery.start_soon(one, await connect(folder), number)
        # Our ends are closed; the socket learns of that by and by.
        with trio.fail_after(LIMIT_S):
            while len(open_descriptors()) > before:  # noqa: ASYNC110 - closing tells nobody
                await trio.sleep(0.01)
    assert sorted(answered) == list(range(1000))


async def connect(folder: Path) -> trio.SocketStream:
    """Connect, again when the kernel's backlog is full for a moment.

    trio takes the kernel's "try again" for "under way", and the socket for connected.
    """
    while True:
        found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        if found.connect_ex(str(folder / NAME)) == 0:
            return trio.SocketStream(trio.socket.from_stdlib_socket(found))
        found.close()
        await trio.lowlevel.checkpoint()


async def test_answer_when_others_are_silent(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Peers that say nothing are let go, so that whoever comes after them is answered."""

    monkeypatch.setattr(control, "LINE_S", 0.05)
    async with serving(folder), contextlib.AsyncExitStack() as silent:
        for _ in range(3 * CONNECTION_LIMIT):
            await silent.enter_async_context(await connect(folder))
        answer, _ = await in_thread(lambda: ask(folder, "echo"))

    assert answer["ok"] is True


async def test_answer_when_the_peer_closes_its_half(folder: Path) -> None:
    """A peer that sends its request and then only reads gets its answer."""

    async with serving(folder), await connect(folder) as stream:
        await stream.send_all(b'{"verb": "echo", "say": 1}\n')
        await stream.send_eof()
        data = bytearray()
        while part := await stream.receive_some(65536):
            data += part

    assert json.loads(data.splitlines()[-1]) == {"id": None, "ok": True, "said": 1}


async def test_answer_when_the_daemon_stops(folder: Path) -> None:
    """A stop ends what is being asked, and takes the socket away."""

    raised: list[Exception] = []

    async def ask_and_note() -> None:
        with trio.CancelScope(shield=True):
            try:
                await in_thread(lambda: ask(folder, "never"))
            except RemoteProtocolError as error:
                raised.append(error)

    async with trio.open_nursery() as nursery, serving(folder) as scope:
        nursery.start_soon(ask_and_note)
        await trio.testing.wait_all_tasks_blocked(0.05)
        scope.cancel()

    assert [str(error) for error in raised] == ["control: the daemon ended the connection"]
    assert list_all(folder) == []


async def test_socket_when_its_file_is_removed(
    folder: Path, inotify: Inotify, caplog: pytest.LogCaptureFixture
) -> None:
    """A socket that somebody tidied away, folder and all, is made anew."""

    async with serving(folder):
        remove(folder)
        with watch_inode(inotify, folder / NAME) as changes:
            while await changes.wait_next() is None:
                pass
        answer, _ = await in_thread(lambda: ask(folder, "echo"))

    assert answer["ok"] is True
    assert [r.getMessage() for r in caplog.records] == ["control socket was removed, bound anew"]


async def test_socket_when_it_cannot_be_made_anew(
    folder: Path,
    inotify: Inotify,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While something is in the way it is tried again and again, with a word each time."""

    monkeypatch.setattr(control, "BackOff", lambda: BackOff(first_s=0.01, most_s=0.01))
    async with serving(folder):
        remove(folder)
        put_in_the_way(folder)
        with trio.move_on_after(0.1):
            await trio.sleep_forever()
        take_out_of_the_way(folder)
        await wait_socket(inotify, folder / NAME)
        answer, _ = await in_thread(lambda: ask(folder, "echo"))

    assert answer["ok"] is True
    told = [record.getMessage() for record in caplog.records]
    assert told[-1] == "control socket was removed, bound anew"
    assert {*told[:-1]} == {"control socket is lost"}


async def test_accept_when_the_kernel_refuses(
    folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For want of descriptors a connection waits, and is let in when there are some."""

    monkeypatch.setattr(control, "ACCEPT_PAUSE_S", 0.01)
    kind = real_socket_type()
    real = kind.accept
    refusals = iter([OSError(errno.EMFILE, "Too many open files")])

    async def accept(self: trio.socket.SocketType) -> Any:
        for error in refusals:
            raise error
        return await real(self)

    monkeypatch.setattr(kind, "accept", accept)
    async with serving(folder):
        answer, _ = await in_thread(lambda: ask(folder, "echo"))

    assert answer["ok"] is True
    assert [record.getMessage() for record in caplog.records] == ["cannot accept"]


def real_socket_type() -> type[trio.socket.SocketType]:
    """The class behind trio's sockets, which shows only its abstract one."""
    with trio.socket.socket() as found:
        return type(found)


def put_in_the_way(folder: Path) -> None:
    """Put a file where a folder should be."""
    folder.write_text("in the way")


def take_out_of_the_way(folder: Path) -> None:
    """Take it away again."""
    folder.unlink()


def remove(folder: Path) -> None:
    """Take the socket and its folder away."""
    (folder / NAME).unlink()
    folder.rmdir()


async def test_socket_when_another_daemon_has_it(folder: Path, inotify: Inotify) -> None:
    """A second server refuses, and leaves the first one's socket alone."""

    async with serving(folder):
        with pytest.raises(HostError, match="a socket on which a process listens"):
            await ControlServer(folder, VERBS, inotify=inotify).run()
        answer, _ = await in_thread(lambda: ask(folder, "echo"))

    assert answer["ok"] is True


async def test_socket_when_the_last_daemon_was_killed(folder: Path) -> None:
    """What a killed daemon left is replaced, and taken away at the end."""

    leave_dead(folder)
    async with serving(folder):
        answer, _ = await in_thread(lambda: ask(folder, "echo"))

    assert answer["ok"] is True
    assert list_all(folder) == []


def list_all(folder: Path) -> list[Path]:
    """What lies in a folder."""
    return list(folder.iterdir())


def leave_dead(folder: Path) -> None:
    """Leave a socket on which nobody listens."""
    folder.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(folder / NAME))


@pytest.mark.parametrize("left", [None, "dead"])
def test_client_when_nobody_listens(folder: Path, left: str | None) -> None:
    """Without a daemon the client says so by a number that the command can tell."""

    if left is not None:
        leave_dead(folder)
    with pytest.raises(HostError) as caught:
        ControlClient(folder)

    assert caught.value.errno in {errno.ENOENT, errno.ECONNREFUSED}


def test_client_when_the_path_is_too_long(tmp_path: Path) -> None:
    """A folder whose socket cannot be is refused by name."""

    with pytest.raises(HostError, match="the kernel takes at most 107"):
        ControlClient(tmp_path / ("x" * 200))


@pytest.mark.parametrize(
    ("sent", "found"),
    [
        (b"", "the daemon ended the connection"),
        (b'{"ok": tr', "the daemon ended the connection"),
        (b"hello\n", "a line that is no JSON"),
        (b"x" * (ANSWER_LIMIT + 2), f"a line of more than {ANSWER_LIMIT} bytes"),
    ],
)
def test_client_when_the_answer_is_none(tmp_path: Path, sent: bytes, found: str) -> None:
    """What comes instead of an answer is told as the daemon's fault."""

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / NAME))
        listener.listen()
        peer = threading.Thread(target=say_once, args=(listener, sent))
        peer.start()
        with pytest.raises(RemoteProtocolError, match=found):
            ask(tmp_path, "echo")
        peer.join()


def say_once(listener: socket.socket, sent: bytes) -> None:
    """Take one request and say something, whatever it was."""
    accepted, _ = listener.accept()
    with accepted, contextlib.suppress(BrokenPipeError):
        accepted.recv(1000)
        accepted.sendall(sent)


def test_client_when_no_answer_comes_in_time(tmp_path: Path) -> None:
    """A daemon that hangs costs the command its patience, and no more."""

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / NAME))
        listener.listen()
        client = ControlClient(tmp_path, timeout_s=0.05)
        with pytest.raises(HostError, match="no answer"):
            client.ask("status")
        client.close()
