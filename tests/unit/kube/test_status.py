"""Claim status as it is applied."""

from __future__ import annotations

from berth.kube.status import (
    Condition,
    ConditionStatus,
    DeviceStatus,
    claim_status_json,
    device_statuses,
)
from berth.model.claim import ClaimRef, NetworkData

REF = ClaimRef(namespace="team", name="nic", uid="u")


def test_full_entry_has_every_member() -> None:
    """Conditions, network data and data stand where the API has them."""

    entry = DeviceStatus(
        pool="n",
        device="nic-1",
        share_id="6a8f",
        conditions=(
            Condition(
                type="Ready",
                status=ConditionStatus.FALSE,
                reason="AwaitingSandbox",
                message="prepared",
                changed_at="2026-01-02T03:04:05Z",
            ),
        ),
        network=NetworkData(
            interface_name="net1", ips=("192.0.2.1/24",), hardware_address="02:00:00:00:00:01"
        ),
        data={"a": 1},
    )

    assert claim_status_json(REF, [entry], driver="berth.dev") == {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "nic", "namespace": "team", "uid": "u"},
        "status": {
            "devices": [
                {
                    "driver": "berth.dev",
                    "pool": "n",
                    "device": "nic-1",
                    "shareID": "6a8f",
                    "conditions": [
                        {
                            "type": "Ready",
                            "status": "False",
                            "reason": "AwaitingSandbox",
                            "message": "prepared",
                            "lastTransitionTime": "2026-01-02T03:04:05Z",
                        }
                    ],
                    "networkData": {
                        "interfaceName": "net1",
                        "ips": ["192.0.2.1/24"],
                        "hardwareAddress": "02:00:00:00:00:01",
                    },
                    "data": {"a": 1},
                }
            ]
        },
    }


def test_bare_entry_has_only_its_key() -> None:
    """What is not known is left away, so that an apply takes it out."""

    empty = NetworkData(interface_name="", ips=(), hardware_address="")
    entries = [
        DeviceStatus(pool="n", device="a"),
        DeviceStatus(pool="n", device="b", network=empty),
    ]

    assert claim_status_json(REF, entries, driver="d")["status"]["devices"] == [
        {"driver": "d", "pool": "n", "device": "a"},
        {"driver": "d", "pool": "n", "device": "b", "networkData": {}},
    ]


def test_entries_are_read_as_they_were_written() -> None:
    """Those of our driver alone; a status that nobody knows is one that nobody knows."""

    entry = DeviceStatus(
        pool="n",
        device="nic-1",
        share_id="6a8f",
        conditions=(
            Condition(
                type="Healthy",
                status=ConditionStatus.TRUE,
                reason="Degraded",
                message="no carrier",
                changed_at="2026-01-02T03:04:05Z",
            ),
        ),
        network=NetworkData(interface_name="net1", ips=("192.0.2.1/24",), hardware_address="02::1"),
        data={"a": 1},
    )
    bare = DeviceStatus(pool="n", device="nic-2")
    told = claim_status_json(REF, [entry, bare], driver="berth.dev")
    foreign = claim_status_json(REF, [bare], driver="other.example")
    told["status"]["devices"] += foreign["status"]["devices"]

    assert device_statuses(told, driver="berth.dev") == (entry, bare)
    assert device_statuses({"metadata": {}}, driver="berth.dev") == ()
    told["status"]["devices"][0]["conditions"][0]["status"] = "Perhaps"
    (odd, _) = device_statuses(told, driver="berth.dev")
    assert odd.conditions[0].status is ConditionStatus.UNKNOWN
