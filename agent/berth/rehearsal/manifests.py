"""Kubernetes manifests as an operator writes them: the claims, and the pods that use them.

Of what a file holds, claims, their templates, classes, pods and deployments are played; the rest is
named and left out. A claim or template that no pod in the file uses gets a pod of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from berth.errors import ConfigError
from berth.rehearsal.manifestshapes import check_document

SIZE_LIMIT: Final = 1024 * 1024
"""Largest file, in bytes."""

REPLICAS: Final = 2
"""Most pods that are made of one deployment."""


@attrs.frozen(kw_only=True)
class Manifests:
    """What is played, as JSON.

    Attributes:
        notes: What is left out or made up, one sentence each.
    """

    classes: tuple[Mapping[str, Any], ...] = ()
    claims: tuple[Mapping[str, Any], ...] = ()
    templates: tuple[Mapping[str, Any], ...] = ()
    pods: tuple[Mapping[str, Any], ...] = ()
    notes: tuple[str, ...] = ()


def read_manifests(path: Path) -> Manifests:
    """Read a file of YAML documents and sort out what is in it. Blocks on the disk.

    Raises:
        ConfigError: It cannot be read, is no YAML, has no claim in it, or a field of another type.
    """
    documents = read_documents(path)
    notes = [
        note
        for number, document in enumerate(documents, start=1)
        for note in check_document(document, f"{path}: document {number}")
    ]
    manifests = sort_out(documents, where=str(path))
    return attrs.evolve(manifests, notes=(*notes, *manifests.notes))


def read_documents(path: Path) -> list[Any]:
    """The objects of a YAML file, lists unpacked, empty ones left out. Blocks on the disk.

    Raises:
        ConfigError: It cannot be read, or is no YAML.
    """
    return documents_of(read_whole(path, rule="manifests are smaller"), str(path))


def read_whole(path: Path, *, rule: str) -> bytes:
    """A file of an operator's, of which no kind is large. Blocks on the disk.

    Args:
        rule: Why it is refused when it is larger than 1 MiB.

    Raises:
        ConfigError: It cannot be read, or is larger.
    """
    try:
        with path.open("rb") as file:
            content = file.read(SIZE_LIMIT + 1)
    except OSError as error:
        raise ConfigError(str(path), f"cannot be read: {error.strerror}") from error
    if len(content) > SIZE_LIMIT:
        raise ConfigError(str(path), "is larger than 1 MiB", rule=rule)
    return content


def sort_out(documents: Iterable[Mapping[str, Any]], *, where: str) -> Manifests:
    """Sort objects by what is done with them.

    Raises:
        ConfigError: An object has no kind or name, or there is no claim among them.
    """
    found: dict[str, list[Mapping[str, Any]]] = {}
    for number, document in enumerate(documents, start=1):
        _require(document, f"{where}: document {number}")
        found.setdefault(document["kind"], []).append(document)
    claims, templates = found.pop("ResourceClaim", []), found.pop("ResourceClaimTemplate", [])
    if not (claims or templates):
        raise ConfigError(
            where,
            "has no ResourceClaim and no ResourceClaimTemplate",
            rule="at least one must be in it",
        )
    pods = found.pop("Pod", [])
    notes: list[str] = []
    for deployment in found.pop("Deployment", []):
        pods += _pods_of(deployment, notes)
    classes = found.pop("DeviceClass", [])
    notes += [f"{kind} is not played" for kind in sorted(found)]
    pods += _pods_for(claims, templates, pods, notes)
    return Manifests(
        classes=tuple(classes),
        claims=tuple(claims),
        templates=tuple(templates),
        pods=tuple(pods),
        notes=tuple(notes),
    )


def pod_using(name: str, entry: Mapping[str, Any], *, namespace: str = "default") -> dict[str, Any]:
    """A pod of one container that uses one claim or template."""
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "resourceClaims": [{"name": "nic", **entry}],
            "containers": [{"name": "main", "resources": {"claims": [{"name": "nic"}]}}],
        },
    }


def documents_of(text: bytes, where: str) -> list[Any]:
    """The objects of a YAML text, lists unpacked, empty ones left out.

    Raises:
        ConfigError: It is no YAML.
    """
    # PyYAML is imported late: only what an operator wrote himself needs it here.
    import yaml

    try:
        documents = list(yaml.safe_load_all(text))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(where, f"is no YAML: {' '.join(str(error).split())}") from error
    return [item for document in documents for item in _items(document) if item is not None]


def _items(document: Any) -> list[Any]:
    """What a document holds: itself, or what is in a list as ``kubectl get -o yaml`` writes it."""
    if isinstance(document, Mapping) and document.get("kind") == "List":
        items = document.get("items")
        return items if isinstance(items, list) else []
    return [document]


def _require(document: Any, where: str) -> None:
    if not isinstance(document, Mapping) or not isinstance(document.get("kind"), str):
        raise ConfigError(where, "is no object of Kubernetes", rule="it must have a kind")
    metadata = document.get("metadata")
    if not isinstance(metadata, Mapping) or not isinstance(metadata.get("name"), str):
        raise ConfigError(f"{where} ({document['kind']})", "has no metadata.name")
    wants = {
        "ResourceClaim": ("spec", "devices", "requests"),
        "ResourceClaimTemplate": ("spec", "spec", "devices", "requests"),
        "Pod": ("spec", "containers"),
        "Deployment": ("spec", "template", "spec", "containers"),
        "DeviceClass": ("spec",),
    }
    value: Any = document
    for step in wants.get(document["kind"], ()):
        value = value.get(step) if isinstance(value, Mapping) else None
        if not value:
            path = ".".join(wants[document["kind"]])
            named = f"{document['kind']} {metadata['name']}"
            raise ConfigError(f"{where} ({named})", f"has no {path}")


def _pods_of(deployment: Mapping[str, Any], notes: list[str]) -> Iterator[Mapping[str, Any]]:
    metadata, spec = deployment["metadata"], deployment["spec"]
    wanted = spec.get("replicas", 1)
    if wanted > REPLICAS:
        notes.append(f"Deployment {metadata['name']}: {REPLICAS} of {wanted} pods are played")
    for number in range(min(wanted, REPLICAS)):
        yield {
            "kind": "Pod",
            "metadata": {
                "name": f"{metadata['name']}-{number}",
                "namespace": metadata.get("namespace", "default"),
            },
            "spec": spec["template"]["spec"],
        }


def _pods_for(
    claims: Iterable[Mapping[str, Any]],
    templates: Iterable[Mapping[str, Any]],
    pods: Iterable[Mapping[str, Any]],
    notes: list[str],
) -> Iterator[Mapping[str, Any]]:
    """A pod for each claim and template that none of the pods uses."""
    keys = {"resourceClaimName": claims, "resourceClaimTemplateName": templates}
    for key, objects in keys.items():
        used = {
            (pod["metadata"].get("namespace", "default"), entry.get(key))
            for pod in pods
            for entry in pod["spec"].get("resourceClaims") or ()
        }
        for item in objects:
            name = item["metadata"]["name"]
            namespace = item["metadata"].get("namespace", "default")
            if (namespace, name) not in used:
                notes.append(f"no pod in the file uses {name}: one is made up")
                yield pod_using(f"pod-of-{name}"[:63], {key: name}, namespace=namespace)
