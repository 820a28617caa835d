"""Everything that `configs/kubernetes` ships, as the real API server sees it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from berth.errors import KubeError
from tests.cluster.bed import Cluster
from tests.cluster.pods import runtime_class

MANIFESTS: Final = Path(__file__).parents[2] / "configs" / "kubernetes"
COLLECTIONS: Final = {
    "ServiceAccount": "/api/v1/namespaces/kube-system/serviceaccounts",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "ValidatingAdmissionPolicy": (
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    ),
    "ValidatingAdmissionPolicyBinding": (
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
    ),
    "DeviceClass": "/apis/resource.k8s.io/v1/deviceclasses",
    "ResourceClaim": "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
    "ResourceClaimTemplate": "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates",
    "Pod": "/api/v1/namespaces/default/pods",
    "Deployment": "/apis/apps/v1/namespaces/default/deployments",
}
RUNTIME_CLASSES: Final = "/apis/node.k8s.io/v1/runtimeclasses"
DRY: Final = "dryRun=All&fieldValidation=Strict"
FILES: Final = sorted(MANIFESTS.rglob("*.yaml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(MANIFESTS)))
def test_manifest_is_taken_without_an_unknown_field(file: Path, cluster: Cluster) -> None:
    """Each object would be created under strict validation; nothing is left behind."""

    documents: list[dict[str, Any]] = list(yaml.safe_load_all(file.read_text()))
    if "adminAccess: true" in file.read_text():
        label = "resource.kubernetes.io/admin-access=true"
        cluster.kubectl("label", "--overwrite", "namespace", "default", label)
    for document in documents:
        handler = document.get("spec", {}).get("runtimeClassName", "")
        if handler:
            # Whoever gives devices to virtual machines has one; the server refuses a pod without.
            _create(cluster, RUNTIME_CLASSES, runtime_class(handler))

    refused = [
        _create(cluster, f"{COLLECTIONS[document['kind']]}?{DRY}", document)
        for document in documents
    ]

    assert documents
    assert not any(refused), refused


def _create(cluster: Cluster, path: str, document: dict[str, Any]) -> str:
    """Create an object; gives why the server refuses it, unless it is there already."""
    try:
        cluster.api.request("POST", path, document)
    except KubeError as error:
        return str(error) if error.status != 409 else ""
    return ""


def test_policy_has_no_expression_that_the_server_warns_of(cluster: Cluster) -> None:
    """The server's own type check of the policy's expressions finds nothing."""

    (policy,) = (
        item
        for item in cluster.api.apply((MANIFESTS / "admission.yaml").read_text())
        if item["kind"] == "ValidatingAdmissionPolicy"
    )
    path = f"{COLLECTIONS['ValidatingAdmissionPolicy']}/{policy['metadata']['name']}"

    checked = cluster.api.wait(
        path,
        lambda item: (
            item.get("status", {}).get("observedGeneration") == item["metadata"]["generation"]
        ),
    )

    assert checked["status"].get("typeChecking", {}).get("expressionWarnings", []) == []
