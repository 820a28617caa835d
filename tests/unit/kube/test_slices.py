"""ResourceSlices from values to JSON and back."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from berth.errors import RemoteProtocolError
from berth.kube.slices import (
    Owner,
    Slice,
    attribute_json,
    counter_set_json,
    device_json,
    slice_from_json,
    slice_json,
)
from berth.model.device import Capacity, CapacityRange, Consumption, CounterSet, Device, Version
from berth.model.nodecost import NodeCost

SHARED = Device(
    name="parent-1",
    identity="pci:0000:42:00.0",
    type="nic-shared",
    group="lan",
    attributes={"type": "nic-shared", "mtu": 1500, "rdma": False, "firmware": Version("1.2.3")},
    capacity={
        "slots": Capacity(value=8, default=1, values=(1,)),
        "bandwidth": Capacity(
            value=10**10, default=10**9, bounds=CapacityRange(minimum=10**6, step=10**6)
        ),
        "memory": Capacity(value=2**30),
    },
    shared=True,
)
SHARED_JSON: dict[str, Any] = {
    "name": "parent-1",
    "attributes": {
        "firmware": {"version": "1.2.3"},
        "mtu": {"int": 1500},
        "rdma": {"bool": False},
        "type": {"string": "nic-shared"},
    },
    "capacity": {
        "bandwidth": {
            "value": "10G",
            "requestPolicy": {"default": "1G", "validRange": {"min": "1M", "step": "1M"}},
        },
        "memory": {"value": "1Gi"},
        "slots": {"value": "8", "requestPolicy": {"default": "1", "validValues": ["1"]}},
    },
    "allowMultipleAllocations": True,
}
WANTED = Slice(
    driver="berth.dev",
    pool="worker-7/nic",
    generation=3,
    slice_count=2,
    node_name="worker-7",
    devices=(SHARED_JSON,),
    generate_name="00000-berth.dev-worker-7-",
    owner=Owner(name="worker-7", uid="4e1f"),
)


def test_device_json_has_every_kind_of_attribute_and_policy() -> None:
    """The device that the real server takes (tests/cluster) is written like this."""

    assert device_json(SHARED) == SHARED_JSON


def test_exclusive_device_has_no_capacity_and_no_sharing() -> None:
    """Members that say nothing are left away, so that old servers have nothing to drop."""

    plain = Device(name="nic-1", identity="i", type="nic", group="g", attributes={"type": "nic"})

    assert device_json(plain) == {"name": "nic-1", "attributes": {"type": {"string": "nic"}}}


def test_conditions_that_bind_a_pod_are_lists_of_types() -> None:
    """Both sorts or neither: a server refuses one alone."""

    awaited = Device(
        name="n",
        identity="i",
        type="nic",
        group="g",
        attributes={},
        binding=("berth.dev/ready",),
        failure=("berth.dev/failed",),
    )

    told = device_json(awaited)
    assert told["bindingConditions"] == ["berth.dev/ready"]
    assert told["bindingFailureConditions"] == ["berth.dev/failed"]


def test_counters_are_quantities_below_their_set() -> None:
    """What a device draws and what there is are written in the same form."""

    draws = Consumption(counter_set="gpu-0", counters={"memory-slice-0": 1, "memory": 10 * 2**30})
    part = Device(name="m", identity="i", type="mig", group="g", attributes={}, consumes=(draws,))
    counters = {"memory": {"value": "10Gi"}, "memory-slice-0": {"value": "1"}}

    assert device_json(part)["consumesCounters"] == [{"counterSet": "gpu-0", "counters": counters}]
    assert counter_set_json(CounterSet(name="gpu-0", counters=draws.counters)) == {
        "name": "gpu-0",
        "counters": counters,
    }


def test_slice_of_counters_is_read_back_as_it_was_written() -> None:
    """It has no devices, and its counters are no foreign edit."""

    sets = (counter_set_json(CounterSet(name="gpu-0", counters={"memory": 1})),)
    wanted = attrs.evolve(WANTED, devices=(), shared_counters=sets)
    value = slice_json(wanted)

    assert "devices" not in value["spec"]
    assert slice_from_json(value) == wanted


@pytest.mark.parametrize(
    ("value", "json"),
    [
        (True, {"bool": True}),
        (0, {"int": 0}),
        ("", {"string": ""}),
        (Version("1.0.0"), {"version": "1.0.0"}),
    ],
)
def test_attribute_json_tells_kinds_apart(value: Any, json: dict[str, Any]) -> None:
    """A boolean is no integer, and empty values are values."""

    assert attribute_json(value) == json


def test_new_slice_asks_for_a_name_and_names_its_owner() -> None:
    """Without a name the server makes one from the prefix."""

    value = slice_json(WANTED)

    assert value["metadata"] == {
        "generateName": "00000-berth.dev-worker-7-",
        "ownerReferences": [
            {
                "apiVersion": "v1",
                "kind": "Node",
                "name": "worker-7",
                "uid": "4e1f",
                "controller": True,
            }
        ],
    }
    assert value["spec"]["pool"] == {
        "name": "worker-7/nic",
        "generation": 3,
        "resourceSliceCount": 2,
    }


def test_slice_without_devices_has_no_list_of_them() -> None:
    """An empty pool keeps one slice; the server keeps no empty list."""

    assert "devices" not in slice_json(attrs.evolve(WANTED, devices=()))["spec"]


def test_slice_survives_the_way_to_json_and_back() -> None:
    """What was stored can be sent again unchanged."""

    stored = attrs.evolve(
        WANTED, name="00000-berth.dev-worker-7-abcde", uid="u", resource_version="7"
    )

    assert slice_from_json(slice_json(stored)) == stored


def test_foreign_fields_are_kept_apart() -> None:
    """What somebody else wrote into the spec shows, and goes back as it came."""

    value = slice_json(WANTED)
    value["spec"]["allNodes"] = True
    value["metadata"]["ownerReferences"].insert(0, {"kind": "Pod", "name": "x", "uid": "y"})

    found = slice_from_json(value)

    assert found.others == {"allNodes": True}
    assert found.owner == WANTED.owner
    assert slice_json(found)["spec"]["allNodes"] is True


def test_slice_without_a_controlling_node_has_no_owner() -> None:
    """A reference that does not control is not the one that we write."""

    value = slice_json(WANTED)
    value["metadata"]["ownerReferences"][0]["controller"] = False

    assert slice_from_json(value).owner is None


@pytest.mark.parametrize("value", [None, [], {"spec": []}, {"spec": {"pool": {"generation": "1"}}}])
def test_what_is_no_slice_is_told(value: Any) -> None:
    """A broken answer is the peer's fault."""

    with pytest.raises(RemoteProtocolError):
        slice_from_json(value)


def test_cost_is_written_by_its_parts() -> None:
    """A mapping for what is counted once, an overhead for what each pod pays."""

    costs = {
        "memory": NodeCost(capacity="slots", times_milli=1500, pod_milli=2**30 * 1000),
        "cpu": NodeCost(device_milli=2000, container_milli=5),
    }

    assert device_json(attrs.evolve(SHARED, costs=costs)) == {
        **SHARED_JSON,
        "nodeAllocatableResources": {
            "cpu": {"mapping": {"deviceMultiplier": "2"}, "overhead": {"perContainer": "5m"}},
            "memory": {
                "mapping": {"capacityKey": "slots", "capacityMultiplier": "1500m"},
                "overhead": {"perPod": "1Gi"},
            },
        },
    }
