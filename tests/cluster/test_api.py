"""Our client on the real API server, and the stand-in beside it: both must see the same.

Each scene is played twice, against kube-apiserver and against `berth.rehearsal.apiserver`, and what
the client saw is compared; so the rehearsal, and every test that uses the stand-in, stands on what
the real server does.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import attrs
import pytest
import trio

from berth.errors import KubeError
from berth.kube.api import (
    NOT_RELATED,
    SliceEvent,
    SliceGone,
    SliceQuery,
    SliceSeen,
    SlicesListed,
)
from berth.kube.client import Request
from berth.kube.compare import differences
from berth.kube.server import KubeServer
from berth.kube.slices import Owner, Slice, device_json
from berth.kube.sources import Choice
from berth.kube.status import Condition, ConditionStatus, DeviceStatus
from berth.model.claim import ClaimRef, NetworkData
from berth.model.device import Capacity, CapacityRange, Device, Version
from tests.cluster.apidoor import choose, open_door
from tests.cluster.apiscenes import SCENES, SEEN, recorded
from tests.cluster.apistage import (
    CLAIMS,
    DRIVER,
    NODE,
    PODS,
    Stage,
    client_of,
    open_stand_in,
    sweep,
)
from tests.cluster.bed import Cluster
from tests.cluster.claimscenes import make_claim
from tests.cluster.rightscenes import pod_with

MANIFESTS: Final = Path(__file__).parents[2] / "configs" / "kubernetes"


@pytest.fixture
async def door(cluster: Cluster) -> AsyncIterator[int]:
    """A port of loopback behind which the API server is, whose network is another one."""
    async with open_door(cluster) as port:
        yield port


@pytest.fixture
async def real(cluster: Cluster, door: int, tmp_path: Path) -> AsyncIterator[Stage]:
    """The real server, with our manifests applied and a node of the scenes' own."""
    server = f"https://127.0.0.1:{door}"
    authority = cluster.control.authority
    for name in ("rbac.yaml", "admission.yaml", "deviceclasses.yaml"):
        cluster.api.apply((MANIFESTS / name).read_text())
    (node,) = cluster.api.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
    subjects = {
        "admin": "/O=system:masters/CN=admin",
        "kubelet": f"/O=system:nodes/CN=system:node:{NODE}",
    }
    choices = {
        name: choose(cluster, door, f"scene-{name}", subject, tmp_path)
        for name, subject in subjects.items()
    }
    bound = {"kind": "Node", "apiVersion": "v1", "name": NODE, "uid": node["metadata"]["uid"]}
    for name, spec in (("account", {"boundObjectRef": bound}), ("stranger", {})):
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        path = "/api/v1/namespaces/kube-system/serviceaccounts/berthd/token"
        token = cluster.api.request("POST", path, asked)["status"]["token"]
        (tmp_path / f"{name}.token").write_text(token)
        choices[name] = Choice(
            kind="token",
            path=str(tmp_path / f"{name}.token"),
            server=server,
            ca_path=str(authority.certificate),
        )
    async with contextlib.AsyncExitStack() as stack:
        clients = {
            name: await stack.enter_async_context(client_of(choice))
            for name, choice in choices.items()
        }
        stage = Stage(**clients)
        yield stage
        await sweep(stage)
    cluster.api.delete(f"/api/v1/nodes/{NODE}")


@pytest.fixture
async def stand_in(tmp_path: Path) -> AsyncIterator[Stage]:
    """The stand-in, with callers of the same rights."""
    async with open_stand_in(tmp_path) as stage:
        yield stage


@pytest.mark.parametrize("name", SCENES)
async def test_stand_in_answers_as_the_real_server(name: str, real: Stage, stand_in: Stage) -> None:
    """In each scene both servers answer the same."""

    with trio.fail_after(120):
        expected = recorded(await SCENES[name](real))
        found = recorded(await SCENES[name](stand_in))
    if os.environ.get("BERTH_RECORD"):
        SEEN.write_text(json.dumps({**json.loads(SEEN.read_text()), name: expected}, indent=1))

    pairs = [(one, other) for one, other in zip(expected, found, strict=True) if one != other]
    assert not pairs, "\n".join(f"real:     {one}\nstand-in: {other}" for one, other in pairs)
    assert json.loads(SEEN.read_text())[name] == expected, "BERTH_RECORD=1 records it anew"


EXCLUSIVE: Final = Device(
    name="nic-1",
    identity="pci:0000:41:00.0",
    type="nic",
    group="fast",
    attributes={
        "type": "nic",
        "mtu": 1500,
        "sriov": False,
        "productName": "",
        "firmware": Version("1.2.3"),
        "resource.kubernetes.io/pciBusID": "0000:41:00.0",
    },
)
SHARED: Final = Device(
    name="parent-1",
    identity="pci:0000:42:00.0",
    type="nic-shared",
    group="lan",
    attributes={"type": "nic-shared"},
    capacity={
        "slots": Capacity(value=8, default=1, values=(1,)),
        "bandwidth": Capacity(
            value=10**10, default=10**9, bounds=CapacityRange(minimum=10**6, step=10**6)
        ),
        "memory": Capacity(value=141 * 2**30),
    },
    shared=True,
)


