"""Scenes about rights: a kubelet's certificate, a token bound to a node, a token bound to none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import trio

from berth.kube.client import MERGE_PATCH, KubeClient, Request
from berth.kube.server import SLICES
from tests.cluster.apistage import CLAIMS, DRIVER, NODE, PODS, Scene, Stage, ask
from tests.cluster.claimscenes import ENTRY, OTHER_ENTRY, apply_status, make_claim
from tests.cluster.slicecases import slice_of

OWN: Final = {"fieldSelector": f"spec.nodeName={NODE}"}
CLASSES: Final = "/apis/resource.k8s.io/v1/deviceclasses"
ELSEWHERE: Final = "elsewhere"
SPECS: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"nodeName": ELSEWHERE},
    {"nodeName": None, "allNodes": True},
    {"nodeName": None, "nodeSelector": {"nodeSelectorTerms": []}},
)


async def verdict(client: KubeClient, method: str, path: str, body: Any = None, **more: Any) -> Any:
    """Status, reason and refused fields alone."""
    answer = await ask(client, method, path, body, **more)
    return answer if answer[0] != 200 else answer[:1]


async def act_slice_rights(stage: Stage) -> list[Any]:
    """What each caller may do with own, foreign and vanished slices."""
    seen: list[Any] = []
    post = Request(method="POST", path=SLICES, body=slice_of(nodeName=ELSEWHERE))
    foreign = f"{SLICES}/{(await stage.admin.request(post))['metadata']['name']}"
    await wait_for_policy(stage)
    for name in ("kubelet", "account", "stranger"):
        client: KubeClient = getattr(stage, name)

        async def note(
            method: str, path: str, body: Any = None, *, by: KubeClient = client, **more: Any
        ) -> None:
            seen.append((method, path == SLICES, await verdict(by, method, path, body, **more)))

        for spec in SPECS:
            await note("POST", SLICES, slice_of(**spec))
        own = await stage.admin.request(Request(method="POST", path=SLICES, body=slice_of()))
        path = f"{SLICES}/{own['metadata']['name']}"
        if name == "kubelet":
            await wait_related(client, path)
        del own["metadata"]["resourceVersion"]
        await note("GET", path)
        await note("PUT", path, own)
        await note("PATCH", path, {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE_PATCH)
        await note("DELETE", path)
        if name == "kubelet":
            await wait_gone(client, path)
        for method in ("GET", "PUT", "DELETE"):
            await note(method, path, own if method == "PUT" else None)
        for method in ("GET", "DELETE"):
            await note(method, foreign)
        for params in ({}, OWN, {"fieldSelector": f"spec.nodeName={ELSEWHERE}"}):
            await note("GET", SLICES, params=params)
        await note("DELETE", SLICES, params=OWN)
        await note("DELETE", SLICES)
    return seen


async def act_claim_rights(stage: Stage) -> list[Any]:
    """What each caller may read and write of claims: of pods here, of pods elsewhere."""
    seen: list[Any] = []
    await make_claim(stage, "here")
    await make_claim(stage, "there", node=ELSEWHERE)
    await stage.admin.request(Request(method="POST", path=PODS, body=pod_with("here")))
    await wait_related(stage.kubelet, f"{CLAIMS}/here")
    for name in ("kubelet", "account", "stranger"):
        client: KubeClient = getattr(stage, name)
        seen += [
            await verdict(client, "GET", f"{CLAIMS}/here"),
            await verdict(client, "GET", f"{CLAIMS}/there") if name == "kubelet" else None,
            await verdict(client, "GET", f"{CLAIMS}/absent"),
            await verdict(client, "GET", CLAIMS),
            await verdict(client, "DELETE", f"{CLAIMS}/here"),
            await verdict(client, "GET", f"{CLAIMS}/here/status"),
        ]
        for claim in ("here", "there"):
            found = await stage.admin.request(Request(method="GET", path=f"{CLAIMS}/{claim}"))
            seen.append(await apply_status(client, found, [ENTRY], by=name))
            seen.append(await apply_status(client, found, [OTHER_ENTRY], by=f"{name}-other"))
    return seen


async def act_other_rights(stage: Stage) -> list[Any]:
    """Nodes, classes and pods."""
    seen: list[Any] = []
    for client in (stage.kubelet, stage.account, stage.stranger):
        seen += [
            await verdict(client, "GET", f"/api/v1/nodes/{NODE}"),
            await verdict(client, "GET", f"/api/v1/nodes/{ELSEWHERE}"),
            await verdict(client, "GET", "/api/v1/nodes"),
            await verdict(client, "GET", f"{CLASSES}/absent"),
            await verdict(client, "GET", CLASSES),
            await verdict(client, "POST", CLASSES, {}),
            await verdict(client, "GET", "/api/v1/pods", params=OWN),
            await verdict(client, "GET", "/api/v1/pods"),
        ]
    return seen


def pod_with(claim: str) -> dict[str, Any]:
    """A pod that was bound to the scene's node with a claim."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"with-{claim}", "namespace": "default"},
        "spec": {
            "nodeName": NODE,
            "automountServiceAccountToken": False,
            "resourceClaims": [{"name": "nic", "resourceClaimName": claim}],
            "containers": [{"name": "c", "image": "i", "resources": {"claims": [{"name": "nic"}]}}],
        },
    }


async def wait_related(client: KubeClient, path: str) -> None:
    """Wait until the node authorizer, which lags, knows that an object is the node's."""
    await wait_other(client, path, 403)


async def wait_gone(client: KubeClient, path: str) -> None:
    """Wait until the node authorizer has forgotten a slice: the answer is 404 until then."""
    await wait_other(client, path, 404)


async def wait_other(client: KubeClient, path: str, status: int) -> None:
    """Wait, at most 10 s, until an object is answered with another status."""
    for _ in range(200):
        if (await ask(client, "GET", path))[0] != status:
            return
        await trio.sleep(0.05)


async def wait_for_policy(stage: Stage) -> None:
    """Wait, at most 30 s, until the policy that was applied before the scene is in force."""
    for _ in range(300):
        body = slice_of(nodeName=ELSEWHERE)
        if (await ask(stage.stranger, "POST", SLICES, body))[0] != 200:
            break
        await trio.sleep(0.1)
    params = {"fieldSelector": f"spec.driver={DRIVER},spec.nodeName={ELSEWHERE}"}
    found = await stage.admin.request(Request(method="GET", path=SLICES, params=params))
    for item in found["items"][1:]:
        path = f"{SLICES}/{item['metadata']['name']}"
        await stage.admin.request(Request(method="DELETE", path=path))


RIGHT_SCENES: Final[Mapping[str, Scene]] = {
    "rights on slices": act_slice_rights,
    "rights on claims": act_claim_rights,
    "rights on nodes, classes and pods": act_other_rights,
}
