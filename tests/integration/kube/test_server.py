"""The API server as the agent uses it, under the identities that it may have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest

from berth.errors import ClaimError, ConfigError, KubeError
from berth.kube import server as server_module
from berth.kube.api import NOT_RELATED, Node
from berth.kube.server import open_server
from berth.kube.slices import Slice
from berth.kube.sources import CredentialSettings
from berth.kube.status import DeviceStatus
from berth.kube.taintrules import TaintRule
from berth.model.claim import ClaimRef
from berth.model.pod import PodClaims
from berth.rehearsal.apiserver.callers import Caller, Role
from berth.rehearsal.apiserver.faults import Fault, Refuse
from berth.rehearsal.apiserver.resources import CLAIMS, NODES, PODS, SLICES, TAINT_RULES
from berth.rehearsal.apiserver.server import kubeconfig_json
from tests.integration.kube.conftest import Bench

UNRELATED = Refuse(status=403, message="forbidden: no relationship found between node 'n' and this")
SLICE = Slice(
    driver="berth.dev",
    pool="n",
    generation=1,
    slice_count=1,
    node_name="n",
    devices=(),
    generate_name="00000-berth.dev-n-",
)


def put_claim(bench: Bench, *, parameters: Any = None) -> ClaimRef:
    """A claim with an allocation of ours and of another driver."""
    results = [
        {"request": "a", "driver": "berth.dev", "pool": "n", "device": "nic-1"},
        {"request": "b", "driver": "other.dev", "pool": "n", "device": "x"},
    ]
    opaque = {"driver": "berth.dev", "parameters": parameters or {}}
    devices = {"results": results, "config": [{"source": "FromClaim", "opaque": opaque}]}
    status = {
        "allocation": {"devices": devices},
        "devices": [{"driver": "other.dev", "pool": "n", "device": "x", "data": {"x": 1}}],
    }
    stored = bench.server.put(
        CLAIMS, {"metadata": {"name": "c", "namespace": "d"}, "spec": {}, "status": status}
    )
    return ClaimRef(namespace="d", name="c", uid=stored["metadata"]["uid"])


@pytest.fixture
def quick_binding(monkeypatch: pytest.MonkeyPatch) -> None:
    """The authorizer's lag is waited for in no time."""
    monkeypatch.setattr(server_module, "BINDING_DELAYS_S", (0.0,) * 6)


@pytest.mark.usefixtures("quick_binding")
async def test_claim_of_a_pod_bound_just_now_is_asked_for_again(bench: Bench) -> None:
    """The authorizer's 403 of the first moments costs no pod its start."""

    ref = put_claim(bench)
    bench.server.faults.append(Fault(action=UNRELATED, times=4))

    claim = await bench.api.get_claim(ref, driver="berth.dev")

    assert [item.device for item in claim.results] == ["nic-1"]
    assert len(bench.server.seen) == 5


@pytest.mark.usefixtures("quick_binding")
async def test_claim_that_stays_unrelated_is_told_so(bench: Bench) -> None:
    """After some seconds it is no lag; another 403 is told at once."""

    ref = put_claim(bench)
    bench.server.faults.append(Fault(action=UNRELATED, times=7))
    bench.server.faults.append(Fault(action=Refuse(status=403, message="no right")))

    with pytest.raises(KubeError) as lasting:
        await bench.api.get_claim(ref, driver="berth.dev")
    with pytest.raises(KubeError) as denied:
        await bench.api.get_claim(ref, driver="berth.dev")

    assert lasting.value.reason == NOT_RELATED
    assert denied.value.reason == "Forbidden"
    assert len(bench.server.seen) == 8


@pytest.mark.parametrize("served", [True, False])
async def test_taint_rules_are_read_in_the_form_that_is_served(bench: Bench, served: bool) -> None:
    """A rule without a selector is for nothing; a server without rules has none."""

    selector = {"driver": "berth.dev", "pool": "n", "device": "nic-1"}
    taint = {"key": "ops.example/repair", "effect": "NoSchedule"}
    for name, spec in (
        ("hits", {"deviceSelector": selector, "taint": taint}),
        ("any", {"deviceSelector": {}, "taint": taint}),
        ("tried-out", {"taint": taint}),
    ):
        bench.server.put(TAINT_RULES, {"metadata": {"name": name}, "spec": spec})
    if not served:
        bench.server.faults.append(Fault(action=Refuse(status=404, message="no such resource")))

    rules = await bench.api.list_taint_rules()

    hits = TaintRule(name="hits", taint=taint, **selector)
    assert set(map(repr, rules)) == (
        set(map(repr, (hits, TaintRule(name="any", taint=taint)))) if served else set()
    )
    assert len(bench.server.seen) == (1 if served else 2)


