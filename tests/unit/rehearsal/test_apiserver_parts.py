"""Parts of the stand-in that the scenes on the real server do not reach."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.errors import KubeError
from berth.rehearsal.apiserver import gates, merging, resources, schema, store
from berth.rehearsal.apiserver.faults import Fault, Hang
from berth.rehearsal.apiserver.problems import INVALID, Problem, refuse, status_json
from berth.rehearsal.apiserver.resources import NODES, SLICES, read_path
from berth.rehearsal.apiserver.server import ApiServer
from berth.rehearsal.apiserver.store import Key, Store

SHARED: dict[str, Any] = {
    "name": "a",
    "allowMultipleAllocations": True,
    "capacity": {"slots": {"value": "8", "requestPolicy": {"default": "1"}}},
    "taints": [{"key": "a", "effect": "NoSchedule", "timeAdded": "2026-01-02T03:04:05Z"}],
    "bindsToNode": True,
}


def status_of(act: Callable[[], object]) -> int:
    """The status of what the server makes of it."""
    try:
        act()
    except KubeError as error:
        return error.status
    return 200


def slice_of(*devices: dict[str, Any]) -> dict[str, Any]:
    """A slice of one node."""
    return {
        "metadata": {"name": "x"},
        "spec": {
            "driver": "berth.dev",
            "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
            "nodeName": "n",
            "devices": list(devices),
        },
    }


def test_server_of_1_34_drops_what_its_gates_hold_back() -> None:
    """Sharing, policies, taints and binding are gone, the rest is stored."""

    server = ApiServer(gates=gates.GATES_1_34)

    stored = server.put(SLICES, slice_of(SHARED))

    assert stored["spec"]["devices"] == [{"name": "a", "capacity": {"slots": {"value": "8"}}}]


def drawing(**more: Any) -> dict[str, Any]:
    """A slice with a device that draws on counters."""
    drawn = {"counterSet": "s", "counters": {"memory": {"value": "1Gi"}}}
    made = slice_of({"name": "a", "attributes": {"profile": {"string": ""}}})
    made["spec"]["devices"][0]["consumesCounters"] = [{**drawn, **more}]
    return made


ALPHA = gates.GATES_1_37 | {gates.GROUPS, gates.PARTITION_TYPE}


@pytest.mark.parametrize(
    ("groups", "status"),
    [(["mig"], 200), (["mig", "mig"], 422), (["a", "b", "c"], 422), (["no_label"], 422)],
)
def test_compatibility_groups_are_checked_where_they_are_kept(
    groups: list[str], status: int
) -> None:
    """Two at most, and different ones; with the gate off they are gone before."""

    wanted = drawing(compatibilityGroups=groups)

    assert status_of(lambda: ApiServer(gates=ALPHA).put(SLICES, wanted)) == status
    stored = ApiServer(gates=gates.GATES_1_37).put(SLICES, drawing(compatibilityGroups=groups))
    assert "compatibilityGroups" not in stored["spec"]["devices"][0]["consumesCounters"][0]


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("berth.dev/profile", 200),
        ("profile", 422),
        ("", 422),
        ("berth.dev/kind", 422),
        ("x.y/profile", 422),
    ],
)
def test_partition_type_is_checked_where_it_is_kept(name: str, status: int) -> None:
    """A qualified name, of a text that each device that draws has."""

    wanted = drawing()
    wanted["spec"]["partitionTypeAttribute"] = name

    assert status_of(lambda: ApiServer(gates=ALPHA).put(SLICES, wanted)) == status
    undrawn = slice_of({"name": "a"})
    undrawn["spec"]["partitionTypeAttribute"] = name
    assert status_of(lambda: ApiServer(gates=ALPHA).put(SLICES, undrawn)) == 422
    assert status_of(lambda: ApiServer(gates=gates.GATES_1_37).put(SLICES, undrawn)) == 200


def test_server_of_1_34_drops_counters() -> None:
    """What is left of a slice of counter sets is an empty one."""

    counters = {"memory": {"value": "1Gi"}}
    part = {"name": "a", "consumesCounters": [{"counterSet": "s", "counters": counters}]}
    sets = slice_of()
    sets["spec"]["sharedCounters"] = [{"name": "s", "counters": counters}]
    del sets["spec"]["devices"]
    server = ApiServer(gates=gates.GATES_1_34)

    assert server.put(SLICES, slice_of(part))["spec"]["devices"] == [{"name": "a"}]
    assert "sharedCounters" not in server.put(SLICES, sets)["spec"]
    assert ApiServer().put(SLICES, sets)["spec"]["sharedCounters"] == [
        {"name": "s", "counters": counters}
    ]


def test_gate_that_is_off_keeps_fields_that_are_in_use() -> None:
    """A server that was downgraded does not cripple what it holds."""

    spec = slice_of(SHARED)["spec"]
    old = slice_of({"name": "b", "taints": [{"key": "z"}]})["spec"]

    gates.drop_disabled(spec, old, frozenset())

    assert spec["devices"][0].keys() == {"name", "capacity", "taints"}


def test_list_attribute_under_a_gate_that_is_on_is_stored() -> None:
    """And under one that is off it is refused: the scenes show that."""

    server = ApiServer(gates=gates.GATES_1_37 | {gates.LISTS})
    listed = {"name": "a", "attributes": {"numa": {"ints": [0, 1]}}}
    empty = {"name": "a", "attributes": {"numa": {"ints": []}}}
    both = {"name": "a", "attributes": {"x": {"strings": ["s" * 65], "versions": ["v1"]}}}

    assert server.put(SLICES, slice_of(listed))["spec"]["devices"] == [listed]
    with pytest.raises(KubeError, match=r"attributes\[numa\].ints: Invalid"):
        server.put(SLICES, slice_of(empty))
    with pytest.raises(KubeError, match=r"strings\[0\]: Too long.*versions\[0\]: Invalid"):
        server.put(SLICES, slice_of(both))


def test_lists_that_are_empty_are_not_stored() -> None:
    """Nor keys of which there are none; a slice comes back without them."""

    empty: dict[str, Any] = {
        "taints": [],
        "attributes": {},
        "bindingConditions": [],
        "consumesCounters": [],
    }
    server = ApiServer(gates=gates.GATES_1_37)

    stored = server.put(SLICES, slice_of({"name": "a", **empty}))
    assert stored["spec"]["devices"] == [{"name": "a"}]


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"skipNodeOperations": ["NodePrepareResources"]}, "skipNodeOperations: Invalid"),
        ({"skipNodeOperations": ["x"]}, r"skipNodeOperations\[0\]: Unsupported"),
        ({"skipNodeOperations": ["*", "*"]}, r"skipNodeOperations\[1\]: Duplicate"),
        ({"perDeviceNodeSelection": False}, "perDeviceNodeSelection: Invalid"),
        ({"nodeName": None, "perDeviceNodeSelection": True}, ""),
    ],
)
def test_rules_of_gates_that_are_off_by_default(spec: dict[str, Any], told: str) -> None:
    """They hold as soon as the gate is on."""

    server = ApiServer(gates=gates.GATES_1_37 | {gates.OPTIONAL_OPERATIONS})
    value = slice_of()
    value["spec"] |= spec

    if told:
        with pytest.raises(KubeError, match=told):
            server.put(SLICES, value)
    else:
        assert server.put(SLICES, value)["spec"]["perDeviceNodeSelection"] is True


def test_put_replaces_with_status_and_get_gives_a_copy() -> None:
    """The director needs one step where the API needs two, and cannot spoil the store."""

    server = ApiServer()
    claim = {
        "metadata": {"name": "c", "namespace": "d"},
        "spec": {"a": 1},
        "status": {"reservedFor": [], "allocation": {"devices": {"results": []}}},
    }

    first = server.put(resources.CLAIMS, claim)
    first["spec"]["a"] = 2
    second = server.put(resources.CLAIMS, {**claim, "status": {}})

    assert server.get(resources.CLAIMS, "c", "d") == {
        key: value for key, value in second.items() if key not in {"kind", "apiVersion"}
    }
    assert second["spec"] == {"a": 1}
    assert second["metadata"]["uid"] == first["metadata"]["uid"]
    assert server.objects(resources.CLAIMS, "other") == []


def test_patch_and_delete_are_for_what_is_there() -> None:
    """The director is told of a name that does not exist."""

    server = ApiServer()
    server.put(NODES, {"metadata": {"name": "n"}})

    patched = server.patch(NODES, "n", {"metadata": {"labels": {"a": "b"}}})
    server.delete(NODES, "n")

    assert patched["metadata"]["labels"] == {"a": "b"}
    assert server.get(NODES, "n") is None
    for act in (lambda: server.patch(NODES, "n", {}), lambda: server.delete(NODES, "n")):
        with pytest.raises(KubeError, match="not found"):
            act()


def test_history_is_bounded_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Old versions are forgotten, and asking for them is a 410."""

    monkeypatch.setattr(store, "HISTORY_LIMIT", 3)
    made = Store()
    start = made.version
    for index in range(5):
        made.put(Key("nodes", "", "n"), {"metadata": {}, "a": index})

    with pytest.raises(KubeError) as error:
        made.changes_since(start, "nodes")

    assert (error.value.status, error.value.reason) == (410, "Expired")
    assert [change.object["a"] for change in made.changes_since(start + 2, "nodes")] == [2, 3, 4]
    assert made.changes_since(start + 2, "pods") == []


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/api/v2/nodes", 404),
        ("GET", "/apis/resource.k8s.io/v1beta1/resourceslices", 404),
        ("GET", "/apis/resource.k8s.io", 404),
        ("GET", "/api/v1/namespaces/a/nodes/b", 404),
        ("GET", "/api/v1/pods/b", 404),
        ("GET", "/api/v1/namespaces/a/pods/b/log", 404),
        ("GET", "/api/v1/namespaces/a/pods/b/status/more", 404),
        ("POST", "/api/v1/nodes/n", 405),
        ("PUT", "/api/v1/nodes", 405),
        ("TRACE", "/api/v1/nodes", 405),
    ],
)
def test_path_that_is_not_served_is_refused(method: str, path: str, status: int) -> None:
    """Unknown resources are 404, methods that do not fit 405."""

    with pytest.raises(KubeError) as error:
        read_path(method, path)

    assert error.value.status == status


