"""What fields a manifest's objects have, as far as anything is done with them.

The types are checked as the API server does, so that what works on them finds what it expects; what
it would not know of a claim is told.

Source: ``k8s.io/api/resource/v1/types.go`` and ``core/v1/types.go`` of 1.37.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from berth.errors import ConfigError, KubeError
from berth.rehearsal.apiserver.schema import (
    CLAIM_STATUS,
    Fields,
    Leaf,
    ListOf,
    MapOf,
    Shape,
    conform,
)

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
        ),
        "containers": ListOf(
            Fields(
                {
                    "name": _TEXT,
                    "resources": Fields(
                        {"claims": ListOf(Fields({"name": _TEXT, "request": _TEXT}))}
                    ),
                }
            )
        ),
        "hostNetwork": _FLAG,
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


def check_document(document: Any, where: str) -> Iterator[str]:
    """Check one document as far as anything is done with it; gives a note per unknown field.

    Raises:
        ConfigError: A field is of another type than the server takes, or one is missing.
    """
    kind = str(document.get("kind")) if isinstance(document, Mapping) else ""
    shape = _SHAPES.get(kind)
    if shape is None:
        return
    _require_version(document, f"{where} ({kind})")
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


def _require_version(document: Mapping[str, Any], where: str) -> None:
    """Refuse forms of before ``v1beta2``, whose fields lie elsewhere; that one is as v1 is."""
    version = document.get("apiVersion")
    if version in {"resource.k8s.io/v1beta1", "resource.k8s.io/v1alpha3"}:
        raise ConfigError(
            where,
            f"has apiVersion {version}",
            rule="it must be resource.k8s.io/v1",
            mend="a request has its fields below `exactly` there",
        )


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
