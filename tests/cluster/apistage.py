"""The stage of the API scenes: one server, the callers that reach it, and how an answer is told."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

import attrs

from berth.errors import KubeError
from berth.kube.client import KubeClient, Request
from berth.kube.server import SLICES

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
