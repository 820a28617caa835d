"""``berth check`` asks an API server over HTTP."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from berth.cli.checks import apiserver
from berth.cli.checks.apiserver import look_api
from berth.cli.checks.machine import ApiLook
from berth.kube.sources import CredentialSettings
from berth.rehearsal.apiserver.resources import CLASSES, NODES
from berth.rehearsal.apiserver.server import ApiServer, kubeconfig_json


@asynccontextmanager
async def serving(path: Path) -> AsyncIterator[ApiServer]:
    """A stand-in on loopback, whose kubeconfig lies at the path."""
    server = ApiServer()
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    write(path, listeners[0].socket.getsockname()[1])
    async with trio.open_nursery() as nursery:
        await nursery.start(server.serve, listeners)
        yield server
        nursery.cancel_scope.cancel()


def write(path: Path, port: int) -> None:
    """Write a kubeconfig for a server on loopback."""
    path.write_text(kubeconfig_json(f"http://127.0.0.1:{port}"), encoding="utf-8")


def look(path: Path) -> ApiLook | None:
    """Ask as ``berth check`` does, in a loop of its own."""
    settings = CredentialSettings(kubeconfig=str(path))
    return look_api(settings, configured="", host_name="worker-7", driver="berth.dev")


async def test_look_when_all_is_there(tmp_path: Path) -> None:
    """Version, node and classes are read."""

    path = tmp_path / "kubeconfig"
    async with serving(path) as server:
        server.put(NODES, {"metadata": {"name": "worker-7"}})
        server.put(CLASSES, {"metadata": {"name": "nic.berth.dev"}, "spec": {"selectors": []}})
        found = await trio.to_thread.run_sync(look, path)

    assert found is not None
    assert (found.fault, found.node, found.node_fault) == ("", "worker-7", "")
    assert (found.major, found.minor > 30) == (1, True)
    assert found.classes == {"nic.berth.dev": '{"selectors": []}'}


async def test_look_when_there_is_no_such_node(tmp_path: Path) -> None:
    """A name without Node object is told with where the name comes from."""

    path = tmp_path / "kubeconfig"
    async with serving(path):
        found = await trio.to_thread.run_sync(look, path)

    assert found is not None
    assert found.node == ""
    assert found.node_fault.startswith("there is no Node 'worker-7', a name taken from the host")


def test_look_when_nobody_listens(tmp_path: Path) -> None:
    """A refused connection is told, with the address."""

    path = tmp_path / "kubeconfig"
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        write(path, reserved.getsockname()[1])
        found = look(path)

    assert found is not None
    assert "127.0.0.1" in found.fault


def test_look_when_the_server_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that says nothing costs the command some seconds, and no more."""

    monkeypatch.setattr(apiserver, "LIMIT_S", 0.1)
    path = tmp_path / "kubeconfig"
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        write(path, silent.getsockname()[1])
        found = look(path)

    assert found == ApiLook(fault="no answer within 0 s")