async def test_taint_rules_that_may_not_be_read_are_a_refusal(bench: Bench) -> None:
    """Whoever asks tells it; a node's own certificate has no such right."""

    bench.server.faults.append(Fault(action=Refuse(status=403, message="no right")))

    with pytest.raises(KubeError) as error:
        await bench.api.list_taint_rules()
    assert error.value.status == 403


async def test_claim_that_is_gone_or_replaced_is_told_apart(bench: Bench) -> None:
    """Gone is 404; a successor of the same name is a fault of the claim, with both UIDs."""

    ref = put_claim(bench)
    other = attrs.evolve(ref, uid="1-2-3")

    with pytest.raises(ClaimError, match=f"{ref.uid}.*1-2-3.*another claim"):
        await bench.api.get_claim(other, driver="berth.dev")
    bench.server.delete(CLAIMS, "c", "d")
    with pytest.raises(KubeError) as error:
        await bench.api.get_claim(ref, driver="berth.dev")
    assert error.value.status == 404


async def test_claim_that_is_not_understood_is_the_servers_fault(bench: Bench) -> None:
    """It is told as an answer, with its place."""

    ref = put_claim(bench)
    bench.server.patch(CLAIMS, "c", {"metadata": {"annotations": ["x"]}}, "d")

    with pytest.raises(KubeError, match=r"resourceclaims/c: the answer is not understood"):
        await bench.api.get_claim(ref, driver="berth.dev")


async def test_slice_that_is_gone_is_404_to_a_kubelet_too(bench: Bench) -> None:
    """The publisher need not know that the node authorizer says 403."""

    bench.server.tokens = {"t": Caller(name="system:node:n", role=Role.KUBELET, node="n")}
    bench.kubeconfig.write_text(kubeconfig_json(bench.address, token="t"))
    created = await bench.api.create_slice(SLICE)
    bench.server.delete(SLICES, created.name)

    with pytest.raises(KubeError) as error:
        await bench.api.update_slice(created)
    await bench.api.delete_slice(created)

    assert (error.value.status, error.value.reason) == (404, "NotFound")


async def test_slice_is_deleted_only_while_it_is_still_this_one(bench: Bench) -> None:
    """A slice that changed meanwhile stays; without its version only the UID counts."""

    created = await bench.api.create_slice(SLICE)
    await bench.api.update_slice(attrs.evolve(created, generation=2))

    with pytest.raises(KubeError) as error:
        await bench.api.delete_slice(created)
    await bench.api.delete_slice(attrs.evolve(created, resource_version=""))

    assert error.value.status == 409
    assert bench.server.objects(SLICES) == []


async def test_slice_of_before_can_be_created_again_as_it_was(bench: Bench) -> None:
    """UID and version of the wiped one are not sent along."""

    created = await bench.api.create_slice(SLICE)
    bench.server.delete(SLICES, created.name)

    again = await bench.api.create_slice(created)

    assert again.name == created.name
    assert again.uid != created.uid


@pytest.mark.parametrize("parameters", [{"a": 1, "b": 2}, {"b": 2, "a": 1}])
async def test_status_is_written_and_others_entries_stay(parameters: Any, bench: Bench) -> None:
    """By apply, or where the server refuses that, by merge."""

    ref = put_claim(bench, parameters=parameters)
    entry = DeviceStatus(pool="n", device="nic-1", data={"a": 1})

    for data in ({"a": 1}, {"b": 2}):
        entry = attrs.evolve(entry, data=data)
        await bench.api.apply_claim_status(ref, [entry], driver="berth.dev", manager="berthd-n")

    stored = bench.server.get(CLAIMS, "c", "d")
    assert stored is not None
    assert {item["driver"]: item.get("data") for item in stored["status"]["devices"]} == {
        "other.dev": {"x": 1},
        "berth.dev": {"b": 2},
    }
    assert await bench.api.read_claim_status(ref, driver="berth.dev") == (entry,)
    with pytest.raises(KubeError) as error:
        await bench.api.read_claim_status(attrs.evolve(ref, uid="1-2-3"), driver="berth.dev")
    assert error.value.status == 409


