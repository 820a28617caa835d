"""Paths of private sockets; binding is proven in tests/integration/runtime/test_frontdoor.py."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from berth.errors import HostError
from berth.runtime.listeners import Occupant, private_path, probe_path, sweep_private_sockets


def bound(path: Path) -> socket.socket:
    """Bind a socket on which nobody listens yet."""
    one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    one.bind(str(path))
    return one


def test_private_path_is_never_given_twice(tmp_path: Path) -> None:
    """Each run of a plugin has its own, named after process and door."""

    paths = [private_path(tmp_path, door).name for door in ("dra", "dra", "reg", "dra")]

    pid = os.getpid()
    assert paths == [f"{pid}-dra.sock", f"{pid}-dra-2.sock", f"{pid}-reg.sock", f"{pid}-dra-3.sock"]


def test_private_path_when_the_folder_is_too_deep() -> None:
    """A path that no socket can have is told before grpcio meets it."""

    with pytest.raises(HostError, match="the path of this socket has"):
        private_path(Path("/" + "x" * 100), "dra")


def test_sweep_removes_dead_sockets_alone(tmp_path: Path) -> None:
    """What dead processes left goes; living sockets and other files stay."""

    bound(tmp_path / "1-dra.sock").close()
    (tmp_path / "file.sock").touch()
    with bound(tmp_path / "2-dra.sock") as living:
        living.listen()

        assert sweep_private_sockets(tmp_path) == (tmp_path / "1-dra.sock",)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["2-dra.sock", "file.sock"]


@pytest.mark.parametrize("backlog", [0, 5])
def test_probe_when_the_backlog_is_full(tmp_path: Path, backlog: int) -> None:
    """A listener that accepts nobody is still seen as one, however many wait."""

    with bound(tmp_path / "x.sock") as listener:
        listener.listen(backlog)

        assert {probe_path(tmp_path / "x.sock") for _ in range(20)} == {Occupant.LISTENING}
