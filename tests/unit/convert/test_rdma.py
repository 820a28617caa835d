"""The file of the shared RDMA device plugin, key by key."""

from __future__ import annotations

import json
from typing import Any

import pytest

from berth.convert.conversion import convert
from tests.unit.convert.test_conversion import faults_of, groups_in


def _document(**resource: Any) -> str:
    return json.dumps({"configList": [{"resourceName": "r", "rdmaHcaMax": 2, **resource}]})


@pytest.mark.parametrize(
    ("resource", "told"),
    [
        ({}, " selects nothing: selectors or devices must name something"),
        ({"devices": []}, " selects nothing"),
        ({"selectors": {"vendors": []}}, " selects nothing"),
        ({"selectors": [{"vendors": ["15b3"]}]}, ".selectors is a list: it must be an object"),
        ({"devices": ["ib0"], "selectors": {"ifNames": ["ib1"]}}, ".devices is given beside"),
        ({"devices": ["ib*"]}, '.devices[0] is "ib*": it must be an interface name'),
        ({"devices": ["ib0"], "rdmaHcaMax": 0}, ".rdmaHcaMax is 0: it must be a whole number"),
        ({"devices": ["ib0"], "rdmaHcaMax": 1025}, ".rdmaHcaMax is 1025: it must be a whole"),
        ({"devices": ["ib0"], "rdmaHcaMax": "9"}, '.rdmaHcaMax is "9": it must be a whole number'),
        ({"devices": ["ib0"], "rdmaHcaMax": 2.0}, ".rdmaHcaMax is 2.0: it must be a whole number"),
        ({"devices": ["ib0"], "rdmaHcaMax": None}, " lacks rdmaHcaMax"),
        ({"selectors": {"deviceIDs": ["mlx5"]}}, '.selectors.deviceIDs[0] is "mlx5"'),
        ({"selectors": {"devices": ["1017"]}}, ".selectors.devices is unknown"),
        ({"devices": ["ib0"], "resourcePrefix": "Rdma"}, '.resourcePrefix is "Rdma"'),
        ({"devices": ["ib0"], "mode": "hca"}, ".mode is unknown"),
    ],
)
def test_key_is_refused_with_its_place(resource: dict[str, Any], told: str) -> None:
    """Each with what is allowed."""
    said = faults_of(_document(**resource))

    assert said[0].startswith(f"configList[0]{told}")


def test_resource_is_a_group_of_shared_nics() -> None:
    """With as many slots as the plugin gave tickets."""
    (group,) = groups_in(convert(json.loads(_document(devices=["ib0"])), where="f").text)

    assert group == {
        "name": "r",
        "match": {"name": ["ib0"], "rdma": True},
        "mode": "shared",
        "door": "plugin",
        "resource": "rdma/r",
        "shared": {"slots": 2},
    }


@pytest.mark.parametrize(
    ("selection", "remarks"),
    [
        ({"devices": ["ib0"]}, 0),
        ({"devices": ["ib0", "ib1"]}, 1),
        ({"selectors": {"vendors": ["15b3"]}}, 1),
        ({"selectors": {"vendors": ["15b3"], "ifNames": ["ib0"]}}, 0),
    ],
)
def test_count_over_several_nics_is_remarked(selection: dict[str, Any], remarks: int) -> None:
    """Slots are counted for each NIC; where there is one alone, nothing is another way."""
    said = convert(json.loads(_document(**selection)), where="f").remarks

    assert len(said) == remarks
    assert all(each.startswith("configList[0].rdmaHcaMax was counted over all") for each in said)