def test_path_names_verb_resource_and_place() -> None:
    """Collections in one namespace and in all, objects and their status."""

    call = read_path("PATCH", "/apis/resource.k8s.io/v1/namespaces/a/resourceclaims/b/status")

    assert (call.verb, call.namespace, call.name, call.subresource) == ("patch", "a", "b", "status")
    assert read_path("GET", "/api/v1/pods").verb == "list"
    assert read_path("DELETE", "/api/v1/namespaces/a/pods").verb == "deletecollection"


@given(st.text(max_size=60), st.sampled_from(["GET", "PUT", "DELETE"]))
def test_any_path_is_a_call_or_a_refusal(path: str, method: str) -> None:
    """A client's nonsense never breaks the server."""

    assert status_of(lambda: read_path(method, f"/api/v1/{path}")) in {200, 404, 405}


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [1]}, {"a": [2, 3]}, {"a": [2, 3]}),
        (["a"], {"b": 1}, {"b": 1}),
        ({"a": 1}, None, None),
        ({}, {"a": {"bb": {"c": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patch_follows_the_rfc(target: Any, patch: Any, result: Any) -> None:
    """The examples of RFC 7386, appendix A."""

    assert merging.merge_patch(target, patch) == result


def test_apply_of_one_manager_leaves_the_others_leaves_alone() -> None:
    """What two managers gave goes when both have taken it back."""

    live: dict[str, Any] = {}
    one = {"status": {"devices": [{"driver": "d", "pool": "p", "device": "x", "data": {"a": 1}}]}}
    two = {"status": {"devices": [{"driver": "d", "pool": "p", "device": "x", "b": 2}]}}

    live = merging.apply(live, one, {}, [])
    live = merging.apply(live, two, {}, [one])
    without_one = merging.apply(live, {}, one, [two])
    without_both = merging.apply(without_one, {}, two, [])

    assert without_one["status"]["devices"] == [{"driver": "d", "pool": "p", "device": "x", "b": 2}]
    assert without_both == {}


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)


_DEVICE = st.dictionaries(
    st.sampled_from(["name", "attributes", "capacity", "taints", "bindingConditions", "nodeName"]),
    _VALUES,
)


@given(
    st.dictionaries(st.sampled_from(["driver", "pool", "devices", "nodeName", "x"]), _VALUES)
    | st.builds(
        lambda devices: slice_of(*devices)["spec"], st.lists(_DEVICE, min_size=1, max_size=2)
    )
)
def test_any_spec_is_stored_or_refused(spec: dict[str, Any]) -> None:
    """Types and rules are checked before anything is trusted."""

    server = ApiServer()

    status = status_of(lambda: server.put(SLICES, {"metadata": {"name": "x"}, "spec": spec}))

    assert status in {200, 400, 422}
    assert (server.get(SLICES, "x") is None) == (status != 200)


def test_conform_prunes_and_tells_unknown_fields() -> None:
    """Their paths are for strict validation."""

    unknown: list[str] = []
    value = {"pool": {"name": "a", "wish": 1}, "wish": {}, "nodeName": None}

    assert schema.conform(value, schema.SLICE_SPEC, "spec", unknown) == {"pool": {"name": "a"}}
    assert unknown == ["spec.wish", "spec.pool.wish"]


def test_fault_hits_what_it_names_as_often_as_it_says() -> None:
    """Method, part of the path, watch or not; then it is over."""

    fault = Fault(action=Hang(), method="GET", path="slices", watch=True, times=2)
    watch = {"watch": "true"}

    assert not fault.hits("GET", "/resourceslices", {})
    assert not fault.hits("PUT", "/resourceslices", watch)
    assert not fault.hits("GET", "/nodes", watch)
    assert [fault.hits("GET", "/resourceslices", watch) for _ in range(3)] == [True, True, False]
    assert Fault(action=Hang(), times=None).hits("GET", "/", {})


def test_refusal_is_told_as_a_status() -> None:
    """Code, reason, message, and the fields as causes."""

    value = status_json(refuse(409, "no", fields=["a.b"]))

    assert (value["kind"], value["code"], value["reason"]) == ("Status", 409, "Conflict")
    assert value["details"]["causes"][0]["field"] == "a.b"
    assert str(Problem("a", INVALID, "is wrong", "x")) == 'a: Invalid value: "x": is wrong'
