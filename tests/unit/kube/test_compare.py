"""Differences of meaning between a wanted slice and the one the server holds."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from berth.kube.compare import device_differences, differences, keep_taint_times
from berth.kube.slices import Owner, Slice

DEVICE: dict[str, Any] = {
    "name": "nic-1",
    "attributes": {"type": {"string": "nic"}, "mtu": {"int": 1500}, "alias": {"string": ""}},
    "capacity": {
        "bandwidth": {
            "value": "1Gi",
            "requestPolicy": {"default": "1k", "validValues": ["1k", "2k"]},
        }
    },
    "taints": [{"key": "berth.dev/fault", "effect": "NoSchedule"}],
    "allowMultipleAllocations": True,
}
WANTED = Slice(
    driver="berth.dev",
    pool="n",
    generation=1,
    slice_count=1,
    node_name="n",
    devices=(DEVICE,),
    owner=Owner(name="n", uid="u"),
)


def found_with(change: Callable[[dict[str, Any]], object]) -> Slice:
    """The slice with its device changed, and named as the server would."""
    device = copy.deepcopy(DEVICE)
    change(device)
    return attrs.evolve(WANTED, devices=(device,), name="x", uid="y", resource_version="3")


def paths(wanted: Slice, found: Slice) -> list[str]:
    """Where two slices differ."""
    return [item.path for item in differences(wanted, found)]


@pytest.mark.parametrize(
    "change",
    [
        lambda _: None,
        lambda device: device["capacity"]["bandwidth"].update(value="1024Mi"),
        lambda device: device["capacity"]["bandwidth"]["requestPolicy"].update(
            default="1000", validValues=["1000", "2000"]
        ),
        lambda device: device["taints"][0].update(timeAdded="2026-01-02T03:04:05Z"),
        lambda device: device["taints"][0].update(value=""),
        lambda device: device.update(bindingConditions=[], consumesCounters=None),
    ],
)
def test_other_forms_of_the_same_are_no_difference(change: Callable[[Any], object]) -> None:
    """Canonical quantities, stamps of the server and empty members change nothing."""

    assert paths(WANTED, found_with(change)) == []


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (lambda device: device.pop("allowMultipleAllocations"), ".allowMultipleAllocations"),
        (lambda device: device.pop("taints"), ".taints"),
        (
            lambda device: device["capacity"]["bandwidth"].pop("requestPolicy"),
            ".capacity.bandwidth.requestPolicy",
        ),
        (lambda device: device["attributes"].pop("mtu"), ".attributes.mtu"),
        (lambda device: device["attributes"]["alias"].pop("string"), ".attributes.alias.string"),
    ],
)
def test_dropped_field_is_told_with_its_path(change: Callable[[Any], object], path: str) -> None:
    """A gate that is off shows as a field that is not there."""

    (difference,) = differences(WANTED, found_with(change))

    assert difference.path == f"spec.devices[0]{path}"
    assert difference.dropped


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (lambda device: device["attributes"]["mtu"].update(int=9000), ".attributes.mtu.int"),
        (lambda device: device["attributes"]["mtu"].update(int=True), ".attributes.mtu.int"),
        (lambda device: device["attributes"].update(x={"int": 1}), ".attributes.x"),
        (lambda device: device["taints"].append({"key": "a"}), ".taints"),
        (lambda device: device["taints"][0].update(effect="NoExecute"), ".taints[0].effect"),
        (lambda device: device.update(bindsToNode=True), ".bindsToNode"),
        (
            lambda device: device["capacity"]["bandwidth"].update(value="2Gi"),
            ".capacity.bandwidth.value",
        ),
    ],
)
def test_foreign_edit_is_told_and_is_not_taken_for_a_drop(
    change: Callable[[Any], object], path: str
) -> None:
    """What another hand wrote has to be put right."""

    (difference,) = differences(WANTED, found_with(change))

    assert difference.path == f"spec.devices[0]{path}"
    assert not difference.dropped


def test_empty_text_of_an_attribute_is_a_value() -> None:
    """An attribute that was wanted empty and is not there makes selectors fail, so it counts."""

    assert device_differences({"attributes": {}}, {"attributes": {"a": {"string": ""}}}) != ()
    assert (
        device_differences(
            {"attributes": {"a": {"string": ""}}}, {"attributes": {"a": {}}}, path="d"
        )[0].path
        == "d.attributes.a.string"
    )


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"generation": 2}, "spec.pool.generation"),
        ({"slice_count": 2}, "spec.pool.resourceSliceCount"),
        ({"node_name": ""}, "spec.nodeName"),
        ({"others": {"allNodes": True}}, "spec.allNodes"),
        ({"devices": ()}, "spec.devices"),
        ({"owner": None}, "metadata.ownerReferences"),
    ],
)
def test_fields_of_the_slice_itself_count(change: dict[str, Any], path: str) -> None:
    """Pool, binding and owner are compared as well as devices."""

    assert paths(WANTED, attrs.evolve(WANTED, **change)) == [path]


def test_identity_of_the_object_does_not_count() -> None:
    """Name, UID and version are the server's."""

    found = attrs.evolve(WANTED, name="a", uid="b", resource_version="c", generate_name="d")

    assert paths(WANTED, found) == []
    assert paths(attrs.evolve(WANTED, owner=None), found) == []


def test_taint_that_stays_keeps_its_time_and_a_new_one_gets_none() -> None:
    """An eviction delay that runs is not started anew by our next write."""

    stamped = {"key": "a", "effect": "NoSchedule", "timeAdded": "2026-01-02T03:04:05Z"}
    wanted = attrs.evolve(
        WANTED,
        devices=(
            {
                "name": "nic-1",
                "taints": [
                    {"key": "a", "effect": "NoSchedule"},
                    {"key": "a", "effect": "NoExecute"},
                    {"key": "b", "effect": "None", "timeAdded": "2020-01-01T00:00:00Z"},
                ],
            },
            {"name": "nic-2"},
            {"name": "nic-3", "taints": [{"key": "a", "effect": "NoSchedule"}]},
        ),
    )
    found = attrs.evolve(WANTED, devices=({"name": "nic-1", "taints": [stamped]},))

    kept = keep_taint_times(wanted, [found])

    assert kept.devices[0]["taints"] == [
        stamped,
        {"key": "a", "effect": "NoExecute"},
        {"key": "b", "effect": "None", "timeAdded": "2020-01-01T00:00:00Z"},
    ]
    assert kept.devices[1:] == wanted.devices[1:]
