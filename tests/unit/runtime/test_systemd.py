"""What systemd is told and hands in."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from berth.runtime.systemd import (
    START_LIMIT_S,
    Probe,
    Systemd,
    keep_alive,
    keep_starting,
    listen_fds,
)


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """Give the manager's end of the notification socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as receiver:
        receiver.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        yield receiver


def told(receiver: socket.socket) -> list[str]:
    """Give the messages that have come in."""
    messages = []
    with contextlib.suppress(BlockingIOError):
        while True:
            messages.append(receiver.recv(4096).decode())
    return messages


def test_messages_of_each_kind(manager: socket.socket) -> None:
    """Each call sends one datagram in systemd's form."""

    systemd = Systemd(os.environ)
    systemd.ready("2 plugins serve")
    systemd.status("dra resting\n4 s … Ω")
    systemd.alive()
    systemd.extend(2.5)
    systemd.stopping("bye")
    systemd.close()
    systemd.alive()

    assert told(manager) == [
        "READY=1\nSTATUS=2 plugins serve",
        "STATUS=dra resting 4 s … Ω",
        "WATCHDOG=1",
        "EXTEND_TIMEOUT_USEC=2500000",
        "STOPPING=1\nSTATUS=bye",
    ]


def test_messages_when_systemd_does_not_read(manager: socket.socket) -> None:
    """Nothing waits; the last word of each kind comes with the next message, but for old pings."""

    systemd = Systemd(os.environ)
    for number in range(1000):
        systemd.status(str(number))
    systemd.alive()
    systemd.ready("ready")
    assert told(manager)[-1] != "STATUS=999"
    systemd.alive()
    systemd.status("later")
    systemd.close()

    assert told(manager) == ["STATUS=ready\nREADY=1\nWATCHDOG=1", "STATUS=later"]


# sdnotify leaves the socket to the garbage collector when it cannot connect it.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_socket_of_systemd_when_nobody_listens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The daemon runs on, and says once that nobody hears it."""

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as closed:
        closed.bind(str(tmp_path / "notify"))
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    systemd = Systemd(os.environ)
    systemd.ready("ready")

    assert [record.getMessage() for record in caplog.records] == ["systemd cannot be told anything"]


def test_reloading_carries_the_time(manager: socket.socket) -> None:
    """Systemd needs the moment at which a reload began."""

    systemd = Systemd(os.environ)
    systemd.reloading()
    systemd.close()

    (message,) = told(manager)
    first, stamp = message.split("\n")
    assert first == "RELOADING=1"
    assert stamp.removeprefix("MONOTONIC_USEC=").isdecimal()


def test_nothing_happens_without_systemd() -> None:
    """Started by hand, the daemon talks to nobody."""

    systemd = Systemd({})
    systemd.ready("x")
    systemd.close()

    assert systemd.watchdog_s is None


