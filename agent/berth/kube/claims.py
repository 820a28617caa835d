"""ResourceClaims as the API server tells them, reduced to what our driver has to do.

Read leniently: newer servers send fields that we do not know, and entries of other drivers are none
of our business. The opaque parameters stay as they were read (`berth.model.jsontext`), for the
strict decoder of the kind that they hold.

Source: ``k8s.io/api/resource/v1/types.go`` of 1.37.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from berth.errors import ClaimError, RemoteProtocolError
from berth.kube import fields
from berth.model.claim import (
    Claim,
    ClaimRef,
    ConfigSource,
    Consumer,
    DeviceResult,
    OpaqueConfig,
)
from berth.model.names import is_dns_label

POD_CLAIM_NAME: Final = "resource.kubernetes.io/pod-claim-name"
"""Annotation of a claim made from a template: the name that the pod has for it."""


def claim_from_json(value: Any, *, driver: str) -> Claim:
    """Read a ResourceClaim with an allocation, reduced to ``driver``.

    Args:
        value: The object as `berth.model.jsontext.loads` reads it.
        driver: Our driver; results and configuration of others are left out.

    Raises:
        ClaimError: The claim has no allocation.
        RemoteProtocolError: ``value`` is no ResourceClaim.
    """
    ref = claim_ref_from_json(value)
    status = fields.mapping(value, "status")
    allocation = fields.mapping(status, "allocation")
    if not allocation:
        raise ClaimError(
            f"claim {ref}",
            "it has no allocation",
            rule="the scheduler allocates a claim before its pod is bound",
            mend="kubelet tries again by itself",
        )
    devices = fields.mapping(allocation, "devices")
    return Claim(
        ref=ref,
        results=tuple(_results(devices, driver)),
        configs=tuple(_configs(devices, driver)),
        consumers=tuple(
            consumer_from_json(item) for item in fields.mappings(status, "reservedFor")
        ),
        pod_claim_name=_pod_claim_name(value),
        nodes=_nodes(fields.mapping(allocation, "nodeSelector")),
        awaited=frozenset(_awaited(devices, driver)),
    )


def claim_ref_from_json(value: Any) -> ClaimRef:
    """Which claim ``value`` is.

    Raises:
        RemoteProtocolError: ``value`` is no object of Kubernetes.
    """
    metadata = fields.mapping(value, "metadata")
    return ClaimRef(
        namespace=fields.text(metadata, "namespace"),
        name=fields.text(metadata, "name"),
        uid=fields.text(metadata, "uid"),
    )


def _results(devices: Mapping[str, Any], driver: str) -> Iterator[DeviceResult]:
    for result in fields.mappings(devices, "results"):
        if fields.text(result, "driver") == driver:
            yield DeviceResult(
                request=_request(result),
                pool=fields.text(result, "pool"),
                device=fields.text(result, "device"),
                share_id=fields.text(result, "shareID") or None,
                consumed=_consumed(result),
                tolerations=tolerations(result),
                admin_access=result.get("adminAccess") is True,
            )


def _awaited(devices: Mapping[str, Any], driver: str) -> Iterator[str]:
    for result in fields.mappings(devices, "results"):
        if fields.text(result, "driver") == driver and fields.texts(result, "bindingConditions"):
            yield fields.text(result, "device")


def _request(result: Mapping[str, Any]) -> str:
    """A request's name, which names a folder later."""
    text = fields.text(result, "request")
    if not all(is_dns_label(part) for part in text.split("/")):
        raise RemoteProtocolError("request", f"found {text[:64]!r}", rule="must be DNS labels")
    return text


def _consumed(result: Mapping[str, Any]) -> Mapping[str, str]:
    consumed = fields.mapping(result, "consumedCapacity")
    return {name: fields.text(consumed, name) for name in consumed}


def tolerations(result: Mapping[str, Any]) -> tuple[str, ...]:
    """Keys alone: a value or an effect that narrows a toleration is the scheduler's business.

    Refusing at prepare what the scheduler has let through would hold the pod for ever.
    """
    return tuple(fields.text(item, "key") for item in fields.mappings(result, "tolerations"))


def _configs(devices: Mapping[str, Any], driver: str) -> Iterator[OpaqueConfig]:
    for index, entry in enumerate(fields.mappings(devices, "config")):
        opaque = fields.mapping(entry, "opaque")
        if fields.text(opaque, "driver") == driver:
            yield OpaqueConfig(
                index=index,
                source=_source(fields.text(entry, "source")),
                requests=fields.texts(entry, "requests"),
                parameters=opaque.get("parameters"),
            )


def _source(text: str) -> ConfigSource:
    """A source that we do not know has the rights of a tenant, which are the fewer."""
    return ConfigSource.CLASS if text == ConfigSource.CLASS.value else ConfigSource.CLAIM


def consumer_from_json(item: Mapping[str, Any]) -> Consumer:
    """One entry of ``status.reservedFor``.

    Raises:
        RemoteProtocolError: ``item`` is none.
    """
    return Consumer(
        resource=fields.text(item, "resource"),
        name=fields.text(item, "name"),
        uid=fields.text(item, "uid"),
    )


def _pod_claim_name(value: Any) -> str | None:
    """The annotation, if it can be a pod's name for a claim: tenants write others as they like.

    The name is a part of the path at which containers find the metadata.
    """
    annotations = fields.mapping(fields.mapping(value, "metadata"), "annotations")
    name = fields.text(annotations, POD_CLAIM_NAME)
    return name if is_dns_label(name) else None


def _nodes(selector: Mapping[str, Any]) -> tuple[str, ...]:
    """Names that the selector's terms, which are alternatives, bind the allocation to."""
    names: list[str] = []
    for term in fields.mappings(selector, "nodeSelectorTerms"):
        named = [
            name
            for match in fields.mappings(term, "matchFields")
            if fields.text(match, "key") == "metadata.name" and match.get("operator") == "In"
            for name in fields.texts(match, "values")
        ]
        if not named:
            return ()
        names += named
    return tuple(dict.fromkeys(names))
