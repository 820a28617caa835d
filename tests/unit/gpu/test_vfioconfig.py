"""Configuration of GPUs for virtual machines."""

from __future__ import annotations

from typing import Any

import pytest

from berth.errors import Faults
from berth.gpu.vfioconfig import read_configs, ways_in
from berth.model.claim import Claim, ClaimRef, ConfigSource, DeviceResult, OpaqueConfig
from berth.vfio.wayin import WayIn

HEAD = {"apiVersion": "berth.dev/v1alpha1", "kind": "VfioConfig"}


def read(*texts: dict[str, Any]) -> WayIn:
    """What these come to."""
    return read_configs(texts, driver="berth.dev", where="claim a/b, request r")


def test_claim_goes_over_its_class() -> None:
    """Field by field, and without any text the group's node is given."""

    assert read() == WayIn(iommufd=False, api_device=True)
    assert read({**HEAD, "iommufd": True}, {**HEAD, "apiDevice": False}) == WayIn(
        iommufd=True, api_device=False
    )
    assert read({**HEAD, "iommufd": True}, {**HEAD, "iommufd": False}) == WayIn()


def test_all_faults_are_told_at_once() -> None:
    """Each with the path of its field."""

    with pytest.raises(Faults) as refused:
        read({"apiVersion": "other/v1", "kind": "GpuConfig", "iommufd": "yes", "x": 1}, {})

    assert [
        str(fault).removeprefix("claim a/b, request r: ") for fault in refused.value.faults
    ] == [
        "apiVersion: is 'other/v1': it must be \"berth.dev/v1alpha1\"",
        "kind: is 'GpuConfig': it must be \"VfioConfig\"",
        "iommufd: is 'yes': it must be true or false",
        "x: is unknown: the fields are iommufd and apiDevice",
        'apiVersion: is missing: it must be "berth.dev/v1alpha1"',
        'kind: is missing: it must be "VfioConfig"',
    ]


def test_node_that_goes_with_groups_is_refused_with_iommufd() -> None:
    """Asked for both, it cannot be right."""

    with pytest.raises(Faults):
        read({**HEAD, "iommufd": True, "apiDevice": True})


def result(request: str, device: str) -> DeviceResult:
    """One allocated device."""
    return DeviceResult(request=request, pool="node", device=device)


def entry(index: int, parameters: object, *requests: str) -> OpaqueConfig:
    """One entry of an allocation."""
    return OpaqueConfig(
        index=index, source=ConfigSource.CLAIM, requests=requests, parameters=parameters
    )


def claim_of(*configs: OpaqueConfig) -> Claim:
    """A claim on two functions and a NIC."""
    return Claim(
        ref=ClaimRef(namespace="team", name="vm", uid="u1"),
        results=(result("a", "vfio-1"), result("b/first", "vfio-2"), result("nic", "nic-1")),
        configs=configs,
    )


def test_each_function_has_the_entries_that_apply_to_it() -> None:
    """By the request's name or by none; what is for NICs is judged there."""

    claim = claim_of(
        entry(0, {**HEAD, "apiDevice": False}),
        entry(1, {**HEAD, "iommufd": True}, "b"),
        entry(2, {"kind": "NicConfig", "mode": "move"}),
    )

    assert ways_in(claim, claim.results[:2], driver="berth.dev") == {
        ("a", "vfio-1"): WayIn(api_device=False),
        ("b/first", "vfio-2"): WayIn(iommufd=True, api_device=False),
    }
    assert ways_in(claim_of(), (), driver="berth.dev") == {}


def test_entry_that_nobody_heeds_is_refused() -> None:
    """It is for a device that takes none, or of a kind that nobody knows."""

    strays = [
        entry(0, {**HEAD, "iommufd": True}, "nic"),
        entry(1, {"kind": "GpuConfig"}, "other"),
        entry(2, "text", "nic"),
    ]
    claim = claim_of(*strays)

    with pytest.raises(Faults) as caught:
        ways_in(claim, claim.results[:2], driver="berth.dev")

    assert [fault.where for fault in caught.value.faults] == [
        f"config[{number}].opaque.parameters" for number in range(3)
    ]