@pytest.mark.parametrize(
    ("environ", "seconds"),
    [
        ({"WATCHDOG_USEC": "30000000"}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({}, None),
    ],
)
def test_watchdog_time_of_each_environment(environ: dict[str, str], seconds: float | None) -> None:
    """The watchdog counts when it is set, and set for this process."""

    assert Systemd(environ).watchdog_s == seconds


async def _answers() -> None:
    await trio.lowlevel.checkpoint()


async def _fails() -> None:
    await trio.lowlevel.checkpoint()
    raise OSError("boom")


async def test_keep_alive_pings_twice_in_its_time(
    autojump_clock: MockClock, manager: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With every probe answering, a ping goes out each half of the time."""

    monkeypatch.setenv("WATCHDOG_USEC", "30000000")
    systemd = Systemd(os.environ)
    with trio.move_on_after(59):
        await keep_alive(systemd, {"grpc": _answers})
    systemd.close()

    assert told(manager) == ["WATCHDOG=1"] * 4


@pytest.mark.parametrize("bad", [trio.sleep_forever, _fails])
async def test_keep_alive_when_a_probe_is_silent(
    autojump_clock: MockClock,
    manager: socket.socket,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    bad: Probe,
) -> None:
    """While one probe fails or hangs no ping goes out, and it is named; then pings go on."""

    monkeypatch.setenv("WATCHDOG_USEC", "30000000")
    systemd = Systemd(os.environ)
    probes: dict[str, Probe] = {"good": _answers, "bad": bad}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keep_alive, systemd, probes)
        await trio.sleep(29)
        assert told(manager) == []
        fields = [vars(record)["berth_fields"] for record in caplog.records]
        assert fields.count({"of": "bad"}) >= 2
        del probes["bad"]
        await trio.sleep(2)
        assert told(manager) == ["WATCHDOG=1"]
        nursery.cancel_scope.cancel()
    systemd.close()


async def test_keep_alive_without_a_watchdog(autojump_clock: MockClock) -> None:
    """Without a watchdog there is nothing to do and no timer."""

    asked: list[bool] = []

    async def ask() -> None:
        await trio.lowlevel.checkpoint()
        asked.append(True)

    with trio.move_on_after(1000):
        await keep_alive(Systemd({}), {"x": ask})

    assert asked == []


async def test_keep_starting_asks_for_time_until_its_limit(
    autojump_clock: MockClock, manager: socket.socket
) -> None:
    """Each time it asks before what it had is over; a start without end is given up at last."""

    systemd = Systemd(os.environ)
    messages: list[str] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keep_starting, systemd)
        for second in range(100, 1200, 100):
            await trio.sleep(99)
            messages += told(manager)
            await trio.sleep(1)
            assert len(messages) == min(second, START_LIMIT_S) / 20
    systemd.close()

    assert set(messages) == {"EXTEND_TIMEOUT_USEC=40000000"}


class HandedIn:
    """Descriptors in a row, as systemd leaves them."""

    def __init__(self, sockets: list[socket.socket]) -> None:
        self.first = 200
        self.count = len(sockets)
        for index, one in enumerate(sockets):
            os.dup2(one.fileno(), self.first + index, inheritable=True)

    def environ(self, **more: str) -> dict[str, str]:
        """Give the variables that tell of them."""
        return {
            "LISTEN_PID": str(os.getpid()),
            "LISTEN_FDS": str(self.count),
            "LISTEN_FDNAMES": ":".join(["berthd.socket"] * self.count),
            "LISTEN_PIDFDID": "7",
            "PATH": "/bin",
            **more,
        }

    def close(self) -> None:
        """Close what nobody took over."""
        for number in range(self.first, self.first + self.count):
            os.close(number)


@pytest.fixture
def handed(tmp_path: Path) -> Iterator[tuple[HandedIn, Path]]:
    """Hand in a listening socket, a connected one, a datagram one, and one on the same path."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(str(tmp_path / "dra.sock"))
    listening.listen()
    pair = socket.socketpair()
    datagram = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sockets = [listening, pair[0], datagram, listening]
    handed_in = HandedIn(sockets)
    yield handed_in, tmp_path / "dra.sock"
    for one in (listening, *pair, datagram):
        one.close()


def test_listen_fds_when_handed_in(handed: tuple[HandedIn, Path]) -> None:
    """Listening sockets are found by path, the rest by number; children get none of it."""

    handed_in, path = handed
    environ = handed_in.environ()
    inherited = listen_fds(environ, first=handed_in.first)

    assert environ == {"PATH": "/bin"}
    assert list(inherited.sockets) == [path]
    assert dict(inherited.others) == {
        201: "berthd.socket",
        202: "berthd.socket",
        203: "berthd.socket",
    }
    assert not any(os.get_inheritable(number) for number in range(200, 204))
    assert inherited.sockets[path].fileno() == 200
    inherited.sockets[path].detach()
    handed_in.close()


@pytest.mark.parametrize("wrong", [{"LISTEN_PID": "1"}, {"LISTEN_FDS": "many"}])
def test_listen_fds_when_not_for_us(handed: tuple[HandedIn, Path], wrong: dict[str, str]) -> None:
    """Variables that another process was meant to read are removed and not followed."""

    handed_in, _ = handed
    environ = handed_in.environ(**wrong)
    inherited = listen_fds(environ, first=handed_in.first)

    assert environ == {"PATH": "/bin"}
    assert not inherited.sockets
    assert not inherited.others
    handed_in.close()


def test_listen_fds_when_started_by_hand() -> None:
    """Without the variables there is nothing."""

    inherited = listen_fds({})

    assert (dict(inherited.sockets), dict(inherited.others)) == ({}, {})
