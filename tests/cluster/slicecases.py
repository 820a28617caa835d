"""Slices that the API server takes, and slices that it does not: one case for each rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tests.cluster.apistage import DRIVER, NODE


def slice_of(**spec: Any) -> dict[str, Any]:
    """A good slice, but for what is given; ``None`` takes a field away."""
    whole = {
        "driver": DRIVER,
        "pool": {"name": NODE, "generation": 1, "resourceSliceCount": 1},
        "nodeName": NODE,
        "devices": [{"name": "nic-0", "attributes": {"type": {"string": "nic"}}}],
        **spec,
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"generateName": f"00000-{DRIVER}-{NODE}-"},
        "spec": {key: value for key, value in whole.items() if value is not None},
    }


def device(**fields: Any) -> dict[str, Any]:
    """A slice with one device that has these fields beside its name."""
    return slice_of(devices=[{"name": "nic-0", **fields}])


def attribute(**value: Any) -> dict[str, Any]:
    """A slice with one device that has one attribute."""
    return device(attributes={"key": value})


def policy(value: str = "10", **fields: Any) -> dict[str, Any]:
    """A slice with one shared device whose capacity has a request policy."""
    capacity = {"slots": {"value": value, "requestPolicy": fields}}
    return device(allowMultipleAllocations=True, capacity=capacity)


def many(count: int, **fields: Any) -> dict[str, Any]:
    """A slice of many devices."""
    return slice_of(devices=[{"name": f"nic-{index}", **fields} for index in range(count)])


def amounts(count: int = 1) -> dict[str, Any]:
    """So many counters."""
    return {f"c{index}": {"value": "1"} for index in range(count)}


def counters(*sets: Mapping[str, Any]) -> dict[str, Any]:
    """A slice of counter sets."""
    return slice_of(devices=None, sharedCounters=list(sets))


def drawing(*consumptions: Mapping[str, Any]) -> dict[str, Any]:
    """A slice with one device that draws on counters."""
    return device(consumesCounters=list(consumptions))


POOL: Final = {"name": NODE, "generation": 1, "resourceSliceCount": 1}
TAINT: Final = {
    "key": f"{DRIVER}/fault",
    "effect": "NoSchedule",
    "timeAdded": "2026-01-02T03:04:05Z",
}

SLICE_CASES: Final[Mapping[str, dict[str, Any]]] = {
    "plain": slice_of(),
    "no devices": slice_of(devices=None),
    "every kind of attribute": device(
        attributes={
            "a": {"string": ""},
            "b": {"int": 0},
            "c": {"bool": False},
            "d": {"version": "1.2.3-rc.1+build"},
            "resource.kubernetes.io/pcieRoot": {"string": "pci0000:00"},
        }
    ),
    "quantities": device(
        capacity={
            "a": {"value": "1024Mi"},
            "b": {"value": "1500Mi"},
            "c": {"value": "1000"},
            "d": {"value": "0.5"},
            "e": {"value": "1e3"},
            "f": {"value": "512Ki"},
            "g": {"value": "0.5Gi"},
            "h": {"value": "100Mi"},
            "i": {"value": "1.5Ki"},
            "j": {"value": "0"},
            "k": {"value": "25G"},
            "l": {"value": 12},
            "m": {"value": "1000Ki"},
            "n": {"value": "0.0000000001"},
            "o": {"value": "12E3"},
            "p": {"value": "1.5Gi"},
        }
    ),
    "capacity without value": device(capacity={"a": {}}),
    "no quantity": device(capacity={"a": {"value": "12x"}}),
    "bare quantity": device(capacity={"a": "12"}),
    "driver missing": slice_of(driver=None),
    "driver not a name": slice_of(driver="Berth_dev"),
    "driver too long": slice_of(driver="a" * 64),
    "pool name missing": slice_of(pool={"generation": 1, "resourceSliceCount": 1}),
    "pool name of two parts": slice_of(pool={**POOL, "name": "a/b.c"}),
    "pool name bad": slice_of(pool={**POOL, "name": "A//b"}),
    "no slice count": slice_of(pool={"name": NODE, "generation": 1}),
    "negative generation": slice_of(pool={**POOL, "generation": -1}),
    "no node": slice_of(nodeName=None),
    "empty node": slice_of(nodeName=""),
    "bad node": slice_of(nodeName="A b"),
    "two ways to nodes": slice_of(allNodes=True),
    "all nodes false": slice_of(allNodes=False),
    "device name bad": slice_of(devices=[{"name": "Nic_0"}]),
    "device name missing": slice_of(devices=[{}]),
    "device name twice": slice_of(devices=[{"name": "a"}, {"name": "b"}, {"name": "a"}]),
    "128 devices": many(128),
    "129 devices": many(129),
    "64 tainted devices": many(64, taints=[TAINT]),
    "65 devices, all tainted": many(65, taints=[TAINT]),
    "32 attributes": device(attributes={f"a{index}": {"int": 1} for index in range(32)}),
    "33 keys": device(
        attributes={f"a{index}": {"int": 1} for index in range(32)}, capacity={"c": {"value": "1"}}
    ),
    "attribute of 64 bytes": attribute(string="é" * 32),
    "attribute of 65 bytes": attribute(string="x" * 65),
    "attribute without value": attribute(),
    "attribute with two values": attribute(int=1, string="x"),
    "attribute of wrong type": attribute(int="1"),
    "version with v": attribute(version="v1.2.3"),
    "list attribute": attribute(ints=[1, 2]),
    "empty list attribute": attribute(ints=[]),
    "attribute name too long": device(attributes={"a" * 33: {"int": 1}}),
    "attribute name no identifier": device(attributes={"a-b": {"int": 1}}),
    "attribute name with empty domain": device(attributes={"/b": {"int": 1}}),
    "attribute name with three parts": device(attributes={"a/b/c": {"int": 1}}),
    "taint": device(taints=[TAINT]),
    "taint without effect": device(taints=[{"key": "a"}]),
    "taint with unknown effect": device(taints=[{**TAINT, "effect": "PreferNoSchedule"}]),
    "taint with bad key and value": device(taints=[{**TAINT, "key": "a b", "value": "c d"}]),
    "17 taints": device(taints=[{**TAINT, "key": f"k{index}"} for index in range(17)]),
    "policy on a single device": device(
        capacity={"a": {"value": "1", "requestPolicy": {"default": "1"}}}
    ),
    "policy of values": policy(default="1", validValues=["1", "2", "10"]),
    "policy of values without default": policy(validValues=["1"]),
    "policy whose default is no value": policy(default="3", validValues=["1", "2"]),
    "policy of unsorted values": policy(default="1", validValues=["2", "1"]),
    "policy with a value twice": policy(default="1", validValues=["1", "1"]),
    "policy with a value too large": policy(default="1", validValues=["1", "11"]),
    "policy of eleven values": policy(
        default="1", validValues=[str(index) for index in range(1, 12)], value="20"
    ),
    "policy of a range": policy("10G", default="1G", validRange={"min": "1M", "step": "1M"}),
    "policy of a range with maximum": policy(
        default="4", validRange={"min": "2", "max": "8", "step": "2"}
    ),
    "range without minimum": policy(default="1", validRange={"step": "1"}),
    "range without default": policy(validRange={"min": "1"}),
    "range beyond the capacity": policy(default="11", validRange={"min": "11", "step": "1"}),
    "range with default off the steps": policy(default="2", validRange={"min": "1", "step": "2"}),
    "range with maximum off the steps": policy(
        default="1", validRange={"min": "1", "max": "4", "step": "2"}
    ),
    "range with default out of it": policy(default="9", validRange={"min": "2", "max": "8"}),
    "range with a step of none": policy(default="1", validRange={"min": "1", "step": "0"}),
    "range with minimum above maximum": policy(default="5", validRange={"min": "6", "max": "4"}),
    "values and range": policy(default="1", validValues=["1"], validRange={"min": "1"}),
    "binding conditions": device(bindingConditions=["a"], bindingFailureConditions=["b"]),
    "binding conditions alone": device(bindingConditions=["a"]),
    "binding conditions that overlap": device(
        bindingConditions=["a", "a"], bindingFailureConditions=["a"]
    ),
    "five binding conditions": device(
        bindingConditions=list("abcde"), bindingFailureConditions=["f"]
    ),
    "fields of gates that are off": slice_of(
        skipNodeOperations=["*"],
        partitionTypeAttribute=f"{DRIVER}/type",
        devices=[{"name": "a", "nodeAllocatableResources": {}}],
    ),
    "unknown fields": slice_of(wish=1, devices=[{"name": "a", "wish": {"b": 1}}]),
    "null fields": slice_of(devices=[{"name": "a", "taints": None, "attributes": None}]),
    "device with a node of its own": slice_of(devices=[{"name": "a", "nodeName": NODE}]),
    "counters beside devices": slice_of(
        sharedCounters=[{"name": "a", "counters": {"b": {"value": "1"}}}]
    ),
    "counters": counters(
        {"name": "a", "counters": {"memory": {"value": "1024Mi"}, "memory-slice-0": {"value": 1}}},
        {"name": "b", "counters": amounts(32)},
    ),
    "eight counter sets": counters(*({"name": f"s{n}", "counters": amounts()} for n in range(8))),
    "nine counter sets": counters(*({"name": f"s{n}", "counters": amounts()} for n in range(9))),
    "33 counters": counters({"name": "a", "counters": amounts(33)}),
    "counter set twice": counters(
        {"name": "a", "counters": amounts()}, {"name": "a", "counters": amounts()}
    ),
    "counter set without name": counters({"counters": amounts()}),
    "counter set without counters": counters({"name": "a"}),
    "counter set with bad names": counters({"name": "A_b", "counters": {"c_d": {"value": "1"}}}),
    "counter without value": counters({"name": "a", "counters": {"b": {}}}),
    "empty list of devices": slice_of(devices=[]),
    "no counter sets": slice_of(devices=None, sharedCounters=[]),
    "no counter sets beside devices": slice_of(sharedCounters=[]),
    "counters drawn on": drawing(
        {"counterSet": "a", "counters": {"memory": {"value": "1.5Gi"}}},
        {"counterSet": "b", "counters": amounts(32)},
    ),
    "three counter sets drawn on": drawing(
        *({"counterSet": name, "counters": amounts()} for name in "abc")
    ),
    "counter set drawn on twice": drawing(
        *({"counterSet": "a", "counters": amounts()} for _ in range(2))
    ),
    "33 counters drawn on": drawing({"counterSet": "a", "counters": amounts(33)}),
    "nameless counter set drawn on": drawing({"counters": amounts()}),
    "no counters drawn on": drawing({"counterSet": "a"}),
    "badly named counters drawn on": drawing(
        {"counterSet": "A_b", "counters": {"c_d": {"value": "1"}}}
    ),
    "counters in groups": drawing(
        {"counterSet": "a", "counters": amounts(), "compatibilityGroups": ["mig"]}
    ),
    "64 devices drawing on counters": many(
        64, consumesCounters=[{"counterSet": "a", "counters": amounts()}]
    ),
    "65 devices drawing on counters": many(
        65, consumesCounters=[{"counterSet": "a", "counters": amounts()}]
    ),
    "generation of wrong type": slice_of(pool={**POOL, "generation": "1"}),
}
