"""What a watch of claims keeps of one: the devices of ours, and what its pod waits for."""

from __future__ import annotations

from typing import Any

from berth.kube.allocations import allocated_claim
from berth.kube.api import ClaimQuery
from berth.kube.claims import claim_from_json

RESULT = {
    "request": "nic",
    "driver": "berth.dev",
    "pool": "n/nic",
    "device": "nic-1",
    "tolerations": [{"key": "berth.dev/fault", "operator": "Exists"}],
    "bindingConditions": ["berth.dev/ready"],
    "bindingFailureConditions": ["berth.dev/failed"],
}
CLAIM: dict[str, Any] = {
    "metadata": {"name": "c", "namespace": "team", "uid": "u"},
    "status": {
        "allocation": {
            "allocationTimestamp": "2026-01-02T03:04:05Z",
            "devices": {
                "results": [RESULT, {**RESULT, "device": "nic-2", "bindingConditions": []}]
            },
        }
    },
}


def test_conditions_tolerations_and_time_are_kept() -> None:
    """All that is needed to tell when its pod may be bound."""

    claim = allocated_claim(CLAIM, ClaimQuery(driver="berth.dev", pools=frozenset({"n/nic"})))

    assert claim is not None
    assert claim.allocated_at == "2026-01-02T03:04:05Z"
    first, second = claim.devices
    assert first.binding_conditions == ("berth.dev/ready",)
    assert first.failure_conditions == ("berth.dev/failed",)
    assert first.tolerations == ("berth.dev/fault",)
    assert second.binding_conditions == ()


def test_claim_that_is_prepared_tells_what_was_waited_for() -> None:
    """Its prepare need not wait for that again."""

    assert claim_from_json(CLAIM, driver="berth.dev").awaited == {"nic-1"}
    assert claim_from_json(CLAIM, driver="other.dev").awaited == frozenset()
