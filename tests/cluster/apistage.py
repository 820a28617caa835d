"""The stage of the API scenes: one server, the callers that reach it, and how an answer is told."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from berth.errors import KubeError
from berth.kube.client import KubeClient, Request
from berth.kube.credentials import Credentials
from berth.kube.server import SLICES
from berth.kube.sources import Choice
from berth.rehearsal.apiserver.callers import Caller, Role
from berth.rehearsal.apiserver.resources import NODES
from berth.rehearsal.apiserver.server import ApiServer, kubeconfig_json

CLAIMS: Final = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
PODS: Final = "/api/v1/namespaces/default/pods"
DRIVER: Final = "berth.dev"
NODE: Final = "scene"


@attrs.frozen(kw_only=True)
class Stage:
    """One server, as an administrator, a kubelet and an account bound to a node reach it."""

    admin: KubeClient
    kubelet: KubeClient
    account: KubeClient
    stranger: KubeClient


@contextlib.asynccontextmanager
async def client_of(choice: Choice) -> AsyncIterator[KubeClient]:
    """A client by these credentials, closed at the end."""
    client = KubeClient(Credentials(choice, environment={}))
    await client.credentials.login()
    try:
        yield client
    finally:
        await client.aclose()


@contextlib.asynccontextmanager
async def open_stand_in(folder: Path) -> AsyncIterator[Stage]:
    """The stand-in with callers of the rights that the real stage's have.

    Args:
        folder: Where their kubeconfigs are put.
    """
    tokens = {
        "admin": Caller(name="admin"),
        "kubelet": Caller(name=f"system:node:{NODE}", role=Role.KUBELET, node=NODE),
        "account": Caller(name="berthd", role=Role.ACCOUNT, node=NODE),
        "stranger": Caller(name="berthd", role=Role.ACCOUNT),
    }
    server = ApiServer(tokens=tokens)
    server.put(NODES, {"metadata": {"name": NODE}})
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    address = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
    async with trio.open_nursery() as nursery, contextlib.AsyncExitStack() as stack:
        await nursery.start(server.serve, listeners)
        clients = {}
        for name in tokens:
            file = folder / f"{name}.stand-in"
            file.write_text(kubeconfig_json(address, token=name))
            choice = Choice(kind="kubeconfig", path=str(file))
            clients[name] = await stack.enter_async_context(client_of(choice))
        yield Stage(**clients)
        nursery.cancel_scope.cancel()


async def sweep(stage: Stage) -> None:
    """Take away what a scene left."""
    params = {"fieldSelector": f"spec.driver={DRIVER}"}
    await stage.admin.request(Request(method="DELETE", path=SLICES, params=params))
    # Nobody is there to end these pods.
    at_once = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
    for path in (PODS, CLAIMS):
        for item in (await stage.admin.request(Request(method="GET", path=path)))["items"]:
            place = f"{path}/{item['metadata']['name']}"
            await stage.admin.request(Request(method="DELETE", path=place, body=at_once))


Scene = Callable[[Stage], Awaitable[list[Any]]]


async def ask(
    client: KubeClient, method: str, path: str, body: Any = None, **more: Any
) -> tuple[Any, ...]:
    """Status, reason and refused fields of an answer; of a good one, the parts that tell."""
    request = Request(method=method, path=path, body=body, **more)
    try:
        value = await client.request(request)
    except KubeError as error:
        return error.status, error.reason, tuple(sorted(set(error.fields)))
    return 200, value.get("kind"), json.dumps(value.get("spec"), sort_keys=True)
