"""A file of manifests to the claims that its pods use, as the API server would hold them.

The types of all fields are checked as the server would, so that what works on them finds what it
expects. What the server adds (UIDs, the reservation for pods) is made up, the same at each run.

Source: ``k8s.io/api/resource/v1/types.go`` and ``core/v1/types.go`` of 1.37.2.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from berth.errors import ConfigError, KubeError
from berth.kube.claims import POD_CLAIM_NAME
from berth.rehearsal.apiserver.schema import (
    CLAIM_STATUS,
    Fields,
    Leaf,
    ListOf,
    MapOf,
    Shape,
    conform,
)
from berth.rehearsal.manifests import Manifests, read_documents, sort_out

TYPES: Final = ("nic", "nic-shared", "nic-vfio", "rdma")
"""Types of device for which a class is shipped (``configs/kubernetes/deviceclasses.yaml``)."""

_TEXT, _INTEGER, _FLAG, _ANYTHING = Leaf.TEXT, Leaf.INTEGER, Leaf.FLAG, Leaf.ANYTHING
_SELECTORS: Final = ListOf(Fields({"cel": Fields({"expression": _TEXT})}))
_CONFIG: Final = {"opaque": Fields({"driver": _TEXT, "parameters": _ANYTHING})}
_WANTED: Final[Mapping[str, Shape]] = {
    "deviceClassName": _TEXT,
    "selectors": _SELECTORS,
    "allocationMode": _TEXT,
    "count": _INTEGER,
    "tolerations": ListOf(
        Fields(
            {
                "key": _TEXT,
                "operator": _TEXT,
                "value": _TEXT,
                "effect": _TEXT,
                "tolerationSeconds": _INTEGER,
            }
        )
    ),
    "capacity": Fields({"requests": MapOf(Leaf.QUANTITY)}),
}
_CLAIM_SPEC: Final = Fields(
    {
        "devices": Fields(
            {
                "requests": ListOf(
                    Fields(
                        {
                            "name": _TEXT,
                            "exactly": Fields({**_WANTED, "adminAccess": _FLAG}),
                            "firstAvailable": ListOf(Fields({"name": _TEXT, **_WANTED})),
                        }
                    )
                ),
                "constraints": ListOf(
                    Fields(
                        {
                            "requests": ListOf(_TEXT),
                            "matchAttribute": _TEXT,
                            "distinctAttribute": _TEXT,
                        }
                    )
                ),
                "config": ListOf(Fields({"requests": ListOf(_TEXT), **_CONFIG})),
            }
        )
    }
)
_POD_SPEC: Final = Fields(
    {
        "resourceClaims": ListOf(
            Fields({"name": _TEXT, "resourceClaimName": _TEXT, "resourceClaimTemplateName": _TEXT})
        )
    }
)
_METADATA: Final = Fields(
    {
        "name": _TEXT,
        "namespace": _TEXT,
        "uid": _TEXT,
        "labels": MapOf(_TEXT),
        "annotations": MapOf(_TEXT),
    }
)
_SHAPES: Final[Mapping[str, Fields]] = {
    kind: Fields({"metadata": _METADATA, **members})
    for kind, members in {
        "ResourceClaim": {"spec": _CLAIM_SPEC, "status": CLAIM_STATUS},
        "ResourceClaimTemplate": {"spec": Fields({"metadata": _ANYTHING, "spec": _CLAIM_SPEC})},
        "DeviceClass": {
            "spec": Fields({"selectors": _SELECTORS, "config": ListOf(Fields(_CONFIG))})
        },
        "Pod": {"spec": _POD_SPEC},
        "Deployment": {
            "spec": Fields({"replicas": _INTEGER, "template": Fields({"spec": _POD_SPEC})})
        },
    }.items()
}
_CLAIM_KINDS: Final = frozenset({"ResourceClaim", "ResourceClaimTemplate"})


def read_claim_file(path: Path) -> Manifests:
    """Read a file of manifests; what the API server would not know of a claim becomes a note.

    Raises:
        ConfigError: It cannot be read, is no YAML, has no claim in it, or a field of another type.
    """
    documents = read_documents(path)
    notes = [
        note
        for number, document in enumerate(documents, start=1)
        for note in _check(document, f"{path}: document {number}")
    ]
    manifests = sort_out(documents, where=str(path))
    return attrs.evolve(manifests, notes=(*notes, *manifests.notes))


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


def _check(document: Any, where: str) -> Iterator[str]:
    """Check one document as far as anything is done with it; gives a note per unknown field."""
    kind = str(document.get("kind")) if isinstance(document, Mapping) else ""
    shape = _SHAPES.get(kind)
    if shape is None:
        return
    unknown: list[str] = []
    looked_at = {key: document[key] for key in shape.members if key in document}
    try:
        conform(looked_at, shape, kind, unknown)
    except KubeError as error:
        raise ConfigError(where, error.found) from error
    if kind in _CLAIM_KINDS:
        yield from (f"{where}: {path} is not known here" for path in unknown)
        for number, request in enumerate(_requests(document)):
            _require(request, f"{where}: requests[{number}]")


def _requests(document: Mapping[str, Any]) -> list[Any]:
    spec: Any = document.get("spec") or {}
    if document.get("kind") == "ResourceClaimTemplate":
        spec = spec.get("spec") or {}
    found = (spec.get("devices") or {}).get("requests") if "devices" in spec else None
    return found or []


def _require(request: Mapping[str, Any], where: str) -> None:
    """What the server would not take a request without."""
    subs = request.get("firstAvailable") or ()
    one = request.get("exactly")
    if not request.get("name") or bool(one) == bool(subs):
        raise ConfigError(where, "has no name, or not one of exactly and firstAvailable")
    for wanted in (one,) if one else subs:
        if not wanted.get("deviceClassName") or (subs and not wanted.get("name")):
            raise ConfigError(where, "has no deviceClassName, or an alternative without name")


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
