"""Scenes with claims: each is played on the real API server and on the stand-in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from berth.kube.client import APPLY_PATCH, MERGE_PATCH, KubeClient, Request
from tests.cluster.apistage import CLAIMS, DRIVER, NODE, Scene, Stage, ask

RESULT: Final = {"request": "nic", "driver": DRIVER, "pool": NODE, "device": "nic-0"}
BOUND: Final = {
    "nodeSelectorTerms": [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [NODE]}]}
    ]
}
CONDITION: Final = {
    "type": "Ready",
    "status": "True",
    "reason": "Attached",
    "message": "",
    "lastTransitionTime": "2026-01-02T03:04:05Z",
}
ENTRY: Final = {"driver": DRIVER, "pool": NODE, "device": "nic-0"}
OTHER_ENTRY: Final = {"driver": "other.dev", "pool": NODE, "device": "a"}


async def make_claim(
    stage: Stage, name: str, *, node: str = NODE, parameters: Any = None
) -> dict[str, Any]:
    """A claim with an allocation of our device and another driver's, as a scheduler leaves it."""
    body = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "devices": {
                "requests": [
                    {"name": "nic", "exactly": {"deviceClassName": f"nic.{DRIVER}"}},
                    {"name": "other", "exactly": {"deviceClassName": "other.dev"}},
                ]
            }
        },
        "status": {"reservedFor": []},
    }
    made = await stage.admin.request(Request(method="POST", path=CLAIMS, body=body))
    named = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]
    made["status"] = {
        "allocation": {
            "devices": {
                "results": [RESULT, {**RESULT, **OTHER_ENTRY, "request": "other"}],
                "config": [
                    {
                        "source": "FromClaim",
                        "requests": ["nic"],
                        "opaque": {"driver": DRIVER, "parameters": parameters or {"a": 1}},
                    }
                ],
            },
            "nodeSelector": {"nodeSelectorTerms": named},
        }
    }
    path = f"{CLAIMS}/{name}/status"
    stored: dict[str, Any] = await stage.admin.request(Request(method="PUT", path=path, body=made))
    return stored


async def apply_status(
    client: KubeClient, claim: Mapping[str, Any], devices: list[Any], *, by: str, force: bool = True
) -> tuple[Any, ...]:
    """Apply entries to a claim's status; gives the verdict and the entries as they are then."""
    name, uid = claim["metadata"]["name"], claim["metadata"]["uid"]
    body = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default", "uid": uid},
        "status": {"devices": devices},
    }
    verdict = await ask(
        client,
        "PATCH",
        f"{CLAIMS}/{name}/status",
        body,
        params={"fieldManager": by, **({"force": "true"} if force else {})},
        content_type=APPLY_PATCH,
    )
    return (*verdict[:2], *(verdict[2:] if verdict[0] != 200 else ()))


async def act_claim_status(stage: Stage) -> list[Any]:
    """Two managers apply entries, change them, leave them away, and are refused."""
    client = stage.admin
    seen: list[Any] = []
    claim = await make_claim(stage, "applied")
    full = {
        **ENTRY,
        "conditions": [CONDITION],
        "data": {"a": 1},
        "networkData": {"interfaceName": "net1", "ips": ["192.0.2.1/24"], "hardwareAddress": "02:"},
    }
    ready = {**CONDITION, "type": "NetworkReady"}

    async def show(verdict: Any) -> None:
        found = await client.request(Request(method="GET", path=f"{CLAIMS}/applied"))
        seen.append((verdict, found["status"].get("devices")))

    await show(await apply_status(client, claim, [full], by="one"))
    await show(await apply_status(client, claim, [OTHER_ENTRY], by="two"))
    await show(await apply_status(client, claim, [{**full, "data": {"b": 2}}], by="one"))
    await show(await apply_status(client, claim, [{**ENTRY, "conditions": [ready]}], by="one"))
    taken = {**ENTRY, "conditions": [{**ready, "status": "False"}]}
    await show(await apply_status(client, claim, [taken], by="two", force=False))
    await show(await apply_status(client, claim, [taken], by="two"))
    await show(await apply_status(client, claim, [], by="one"))
    await show(await apply_status(client, claim, [], by="two"))
    successor = {"metadata": {**claim["metadata"], "uid": "00000000-0000-0000-0000-000000000000"}}
    await show(await apply_status(client, successor, [full], by="one"))
    for metadata in (successor["metadata"], {"resourceVersion": "1"}):
        patch = {
            "metadata": {
                key: metadata[key] for key in metadata.keys() & {"uid", "resourceVersion"}
            },
            "status": {"devices": [ENTRY]},
        }
        path = f"{CLAIMS}/applied/status"
        await show(await ask(client, "PATCH", path, patch, content_type=MERGE_PATCH))
    absent = {"metadata": {**claim["metadata"], "name": "absent"}}
    await show(await apply_status(client, absent, [full], by="one"))
    nameless = {"name": "absent"}
    seen.append(
        await ask(client, "PATCH", f"{CLAIMS}/applied/status", nameless, content_type=APPLY_PATCH)
    )
    return seen


