"""Manifests of an operator, sorted by what is played of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from berth.errors import ConfigError
from berth.rehearsal.manifests import read_manifests

EXAMPLES = Path(__file__).parents[3] / "configs" / "kubernetes" / "examples"
CLAIM = """
kind: ResourceClaim
metadata: {name: c}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: nic.berth.dev}}]}}
"""


def read(tmp_path: Path, text: str) -> Any:
    """What a file of this text holds."""
    path = tmp_path / "m.yaml"
    path.write_text(text, encoding="utf-8")
    return read_manifests(path)


@pytest.mark.parametrize(
    ("name", "pods"),
    [
        ("claim-by-name", ["one-nic"]),
        ("claim-template", ["one-nic-each-0", "one-nic-each-1"]),
        ("prioritized-list", ["fast-or-shared"]),
        ("shared-parent", ["tenant-a", "tenant-b"]),
        ("two-nics", ["router"]),
    ],
)
def test_examples_are_read_with_their_pods(name: str, pods: list[str]) -> None:
    """Every shipped example can be played as it is, nothing left out or made up."""

    found = read_manifests(EXAMPLES / f"{name}.yaml")

    assert [pod["metadata"]["name"] for pod in found.pods] == pods
    assert found.notes == ()


def test_claim_without_a_pod_gets_one(tmp_path: Path) -> None:
    """A claim alone is enough: a pod that uses it is made up, and told."""

    found = read(tmp_path, CLAIM)

    assert found.pods[0]["spec"]["resourceClaims"] == [{"name": "nic", "resourceClaimName": "c"}]
    assert found.pods[0]["spec"]["containers"][0]["resources"]["claims"] == [{"name": "nic"}]
    assert found.notes == ("no pod in the file uses c: one is made up",)


def test_large_deployment_is_played_in_part(tmp_path: Path) -> None:
    """A deployment gives two pods at most, which is told."""

    text = (
        CLAIM
        + """
---
kind: Deployment
metadata: {name: d}
spec:
  replicas: 7
  template:
    spec:
      containers: [{name: x}]
      resourceClaims: [{name: n, resourceClaimName: c}]
---
kind: Service
metadata: {name: s}
"""
    )

    found = read(tmp_path, text)

    assert [pod["metadata"]["name"] for pod in found.pods] == ["d-0", "d-1"]
    assert found.notes == ("Deployment d: 2 of 7 pods are played", "Service is not played")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("{", "is no YAML"),
        ("- 1", "is no object of Kubernetes"),
        ("a: 1", "is no object of Kubernetes"),
        ("kind: Pod", "has no metadata.name"),
        ("kind: Pod\nmetadata: {name: p}", "has no spec.containers"),
        ("kind: ResourceClaim\nmetadata: {name: p}", "has no spec.devices.requests"),
        ("kind: DeviceClass\nmetadata: {name: p}\nspec: {config: []}", "has no ResourceClaim"),
        (CLAIM.replace("{deviceClassName: nic.berth.dev}", "{}"), "not one of exactly"),
        ("kind: List\nitems: 7", "at least one must be in it"),
        (
            "apiVersion: resource.k8s.io/v1beta1\n" + CLAIM.lstrip(),
            "it must be resource.k8s.io/v1; a request has its fields below `exactly` there",
        ),
        (CLAIM.replace("nic.berth.dev", "nic.berth.dev, count: many"), "cannot unmarshal str"),
    ],
)
def test_unusable_file_is_refused_with_its_place(tmp_path: Path, text: str, found: str) -> None:
    """What cannot be played is told before anything is begun."""

    with pytest.raises(ConfigError, match=found) as refused:
        read(tmp_path, text)

    assert str(tmp_path / "m.yaml") in refused.value.where


def test_missing_file_is_refused(tmp_path: Path) -> None:
    """The system's reason is told."""

    with pytest.raises(ConfigError, match="No such file"):
        read_manifests(tmp_path / "missing.yaml")
