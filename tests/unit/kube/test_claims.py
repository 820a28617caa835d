"""ResourceClaims to values, from an object of a real cluster and from broken ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.errors import ClaimError, RemoteProtocolError
from berth.kube.allocations import allocated_claim
from berth.kube.api import ClaimQuery
from berth.kube.claims import POD_CLAIM_NAME, claim_from_json
from berth.model import jsontext
from berth.model.claim import ConfigSource, Consumer, DeviceResult

# As `kubectl get resourceclaim -o json` of 1.37.2 gives one of a template, with a second driver.
CLAIM = """
{
  "apiVersion": "resource.k8s.io/v1",
  "kind": "ResourceClaim",
  "metadata": {
    "name": "pod-nic-x7k2p", "namespace": "team", "uid": "1f0c5b5e-8a3f-4f0e-9a57-0a4b8f9d2c11",
    "resourceVersion": "812",
    "annotations": {"resource.kubernetes.io/pod-claim-name": "nic"},
    "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "pod", "uid": "p",
                         "blockOwnerDeletion": true, "controller": true}]
  },
  "spec": {"devices": {"requests": [{"name": "nic", "firstAvailable": [{"name": "fast"}]}]}},
  "status": {
    "allocation": {
      "allocationTimestamp": "2026-01-02T03:04:05Z",
      "devices": {
        "results": [
          {"request": "gpu", "driver": "gpu.other.dev", "pool": "n", "device": "gpu-0"},
          {"request": "nic/fast", "driver": "berth.dev", "pool": "n", "device": "nic-1",
           "shareID": "6a8f0d2e-5b1c-4f7a-9e3d-2c1b0a9f8e7d",
           "consumedCapacity": {"slots": "1", "bandwidth": "1G"},
           "tolerations": [{"key": "berth.dev/fault", "operator": "Exists"},
                           {"operator": "Exists"}],
           "bindingConditions": null, "newField": {"a": 1}},
          {"request": "look", "driver": "berth.dev", "pool": "n", "device": "nic-2",
           "adminAccess": true}
        ],
        "config": [
          {"source": "FromClass", "opaque": {"driver": "berth.dev", "parameters": {"a": 1}}},
          {"source": "FromClass", "opaque": {"driver": "gpu.other.dev", "parameters": {}}},
          {"source": "FromClaim", "requests": ["nic"],
           "opaque": {"driver": "berth.dev", "parameters": {"a": 1, "a": 2}}},
          {"source": "FromMoon", "opaque": {"driver": "berth.dev", "parameters": null}}
        ]
      },
      "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [
        {"key": "metadata.name", "operator": "In", "values": ["worker-7"]}]}]}
    },
    "reservedFor": [
      {"resource": "pods", "name": "pod", "uid": "8c1d"},
      {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "9d2e"}
    ]
  }
}
"""


def claim(**changes: Any) -> Any:
    """The claim, with other members of its status."""
    value = json.loads(CLAIM)
    value["status"].update(changes)
    return value


def test_claim_is_reduced_to_our_driver() -> None:
    """Results and configuration of ours stay, in their order; the rest is left out."""

    found = claim_from_json(jsontext.loads(CLAIM), driver="berth.dev")

    assert str(found.ref) == "team/pod-nic-x7k2p"
    assert found.results == (
        DeviceResult(
            request="nic/fast",
            pool="n",
            device="nic-1",
            share_id="6a8f0d2e-5b1c-4f7a-9e3d-2c1b0a9f8e7d",
            consumed={"slots": "1", "bandwidth": "1G"},
            tolerations=("berth.dev/fault", ""),
        ),
        DeviceResult(request="look", pool="n", device="nic-2", admin_access=True),
    )
    assert found.consumers == (
        Consumer(resource="pods", name="pod", uid="8c1d"),
        Consumer(resource="podgroups", name="g", uid="9d2e"),
    )
    assert (found.pod_claim_name, found.nodes) == ("nic", ("worker-7",))


def test_configuration_keeps_its_place_its_source_and_its_faults() -> None:
    """The index is that of the whole list, and a key that was given twice is still known."""

    found = claim_from_json(jsontext.loads(CLAIM), driver="berth.dev").configs

    assert [(item.index, item.source, item.requests) for item in found] == [
        (0, ConfigSource.CLASS, ()),
        (2, ConfigSource.CLAIM, ("nic",)),
        (3, ConfigSource.CLAIM, ()),
    ]
    assert jsontext.duplicates(found[1].parameters) == ("a",)
    assert found[2].parameters is None


@pytest.mark.parametrize("name", ["", "..", "../../../etc", "a/b", "a\n", "UPPER"])
def test_annotation_that_is_no_name_gives_none(name: str) -> None:
    """A tenant who writes the annotation has nothing mounted outside the folder of metadata."""

    value = claim()
    value["metadata"]["annotations"] = {POD_CLAIM_NAME: name}

    assert claim_from_json(value, driver="berth.dev").pod_claim_name is None


@pytest.mark.parametrize("name", ["", "..", "/etc", "nic/..", "a/b\n"])
def test_request_that_is_no_name_is_told(name: str) -> None:
    """It names a folder on the host."""

    value = claim()
    value["status"]["allocation"]["devices"]["results"][1]["request"] = name

    with pytest.raises(RemoteProtocolError, match=r"request: found .* must be DNS labels"):
        claim_from_json(value, driver="berth.dev")


def test_claim_of_another_driver_has_no_results() -> None:
    """A claim that holds nothing of ours is no fault."""

    found = claim_from_json(claim(), driver="third.dev")

    assert (found.results, found.configs) == ((), ())


@pytest.mark.parametrize("status", [{"allocation": None}, {"allocation": {}}])
def test_claim_without_allocation_is_a_claim_error(status: dict[str, Any]) -> None:
    """It names the claim and says that it heals by itself."""

    with pytest.raises(ClaimError, match=r"team/pod-nic-x7k2p.*no allocation"):
        claim_from_json(claim(**status), driver="berth.dev")


@pytest.mark.parametrize(
    ("terms", "nodes"),
    [
        ([], ()),
        ([{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}], ()),
        ([{"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["a"]}]}], ()),
        (
            [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a", "b"]}]},
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]},
            ],
            ("a", "b"),
        ),
        (
            [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]},
                {"matchExpressions": [{"key": "zone", "operator": "Exists"}]},
            ],
            (),
        ),
    ],
)
def test_nodes_are_those_that_every_term_names(terms: list[Any], nodes: tuple[str, ...]) -> None:
    """One alternative without names leaves the claim bound to none."""

    value = claim()
    value["status"]["allocation"]["nodeSelector"] = {"nodeSelectorTerms": terms}

    assert claim_from_json(value, driver="berth.dev").nodes == nodes


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
_PLACES = (
    ("metadata",),
    ("status",),
    ("status", "allocation"),
    ("status", "allocation", "devices"),
    ("status", "allocation", "devices", "results"),
    ("status", "allocation", "devices", "config"),
    ("status", "allocation", "nodeSelector"),
    ("status", "reservedFor"),
)


@given(st.sampled_from(_PLACES), _JSON)
def test_garbage_anywhere_gives_a_claim_or_a_known_error(
    place: tuple[str, ...], garbage: Any
) -> None:
    """Whatever the server sends, nothing else than our errors comes out."""

    value = json.loads(CLAIM)
    holder = value
    for step in place[:-1]:
        holder = holder[step]
    holder[place[-1]] = garbage

    try:
        found = claim_from_json(value, driver="berth.dev")
    except (ClaimError, RemoteProtocolError):
        return
    assert all(isinstance(item.device, str) for item in found.results)


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """Every object whose fields are the server's; the keys of some are anybody's."""
    if isinstance(value, dict):
        yield value
        for key in value.keys() - {"parameters", "consumedCapacity", "annotations"}:
            yield from _objects(value[key])
    elif isinstance(value, list):
        for item in value:
            yield from _objects(item)


_UNKNOWN = st.dictionaries(st.text(max_size=5).map("new{}".format), _JSON, min_size=1, max_size=3)


@given(st.integers(min_value=0), _UNKNOWN)
def test_fields_that_we_do_not_know_change_nothing(place: int, unknown: dict[str, Any]) -> None:
    """A later server may say more of each thing; a claim is read as if it had not, at each door."""

    value = json.loads(CLAIM)
    objects = list(_objects(value))
    objects[place % len(objects)].update(unknown)
    query = ClaimQuery(driver="berth.dev", pools=frozenset({"n"}))

    assert claim_from_json(value, driver="berth.dev") == claim_from_json(
        json.loads(CLAIM), driver="berth.dev"
    )
    assert allocated_claim(value, query) == allocated_claim(json.loads(CLAIM), query)


def test_configuration_of_another_kind_than_opaque_is_left_out() -> None:
    """It is nobody's that we know, and the entries after it keep their places."""

    value = claim()
    value["status"]["allocation"]["devices"]["config"].insert(0, {"source": "FromClass", "cel": {}})

    found = claim_from_json(value, driver="berth.dev").configs

    assert [item.index for item in found] == [1, 3, 4]


@pytest.mark.parametrize(
    ("change", "read"),
    [
        pytest.param({"adminAccess": "look"}, False, id="access"),
        pytest.param({"adminAccess": 1}, False, id="number"),
        pytest.param({"adminAccess": True}, True, id="known"),
    ],
)
def test_access_that_we_do_not_know_is_that_of_a_tenant(
    change: dict[str, Any], *, read: bool
) -> None:
    """Whoever looks takes no hold: by a word that we do not know two could have one device."""

    value = claim()
    value["status"]["allocation"]["devices"]["results"][1].update(change)

    assert claim_from_json(value, driver="berth.dev").results[0].admin_access is read


@pytest.mark.parametrize("field", ["shareID", "pool", "device", "request", "driver"])
def test_field_that_names_the_device_is_refused_in_another_form(field: str) -> None:
    """Left out it would name another device, or a whole in place of a share."""

    value = claim()
    value["status"]["allocation"]["devices"]["results"][1][field] = {"id": "new"}

    with pytest.raises(RemoteProtocolError, match=f"{field}: found dict: must be str"):
        claim_from_json(value, driver="berth.dev")
