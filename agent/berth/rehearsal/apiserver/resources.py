"""Which resources are served, and how a URL names one of them.

Source: Kubernetes documentation, "Kubernetes API Concepts"; the ``toSelectableFields`` of each
resource in ``pkg/registry`` of 1.37.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from berth.rehearsal.apiserver.problems import refuse


@attrs.frozen(kw_only=True)
class Resource:
    """One resource.

    Attributes:
        group: API group; empty for core.
        plural: Its name in URLs.
        selectable: Fields that a field selector may name, beside name and namespace.
        status: It has a ``status`` subresource of its own.
        counts: A change of ``spec`` raises ``metadata.generation``.
    """

    group: str
    plural: str
    kind: str
    namespaced: bool = False
    selectable: tuple[str, ...] = ()
    status: bool = False
    counts: bool = False

    @property
    def api_version(self) -> str:
        """``apiVersion`` of its objects."""
        return f"{self.group}/v1" if self.group else "v1"

    @property
    def qualified(self) -> str:
        """Its name in messages."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


_GROUP: Final = "resource.k8s.io"
SLICES: Final = Resource(
    group=_GROUP,
    plural="resourceslices",
    kind="ResourceSlice",
    selectable=("spec.nodeName", "spec.driver", "spec.pool.name"),
    counts=True,
)
CLAIMS: Final = Resource(
    group=_GROUP, plural="resourceclaims", kind="ResourceClaim", namespaced=True, status=True
)
CLASSES: Final = Resource(group=_GROUP, plural="deviceclasses", kind="DeviceClass", counts=True)
TAINT_RULES: Final = Resource(
    group=_GROUP, plural="devicetaintrules", kind="DeviceTaintRule", status=True, counts=True
)
NODES: Final = Resource(group="", plural="nodes", kind="Node", status=True)
PODS: Final = Resource(
    group="",
    plural="pods",
    kind="Pod",
    namespaced=True,
    selectable=("spec.nodeName", "status.phase"),
    status=True,
    counts=True,
)
EVENTS: Final = Resource(group="", plural="events", kind="Event", namespaced=True)

RESOURCES: Final = {
    (item.group, item.plural): item
    for item in (SLICES, CLAIMS, CLASSES, TAINT_RULES, NODES, PODS, EVENTS)
}
"""Everything that is served, by group and plural."""

_VERBS: Final = {
    "GET": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}


@attrs.frozen(kw_only=True)
class Call:
    """One request for a resource.

    Attributes:
        verb: As the authorizer knows it: ``get``, ``list``, ``watch``, ``create``, ``update``,
            ``patch``, ``delete``, ``deletecollection``.
        subresource: ``status`` or empty.
        body: JSON of the request; ``None`` for none.
        content_type: Of the body, without parameters.
    """

    verb: str
    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    params: Mapping[str, str] = attrs.field(factory=dict)
    body: Any = None
    content_type: str = "application/json"

    @property
    def selector(self) -> dict[str, str]:
        """The terms of the field selector, which all ask for equality.

        Raises:
            KubeError: 400, when it cannot be read or names a field that cannot be selected.
        """
        return _selector(self.params.get("fieldSelector", ""), self.resource)


def read_path(method: str, path: str) -> Call:
    """The call that a path names, without parameters and body.

    Raises:
        KubeError: 404 for a path that is not served, 405 for a method that does not fit.
    """
    parts = path.strip("/").split("/")
    if parts[:2] == ["api", "v1"]:
        group, rest = "", parts[2:]
    elif parts[0] == "apis" and len(parts) > 3 and parts[2] == "v1":
        group, rest = parts[1], parts[3:]
    else:
        raise refuse(404, "the server could not find the requested resource")
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces":
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource, *more = [*rest, "", "", ""][: max(len(rest), 3)]
    resource = RESOURCES.get((group, plural))
    if resource is None or more or not _fits(resource, namespace, name, subresource):
        raise refuse(404, "the server could not find the requested resource")
    return Call(
        verb=_verb(method, name),
        resource=resource,
        namespace=namespace,
        name=name,
        subresource=subresource,
    )


def pick(value: Mapping[str, Any], path: str) -> str:
    """The string at a dotted path of an object, empty when it is not there."""
    found: Any = value
    for step in path.split("."):
        found = found.get(step) if isinstance(found, Mapping) else None
    return found if isinstance(found, str) else ""


def matches(value: Mapping[str, Any], selector: Mapping[str, str]) -> bool:
    """Whether an object has what ``selector`` asks for."""
    return all(pick(value, path) == wanted for path, wanted in selector.items())


def _fits(resource: Resource, namespace: str, name: str, subresource: str) -> bool:
    if subresource and not (resource.status and subresource == "status"):
        return False
    # All namespaces may be listed together, a single object is always in one.
    return bool(namespace) == resource.namespaced or (resource.namespaced and not name)


def _verb(method: str, name: str) -> str:
    verb = _VERBS.get(method)
    if verb in {"get", "delete"} and not name:
        return {"get": "list", "delete": "deletecollection"}[verb]
    if verb is None or (verb == "create") == bool(name):
        raise refuse(405, "the server does not allow this method on the requested resource")
    return verb


def _selector(text: str, resource: Resource) -> dict[str, str]:
    terms = {}
    for term in filter(None, text.split(",")):
        path, equals, value = term.replace("==", "=").partition("=")
        if not equals or path.endswith("!"):
            raise refuse(400, f"invalid field selector: {term}: only = is served here")
        if path not in {"metadata.name", "metadata.namespace", *resource.selectable}:
            raise refuse(400, f"field label not supported: {path}")
        terms[path] = value
    return terms
