"""The shipped manifests say what berth understands and does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from berth.errors import ClaimError
from berth.nic.config.decode import decode
from berth.nic.config.report import Place, Report

MANIFESTS: Final = Path(__file__).parents[3] / "configs" / "kubernetes"
EXAMPLES: Final = sorted((MANIFESTS / "examples").glob("*.yaml"))


def documents(file: Path) -> list[dict[str, Any]]:
    """Every object of a manifest."""
    return list(yaml.safe_load_all(file.read_text()))


def claims(file: Path) -> Iterator[dict[str, Any]]:
    """The ``spec.devices`` of each claim and template of an example."""
    for document in documents(file):
        if document["kind"] == "ResourceClaim":
            yield document["spec"]["devices"]
        elif document["kind"] == "ResourceClaimTemplate":
            yield document["spec"]["spec"]["devices"]


def classes(devices: dict[str, Any]) -> Iterator[str]:
    """The classes that a claim asks for."""
    for request in devices["requests"]:
        for exact in request.get("firstAvailable", [request.get("exactly")]):
            yield exact["deviceClassName"]


def test_there_is_an_example_of_each_way_to_claim() -> None:
    """By name, by template, on a shared NIC, two at once, and the first that there is."""

    assert [file.stem for file in EXAMPLES] == [
        "claim-by-name",
        "claim-template",
        "prioritized-list",
        "shared-parent",
        "two-nics",
    ]


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_example_configures_requests_that_it_makes(file: Path) -> None:
    """Its configuration is a NicConfig without a fault, for requests of the same claim."""

    found = list(claims(file))
    report = Report()
    for devices in found:
        names = {request["name"] for request in devices["requests"]}
        for entry in devices["config"]:
            parameters = entry["opaque"]["parameters"]
            assert set(entry.get("requests", [])) <= names
            assert entry["opaque"]["driver"] == "berth.dev"
            assert parameters["apiVersion"] == "berth.dev/v1alpha1"
            decode(parameters, Place(report=report, root=file.stem), beside=("apiVersion", "kind"))

    assert found
    assert report.faults(ClaimError) == ()


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_example_asks_for_classes_that_are_shipped(file: Path) -> None:
    """Whoever applied `deviceclasses.yaml` can apply it."""

    shipped = {item["metadata"]["name"] for item in documents(MANIFESTS / "deviceclasses.yaml")}

    assert {name for devices in claims(file) for name in classes(devices)} <= shipped


def test_policy_and_rights_are_for_the_same_account() -> None:
    """A policy for another name would never apply."""

    account, role, binding = documents(MANIFESTS / "rbac.yaml")
    policy, enforced = documents(MANIFESTS / "admission.yaml")
    name, namespace = account["metadata"]["name"], account["metadata"]["namespace"]
    user = f"system:serviceaccount:{namespace}:{name}"

    assert user in policy["spec"]["matchConditions"][0]["expression"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": name, "namespace": namespace}]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert enforced["spec"]["policyName"] == policy["metadata"]["name"]
