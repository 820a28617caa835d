"""Scenes with slices: each is played on the real API server and on the stand-in."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from berth.errors import KubeError
from berth.kube.client import MERGE_PATCH, Request
from berth.kube.server import SLICES
from tests.cluster.apistage import DRIVER, NODE, Scene, Stage, ask
from tests.cluster.slicecases import POOL, SLICE_CASES, slice_of


async def act_slices(stage: Stage) -> list[Any]:
    """Post every case."""
    return [
        (name, await ask(stage.admin, "POST", SLICES, body)) for name, body in SLICE_CASES.items()
    ]


async def act_updates(stage: Stage) -> list[Any]:
    """Change a slice in every way that must work, and in every way that must not."""
    client = stage.admin
    seen: list[Any] = []
    first = await client.request(Request(method="POST", path=SLICES, body=slice_of()))
    path = f"{SLICES}/{first['metadata']['name']}"
    seen.append(first["metadata"].get("generation"))

    async def put(change: Callable[[Any], Any], *, fresh: bool = True) -> None:
        body = await client.request(Request(method="GET", path=path)) if fresh else first
        before = body["metadata"]["resourceVersion"]
        body = json.loads(json.dumps(body))
        change(body)
        seen.append(await ask(client, "PUT", path, body))
        after = await client.request(Request(method="GET", path=path))
        seen.append(after["metadata"].get("generation"))
        seen.append(before == after["metadata"]["resourceVersion"])
        seen.append(sorted(after["metadata"].keys() - {"managedFields"}))

    await put(lambda _: None)
    await put(lambda body: body["spec"]["devices"].append({"name": "nic-1"}))
    await put(lambda body: body["spec"]["devices"].append({"name": "nic-2"}), fresh=False)
    await put(lambda body: body["metadata"].pop("resourceVersion"))
    await put(lambda body: body["metadata"].pop("uid"))
    await put(lambda body: body["metadata"].update(labels={"a": "b"}))
    await put(lambda body: body["metadata"].update(uid="00000000-0000-0000-0000-000000000000"))
    await put(lambda body: body["metadata"].update(name="another"))
    await put(lambda body: body["metadata"].update(resourceVersion="1"))
    await put(lambda body: body.update(kind="ResourceClaim"))
    await put(lambda body: body["spec"].update(nodeName="elsewhere"))
    await put(lambda body: body["spec"].update(driver="another.dev"))
    await put(lambda body: body["spec"]["pool"].update(name="another"))
    await put(lambda body: body["spec"].pop("devices"))
    patch = {"spec": {"pool": {"generation": 7}}}
    seen.append(await ask(client, "PATCH", path, patch, content_type=MERGE_PATCH))
    seen.append(await ask(client, "PATCH", path, patch))
    return seen


async def act_names(stage: Stage) -> list[Any]:
    """Create under given, generated, taken and impossible names; ask for what is not there."""
    client = stage.admin
    names: list[dict[str, str]] = [
        {"name": "given"},
        {"name": "given"},
        {"name": "Bad_Name"},
        {},
        {"name": "own", "generateName": "prefix-"},
        {"name": "versioned", "resourceVersion": "5"},
    ]
    seen: list[Any] = [
        await ask(client, "POST", SLICES, {**slice_of(), "metadata": metadata})
        for metadata in names
    ]
    long = {**slice_of(), "metadata": {"generateName": "x" * 62 + "-"}}
    made = await client.request(Request(method="POST", path=SLICES, body=long))
    seen.append((len(made["metadata"]["name"]), len(made["metadata"]["generateName"])))
    for method in ("GET", "PUT", "DELETE"):
        body = {**slice_of(), "metadata": {"name": "absent"}} if method == "PUT" else None
        seen.append(await ask(client, method, f"{SLICES}/absent", body))
    seen.append(await ask(client, "GET", f"{SLICES}/given/wish"))
    seen.append(await ask(client, "GET", "/apis/resource.k8s.io/v1/wishes"))
    return seen


async def act_deletions(stage: Stage) -> list[Any]:
    """Delete with preconditions that hold and that do not, and by selector."""
    client = stage.admin
    first = await client.request(Request(method="POST", path=SLICES, body=slice_of()))
    path = f"{SLICES}/{first['metadata']['name']}"
    options = {"apiVersion": "v1", "kind": "DeleteOptions"}
    conditions = [
        {"uid": "00000000-0000-0000-0000-000000000000"},
        {"uid": first["metadata"]["uid"], "resourceVersion": "1"},
        {"uid": first["metadata"]["uid"]},
    ]
    seen: list[Any] = [
        await ask(client, "DELETE", path, {**options, "preconditions": condition})
        for condition in conditions
    ]
    for pool in ("a", "b"):
        await client.request(
            Request(method="POST", path=SLICES, body=slice_of(pool={**POOL, "name": pool}))
        )
    params = {"fieldSelector": f"spec.nodeName={NODE},spec.pool.name=a"}
    gone = await client.request(Request(method="DELETE", path=SLICES, params=params))
    seen.append((gone["kind"], [item["spec"]["pool"]["name"] for item in gone["items"]]))
    for selector in (
        f"spec.driver={DRIVER}",
        f"spec.nodeName={NODE},spec.driver={DRIVER}",
        "spec.nodeName=elsewhere",
        "spec.wish=1",
    ):
        request = Request(method="GET", path=SLICES, params={"fieldSelector": selector})
        try:
            found = await client.request(request)
            seen.append([item["spec"]["pool"]["name"] for item in found["items"]])
            seen.append(sorted(found.keys()))
            seen.append([sorted(item.keys()) for item in found["items"]])
        except KubeError as error:
            seen.append((error.status, error.reason))
    return seen


async def act_watch(stage: Stage) -> list[Any]:
    """Watch one node's slices while others change, then from a version that never was."""
    client = stage.admin
    seen: list[Any] = []

    async def events(version: str, count: int) -> list[Any]:
        params = {
            "watch": "true",
            "fieldSelector": f"spec.nodeName={NODE}",
            "resourceVersion": version,
            "timeoutSeconds": "5",
        }
        request = Request(method="GET", path=SLICES, params=params)
        text = b""
        async with client.stream(request, silence_s=10) as pieces:
            async for piece in pieces:
                text += piece
                if text.count(b"\n") >= count:
                    break
        return [json.loads(line) for line in text.split(b"\n")[:count]]

    listing = await client.request(Request(method="GET", path=SLICES))
    first = await client.request(Request(method="POST", path=SLICES, body=slice_of()))
    await client.request(Request(method="POST", path=SLICES, body=slice_of(nodeName="elsewhere")))
    path = f"{SLICES}/{first['metadata']['name']}"
    first["spec"]["pool"]["generation"] = 2
    await client.request(Request(method="PUT", path=path, body=first))
    await client.request(Request(method="DELETE", path=path))
    for event in await events(listing["metadata"]["resourceVersion"], 3):
        item = event["object"]
        keys = sorted(item.keys())
        seen.append((event["type"], keys, item["kind"], item["spec"]["pool"]["generation"]))
    seen.append(await ask(client, "GET", SLICES, params={"watch": "true", "resourceVersion": "x"}))
    return seen


SLICE_SCENES: Final[Mapping[str, Scene]] = {
    "slices are taken and refused": act_slices,
    "slices are changed": act_updates,
    "names are given and made": act_names,
    "slices are deleted and listed": act_deletions,
    "slices are watched": act_watch,
}
