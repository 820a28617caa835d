"""A watch of all claims of a cluster, of which what concerns a node is kept."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from berth.kube import watcher
from berth.kube.api import (
    ClaimEvent,
    ClaimGone,
    ClaimQuery,
    ClaimSeen,
    ClaimsListed,
    WatchInterrupted,
)
from berth.model.allocation import AllocatedDevice
from berth.model.claim import Consumer
from berth.rehearsal.apiserver.callers import Caller, Role
from berth.rehearsal.apiserver.resources import CLAIMS
from berth.rehearsal.apiserver.server import kubeconfig_json
from tests.integration.kube.conftest import Bench
from tests.integration.kube.test_watch import until

QUERY = ClaimQuery(driver="berth.dev", pools=frozenset({"n", "n/nic"}))
RESULT = {"request": "tpm", "driver": "berth.dev", "pool": "n", "device": "tpm-1"}
SHARE = "0d2d1f5a-1c53-4bd3-8b2a-5c4f3a2b1c0d"


def put(bench: Bench, name: str, *results: dict[str, Any]) -> str:
    """Have a claim there that was given ``results``; gives its UID."""
    status: dict[str, Any] = {}
    if results:
        status = {
            "allocation": {"devices": {"results": list(results)}},
            "reservedFor": [{"resource": "pods", "name": "p", "uid": "pod-1"}],
        }
    metadata = {"name": name, "namespace": "d"}
    stored = bench.server.put(CLAIMS, {"metadata": metadata, "spec": {}, "status": status})
    return str(stored["metadata"]["uid"])


async def test_only_claims_of_our_pools_are_told(
    bench: Bench, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all that the scheduler copied of their devices; page by page, then change by change."""

    monkeypatch.setattr(watcher, "_PAGE", 2)
    more = {
        "shareID": SHARE,
        "consumedCapacity": {"slots": "2"},
        "skipNodeOperations": ["*", "FoldTheTent"],
        "bindingConditions": ["berth.dev/link-up"],
        "bindingFailureConditions": ["berth.dev/link-broken"],
    }
    ours = put(bench, "ours", {**RESULT, **more})
    put(bench, "pending")
    put(bench, "elsewhere", {**RESULT, "pool": "m"})
    put(bench, "theirs", {**RESULT, "driver": "other.dev"})
    events: list[ClaimEvent] = []

    nursery.start_soon(bench.api.watch_claims, QUERY, events.append)
    await until(lambda: bench.server.watching == 1)
    later = put(bench, "later", {**RESULT, "device": "tpm-2"})
    bench.server.patch(CLAIMS, "ours", {"status": {"allocation": None, "reservedFor": None}}, "d")
    bench.server.delete(CLAIMS, "later", "d")
    await until(lambda: len(events) == 5)

    listed, created, seen, lost, gone = events
    assert isinstance(listed, ClaimsListed)
    assert isinstance(seen, ClaimSeen)
    (found,) = listed.claims
    assert found.ref.uid == ours
    assert found.consumers == (Consumer(resource="pods", name="p", uid="pod-1"),)
    assert found.devices == (
        AllocatedDevice(
            request="tpm",
            pool="n",
            device="tpm-1",
            share_id=SHARE,
            consumed={"slots": "2"},
            skips=("*", "FoldTheTent"),
            binding_conditions=("berth.dev/link-up",),
            failure_conditions=("berth.dev/link-broken",),
        ),
    )
    assert (seen.claim.ref.uid, seen.claim.devices[0].device) == (later, "tpm-2")
    # It was made before it was allocated.
    assert (created, lost, gone) == (
        ClaimGone(uid=later),
        ClaimGone(uid=ours),
        ClaimGone(uid=later),
    )
    assert len(bench.requests(watch=False)) == 2


@pytest.mark.parametrize("role", [Role.ACCOUNT, Role.KUBELET])
async def test_nodes_own_credentials_may_not_watch_claims(
    bench: Bench, nursery: trio.Nursery, role: Role
) -> None:
    """The service account may; with kubelet's certificate the refusal is told, and tried again."""

    bench.server.tokens = {"t": Caller(name="someone", role=role, node="n")}
    bench.kubeconfig.write_text(kubeconfig_json(bench.address, token="t"))
    put(bench, "ours", RESULT)
    events: list[ClaimEvent] = []

    nursery.start_soon(bench.api.watch_claims, QUERY, events.append)
    await until(lambda: events)

    if role is Role.ACCOUNT:
        assert isinstance(events[0], ClaimsListed)
    else:
        assert isinstance(events[0], WatchInterrupted)
        assert events[0].error.status == 403
