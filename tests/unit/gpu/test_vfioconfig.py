"""Configuration of GPUs for virtual machines."""

from __future__ import annotations

from typing import Any

import pytest

from berth.errors import Faults
from berth.gpu.vfioconfig import VfioConfig, read_configs

HEAD = {"apiVersion": "berth.dev/v1alpha1", "kind": "VfioConfig"}


def read(*texts: dict[str, Any]) -> VfioConfig:
    """What these come to."""
    return read_configs(texts, driver="berth.dev", where="claim a/b, request r")


def test_claim_goes_over_its_class() -> None:
    """Field by field, and without any text the group's node is given."""

    assert read() == VfioConfig(iommufd=False, api_device=True)
    assert read({**HEAD, "iommufd": True}, {**HEAD, "apiDevice": False}) == VfioConfig(
        iommufd=True, api_device=False
    )
    assert read({**HEAD, "iommufd": True}, {**HEAD, "iommufd": False}) == VfioConfig()


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