@pytest.mark.parametrize("who", ["kubelet", "account"])
async def test_slices_come_back_as_they_were_sent(who: str, real: Stage) -> None:
    """Either identity publishes, updates and deletes, and nothing is lost or changed on the way."""

    server = KubeServer(getattr(real, who))
    node = await server.get_node(NODE)
    wanted = Slice(
        driver=DRIVER,
        pool=NODE,
        generation=1,
        slice_count=1,
        node_name=NODE,
        devices=(device_json(EXCLUSIVE), device_json(SHARED)),
        generate_name=f"00000-{DRIVER}-{NODE}-",
        owner=Owner(name=node.name, uid=node.uid),
    )
    events: list[SliceEvent] = []
    told = trio.Event()

    def report(event: SliceEvent) -> None:
        events.append(event)
        if isinstance(event, SliceGone):
            told.set()

    async with trio.open_nursery() as nursery:
        created = await server.create_slice(wanted)
        nursery.start_soon(server.watch_slices, SliceQuery(driver=DRIVER, node_name=NODE), report)
        updated = await server.update_slice(attrs.evolve(created, generation=2))
        with pytest.raises(KubeError) as stale:
            await server.update_slice(created)
        await server.delete_slice(updated)
        await server.delete_slice(updated)
        with trio.fail_after(10):
            await told.wait()
        nursery.cancel_scope.cancel()

    assert server.identity.node_name == NODE
    assert differences(wanted, created) == ()
    assert stale.value.status == 409
    assert isinstance(events[0], SlicesListed)
    assert {type(event) for event in events[1:]} <= {SliceSeen, SliceGone}
    assert server.local_endpoints() == ("127.0.0.1",)


async def test_slice_that_is_gone_is_told_as_404_to_a_kubelet(real: Stage) -> None:
    """The node authorizer's 403 for what is gone reaches the publisher as 404."""

    server = KubeServer(real.kubelet)
    gone = Slice(
        driver=DRIVER,
        pool=NODE,
        generation=1,
        slice_count=1,
        node_name=NODE,
        devices=(),
        name="gone",
        uid="00000000-0000-0000-0000-000000000000",
    )

    with pytest.raises(KubeError) as told:
        await server.update_slice(gone)

    assert (told.value.status, told.value.reason) == (404, "NotFound")


async def test_kubelet_reads_the_claim_of_a_pod_that_was_bound_just_now(real: Stage) -> None:
    """The authorizer's lag is waited out; a claim of no pod here stays unrelated."""

    made = await make_claim(real, "fresh")
    alone = await make_claim(real, "alone")
    server = KubeServer(real.kubelet)
    await real.admin.request(Request(method="POST", path=PODS, body=pod_with("fresh")))

    claim = await server.get_claim(_ref(made), driver=DRIVER)
    with pytest.raises(KubeError) as told:
        await server.get_claim(_ref(alone), driver=DRIVER)

    assert [(item.request, item.device) for item in claim.results] == [("nic", "nic-0")]
    assert claim.nodes == (NODE,)
    assert told.value.reason == NOT_RELATED


@pytest.mark.parametrize("parameters", [{"a": 1}, {"b": 1, "a": 2}])
async def test_claim_status_is_written_whatever_the_order_of_its_parameters(
    parameters: dict[str, int], real: Stage
) -> None:
    """Where the server refuses an apply a merge does it, and others' entries stay."""

    made = await make_claim(real, "status", parameters=parameters)
    entry = DeviceStatus(
        pool=NODE,
        device="nic-0",
        conditions=(
            Condition(
                type="Ready",
                status=ConditionStatus.TRUE,
                reason="Attached",
                message="",
                changed_at="2026-01-02T03:04:05Z",
            ),
        ),
        network=NetworkData(
            interface_name="net1", ips=("192.0.2.1/24",), hardware_address="02:00:00:00:00:01"
        ),
        data={"home": {"mtu": 1500}},
    )

    await KubeServer(real.account).apply_claim_status(
        _ref(made), [entry], driver=DRIVER, manager=f"berthd-{NODE}"
    )
    found = await real.admin.request(Request(method="GET", path=f"{CLAIMS}/status"))
    successor = attrs.evolve(_ref(made), uid="00000000-0000-0000-0000-000000000000")
    with pytest.raises(KubeError) as told:
        await KubeServer(real.account).apply_claim_status(
            successor, [entry], driver=DRIVER, manager=f"berthd-{NODE}"
        )

    assert found["status"]["devices"][0]["networkData"]["interfaceName"] == "net1"
    assert found["status"]["devices"][0]["data"] == {"home": {"mtu": 1500}}
    assert told.value.status == 409


def _ref(claim: dict[str, Any]) -> ClaimRef:
    metadata = claim["metadata"]
    return ClaimRef(namespace="default", name=metadata["name"], uid=metadata["uid"])
