"""A pod as the API server tells it: which claims it uses, of those that it names and those made."""

from __future__ import annotations

import pytest

from berth.errors import RemoteProtocolError
from berth.kube.pods import pod_claims_from_json
from berth.model.pod import PodClaims

POD = {
    "metadata": {"name": "p", "uid": "u"},
    "spec": {
        "schedulingGroup": {"podGroupName": "team"},
        "resourceClaims": [
            {"name": "a", "resourceClaimName": "uplink"},
            {"name": "b", "resourceClaimTemplateName": "made"},
            {"name": "c", "resourceClaimTemplateName": "not-made-yet"},
            {"name": "d", "resourceClaimTemplateName": "not-needed"},
        ],
    },
    "status": {
        "resourceClaimStatuses": [{"name": "b", "resourceClaimName": "p-b-x7"}, {"name": "d"}],
    },
}


def test_pod_has_what_it_names_and_what_was_made_for_it() -> None:
    """What a template has not made yet is told by the pod's own name for it."""

    assert pod_claims_from_json(POD, uid="u") == PodClaims(
        group="team", names=frozenset({"uplink", "p-b-x7"}), unresolved=frozenset({"c"})
    )


def test_another_pod_of_the_name_is_none() -> None:
    """Its predecessor has gone."""

    assert pod_claims_from_json(POD, uid="another") is None


def test_pod_without_claims_has_none() -> None:
    """Most pods are so."""

    assert pod_claims_from_json({"metadata": {"uid": "u"}}, uid="u") == PodClaims()


def test_what_is_no_pod_is_told() -> None:
    """A field of another type than the schema's."""

    with pytest.raises(RemoteProtocolError):
        pod_claims_from_json({"metadata": {"uid": "u"}, "spec": {"resourceClaims": 1}}, uid="u")