@pytest.mark.parametrize("parameters", [{"a": 1, "b": 2}, {"b": 2, "a": 1}])
async def test_status_of_a_successor_is_left_alone(parameters: Any, bench: Bench) -> None:
    """Either way of writing is refused for another claim of the same name."""

    ref = attrs.evolve(put_claim(bench, parameters=parameters), uid="1-2-3")

    with pytest.raises(KubeError) as error:
        await bench.api.apply_claim_status(
            ref, [DeviceStatus(pool="n", device="nic-1")], driver="berth.dev", manager="m"
        )

    assert error.value.status == 409


async def test_status_that_may_not_be_written_is_told_in_the_servers_words(bench: Bench) -> None:
    """A token that is bound to no node gets a 422, which is no matter of the claim."""

    ref = put_claim(bench)
    bench.server.tokens = {"t": Caller(name="berthd", role=Role.ACCOUNT)}
    bench.kubeconfig.write_text(kubeconfig_json(bench.address, token="t"))

    with pytest.raises(KubeError, match=r"arbitrary-node:patch") as error:
        await bench.api.apply_claim_status(
            ref, [DeviceStatus(pool="n", device="nic-1")], driver="berth.dev", manager="m"
        )

    assert (error.value.status, error.value.fields) == (422, ("status.devices",))


async def test_node_and_version_are_told(bench: Bench) -> None:
    """Addresses of the node are those by which it is reached."""

    addresses = [
        {"type": "InternalIP", "address": "10.0.0.7"},
        {"type": "Hostname", "address": "worker-7"},
    ]
    stored = bench.server.put(
        NODES,
        {
            "metadata": {"name": "n"},
            "status": {"addresses": addresses, "declaredFeatures": ["One", "Two"]},
        },
    )

    node = await bench.api.get_node("n")
    version = await bench.api.server_version()

    assert node == Node(
        name="n",
        uid=stored["metadata"]["uid"],
        addresses=("10.0.0.7",),
        declared=frozenset({"One", "Two"}),
    )
    assert (version.major, version.minor, version.text) == (1, 37, "v1.37.2")


async def test_pod_is_ending_when_it_is_deleted_ended_replaced_or_gone(bench: Bench) -> None:
    """Only the pod of that UID that runs on is not."""

    metadata = {"name": "p", "namespace": "d"}
    uid = bench.server.put(PODS, {"metadata": metadata})["metadata"]["uid"]

    async def ending(asked: str = uid) -> bool:
        return await bench.api.pod_is_ending("d", "p", uid=asked)

    running = await ending()
    replaced = await ending("another")
    bench.server.patch(PODS, "p", {"status": {"phase": "Succeeded"}}, "d")
    ended = await ending()
    bench.server.delete(PODS, "p", "d")

    assert (running, replaced, ended, await ending()) == (False, True, True, True)


async def test_pod_tells_its_claims_by_its_uid(bench: Bench) -> None:
    """One that is gone has none to tell, nor has another of its name."""

    spec = {"resourceClaims": [{"name": "nic", "resourceClaimName": "uplink"}]}
    metadata = {"name": "p", "namespace": "d"}
    uid = bench.server.put(PODS, {"metadata": metadata, "spec": spec})["metadata"]["uid"]

    told = await bench.api.pod_claims("d", "p", uid=uid)
    another = await bench.api.pod_claims("d", "p", uid="another")
    bench.server.delete(PODS, "p", "d")

    assert told == PodClaims(names=frozenset({"uplink"}))
    assert (another, await bench.api.pod_claims("d", "p", uid=uid)) == (None, None)


async def test_server_is_opened_by_settings(bench: Bench) -> None:
    """The identity is complete before anything is sent."""

    settings = CredentialSettings(kubeconfig=str(bench.kubeconfig))

    async with open_server(settings) as api:
        assert api.identity.server == bench.address
        assert len(bench.server.seen) == 0
        assert (await api.server_version()).major == 1


async def test_settings_of_no_use_open_nothing(tmp_path: Path) -> None:
    """A file that is not there may come; one that is wrong is the operator's."""

    with pytest.raises(KubeError, match="absent"):
        async with open_server(CredentialSettings(kubeconfig=str(tmp_path / "absent"))):
            pass
    (tmp_path / "wrong").write_text("[]")
    with pytest.raises(ConfigError, match="wrong"):
        async with open_server(CredentialSettings(kubeconfig=str(tmp_path / "wrong"))):
            pass