async def act_unsorted(stage: Stage) -> list[Any]:
    """Apply to a claim whose opaque parameters the server would write in another order."""
    seen: list[Any] = []
    for name, parameters in (
        ("sorted", {"a": {"c": [{"d": 1, "e": 2}]}, "b": 1}),
        ("unsorted", {"b": 1, "a": 2}),
        ("unsorted-below", {"a": [{"c": 1, "b": 2}]}),
    ):
        claim = await make_claim(stage, name, parameters=parameters)
        seen.append((name, await apply_status(stage.admin, claim, [ENTRY], by="one")))
        patch = {"status": {"devices": [ENTRY]}}
        path = f"{CLAIMS}/{name}/status"
        verdict = await ask(stage.admin, "PATCH", path, patch, content_type=MERGE_PATCH)
        seen.append((name, verdict[:2]))
    return seen


STATUS_CASES: Final[Mapping[str, dict[str, Any]]] = {
    "bare": {},
    "not allocated": {"device": "nic-1"},
    "share that is not allocated": {"shareID": "6a8f0d2e-5b1c-4f7a-9e3d-2c1b0a9f8e7d"},
    "share that is no UUID": {"shareID": "x"},
    "nine conditions": {"conditions": [{**CONDITION, "type": f"T{index}"} for index in range(9)]},
    "condition without reason": {"conditions": [{**CONDITION, "reason": ""}]},
    "condition with bad reason": {"conditions": [{**CONDITION, "reason": "not one word"}]},
    "condition with bad status": {"conditions": [{**CONDITION, "status": "Yes"}]},
    "condition with bad type": {"conditions": [{**CONDITION, "type": "a b"}]},
    "condition without time": {
        "conditions": [{key: CONDITION[key] for key in CONDITION if key != "lastTransitionTime"}]
    },
    "data no object": {"data": [1]},
    "data too long": {"data": {"a": "x" * 10240}},
    "addresses": {"networkData": {"ips": ["192.0.2.1/24", "2001:db8::1/64"]}},
    "address without length": {"networkData": {"ips": ["192.0.2.1"]}},
    "address not canonical": {"networkData": {"ips": ["2001:DB8::1/64"]}},
    "address twice": {"networkData": {"ips": ["192.0.2.1/24", "192.0.2.1/24"]}},
    "17 addresses": {"networkData": {"ips": [f"192.0.2.{index}/24" for index in range(17)]}},
    "names too long": {"networkData": {"interfaceName": "x" * 257, "hardwareAddress": "x" * 129}},
}


async def act_status_cases(stage: Stage) -> list[Any]:
    """Apply good and bad entries."""
    seen: list[Any] = []
    for index, (name, entry) in enumerate(STATUS_CASES.items()):
        claim = await make_claim(stage, f"case-{index}")
        seen.append((name, await apply_status(stage.admin, claim, [{**ENTRY, **entry}], by="one")))
    return seen


async def act_claims(stage: Stage) -> list[Any]:
    """Change claims in ways that must not work, and let the allocation go."""
    client = stage.admin
    seen: list[Any] = []
    claim = await make_claim(stage, "changed")
    path = f"{CLAIMS}/changed"
    await apply_status(client, claim, [ENTRY, OTHER_ENTRY], by="one")
    found = await client.request(Request(method="GET", path=path))
    found["spec"]["devices"]["requests"].pop()
    seen.append((await ask(client, "PUT", path, found))[:3])
    found = await client.request(Request(method="GET", path=path))
    found["status"]["allocation"]["devices"]["results"].pop()
    seen.append((await ask(client, "PUT", f"{path}/status", found))[:3])
    found = await client.request(Request(method="GET", path=path))
    found["status"] = {"reservedFor": [{"resource": "pods", "name": "a", "uid": "b"}]}
    seen.append((await ask(client, "PUT", f"{path}/status", found))[:3])
    found = await client.request(Request(method="GET", path=path))
    seen.append(sorted(found["status"]))
    del found["status"]["allocation"]
    await client.request(Request(method="PUT", path=f"{path}/status", body=found))
    found = await client.request(Request(method="GET", path=path))
    seen.append(found["status"])
    found["metadata"]["finalizers"] = ["rehearsal.berth.dev/hold"]
    await client.request(Request(method="PUT", path=path, body=found))
    await client.request(Request(method="DELETE", path=path))
    found = await client.request(Request(method="GET", path=path))
    seen.append("deletionTimestamp" in found["metadata"])
    found["metadata"]["finalizers"] = []
    await client.request(Request(method="PUT", path=path, body=found))
    seen.append(await ask(client, "GET", path))
    return seen


CLAIM_SCENES: Final[Mapping[str, Scene]] = {
    "claim status is applied": act_claim_status,
    "claim status is taken and refused": act_status_cases,
    "claims are changed": act_claims,
    "parameters are not sorted": act_unsorted,
}
