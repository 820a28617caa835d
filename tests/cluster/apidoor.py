"""A way to a cluster's API server for our own client, which knows nothing of boxes."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import trio

from berth.kube.client import KubeClient
from berth.kube.sources import Choice
from tests.cluster.apistage import client_of
from tests.cluster.bed import Cluster
from tests.cluster.controlplane import ADDRESS, PORT


@contextlib.asynccontextmanager
async def open_door(cluster: Cluster) -> AsyncIterator[int]:
    """A port of loopback behind which the API server is, whose network is another one."""

    async def relay(near: trio.SocketStream) -> None:
        made = trio.socket.from_stdlib_socket(cluster.control.box.socket())
        await made.connect((ADDRESS, PORT))
        async with near, trio.SocketStream(made) as far, trio.open_nursery() as nursery:
            nursery.start_soon(copy, near, far)
            await copy(far, near)
            nursery.cancel_scope.cancel()

    async def copy(source: trio.SocketStream, sink: trio.SocketStream) -> None:
        with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async for data in source:
                await sink.send_all(data)
            await sink.send_eof()

    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with trio.open_nursery() as nursery:
        await nursery.start(trio.serve_listeners, relay, listeners)
        yield listeners[0].socket.getsockname()[1]
        nursery.cancel_scope.cancel()


def choose(cluster: Cluster, door: int, name: str, subject: str, folder: Path) -> Choice:
    """Credentials of a subject such as `/O=system:masters/CN=admin`, for who comes by that door.

    Args:
        name: Of the files, unique in the cluster.
        folder: Where the kubeconfig is put.
    """
    authority, server = cluster.control.authority, f"https://127.0.0.1:{door}"
    file = folder / f"{name}.kubeconfig"
    file.write_text(authority.kubeconfig(server, authority.sign(name, subject)))
    return Choice(kind="kubeconfig", path=str(file))


@contextlib.asynccontextmanager
async def open_admin(cluster: Cluster, folder: Path) -> AsyncIterator[KubeClient]:
    """Our client as an administrator has it."""
    async with open_door(cluster) as door:
        choice = choose(cluster, door, "door-admin", "/O=system:masters/CN=admin", folder)
        async with client_of(choice) as client:
            yield client
