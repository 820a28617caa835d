"""Manifests to the claims that their pods use, as the API server would hold them.

What the server adds (UIDs, the reservation for pods) is made up, the same at each run.

Source: ``k8s.io/api/resource/v1/types.go`` and ``core/v1/types.go`` of 1.37.2.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, Final

from berth.kube.claims import POD_CLAIM_NAME
from berth.rehearsal.manifests import Manifests

TYPES: Final = ("nic", "nic-shared", "nic-vfio", "rdma", "gpu", "mig", "vfio", "generic")
"""Types of device for which a class is shipped (``configs/kubernetes/deviceclasses.yaml``)."""


def claims_of(manifests: Manifests) -> tuple[Mapping[str, Any], ...]:
    """The claims that pods use, each reserved for its pods, in the order of the pods."""
    claims: dict[tuple[str, str], dict[str, Any]] = {}
    given = {_key(value): value for value in manifests.claims}
    templates = {_key(value): value for value in manifests.templates}
    for pod in manifests.pods:
        namespace, name = _key(pod)
        for entry in pod["spec"].get("resourceClaims") or ():
            key = (namespace, entry.get("resourceClaimName") or f"{name}-{entry['name']}")
            source = given.get(key)
            template = templates.get((namespace, entry.get("resourceClaimTemplateName") or ""))
            if source is None and template is not None:
                source = _from_template(template, key, entry["name"])
            if source is not None:
                _reserve(claims.setdefault(key, _complete(source, key)), namespace, name)
    return tuple(claims.values())


def classes_of(manifests: Manifests, driver: str) -> list[Mapping[str, Any]]:
    """The classes of the manifests, and those that are shipped where the manifests have none."""
    own = {item["metadata"]["name"] for item in manifests.classes}
    shipped = {f"{kind}.{driver}": kind for kind in TYPES}
    made = [_class(name, driver, kind) for name, kind in shipped.items() if name not in own]
    return [*manifests.classes, *made]


def stable_uid(text: str) -> str:
    """A made-up UID that is the same at each run, so that the same file gives the same plan."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"berth:{text}"))


def _class(name: str, driver: str, kind: str) -> Mapping[str, Any]:
    expression = f'device.driver == "{driver}" && device.attributes["{driver}"].type == "{kind}"'
    return {
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }


def _key(value: Mapping[str, Any]) -> tuple[str, str]:
    metadata = value["metadata"]
    return metadata.get("namespace") or "default", metadata["name"]


def _from_template(
    template: Mapping[str, Any], key: tuple[str, str], entry: str
) -> Mapping[str, Any]:
    namespace, name = key
    return {
        "metadata": {
            "namespace": namespace,
            "name": name,
            "annotations": {POD_CLAIM_NAME: entry},
        },
        "spec": template["spec"]["spec"],
    }


def _complete(source: Mapping[str, Any], key: tuple[str, str]) -> dict[str, Any]:
    """The claim with what the API server would have added: namespace, UID, status."""
    namespace, name = key
    metadata = {**source["metadata"], "namespace": namespace}
    metadata["uid"] = metadata.get("uid") or stable_uid(f"claim/{namespace}/{name}")
    status = {**(source.get("status") or {}), "reservedFor": []}
    return {**source, "metadata": metadata, "status": status}


def _reserve(claim: dict[str, Any], namespace: str, pod: str) -> None:
    uid = stable_uid(f"pod/{namespace}/{pod}")
    entry = {"resource": "pods", "name": pod, "uid": uid}
    if entry not in claim["status"]["reservedFor"]:
        claim["status"]["reservedFor"].append(entry)
