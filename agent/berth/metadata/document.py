"""Device metadata as containers read it: one file per claim and request, a JSON stream.

The file is a sequence of objects with the same content in each of the configured versions, newest
first; a reader takes the first whose version it knows.

Source: KEP-5304 as released with Kubernetes 1.37 (``dynamic-resource-allocation/api/metadata``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from berth.kube.slices import attribute_json
from berth.model.claim import ClaimRef, NetworkData
from berth.model.device import Attribute

VERSIONS: Final = ("v1beta1", "v1alpha1")
"""Versions written, in this order: 1.37's first, 1.36's behind it."""

_GROUP: Final = "metadata.resource.k8s.io"
_CONTAINER_ROOT: Final = "/var/run/kubernetes.io/dra-device-attributes"


@attrs.frozen(kw_only=True)
class DeviceEntry:
    """One device of a request.

    Attributes:
        request: Full reference, with the subrequest of a prioritized list.
        network: Set once the device is in its pod.
    """

    request: str
    pool: str
    device: str
    attributes: Mapping[str, Attribute]
    network: NetworkData | None = None


@attrs.frozen(kw_only=True)
class RequestMetadata:
    """The content of one file: our devices of one base request of one claim.

    Attributes:
        pod_claim_name: The pod's name for a claim made from a template, else ``None``.
        generation: 1 at first, one more at each change of content.
    """

    claim: ClaimRef
    pod_claim_name: str | None
    generation: int
    devices: tuple[DeviceEntry, ...]

    @property
    def base_request(self) -> str:
        """The request that names the file."""
        return self.devices[0].request.partition("/")[0]


def container_path(metadata: RequestMetadata, driver: str) -> str:
    """Where the container finds the file; a template's claim goes by the pod's name for it."""
    if metadata.pod_claim_name:
        claim = f"resourceclaimtemplates/{metadata.pod_claim_name}"
    else:
        claim = f"resourceclaims/{metadata.claim.name}"
    return f"{_CONTAINER_ROOT}/{claim}/{metadata.base_request}/{driver}-metadata.json"


def render(metadata: RequestMetadata, *, driver: str, versions: Sequence[str] = VERSIONS) -> bytes:
    """The file's bytes; the same metadata gives the same bytes."""
    return b"".join(
        json.dumps(_document(metadata, driver, version), ensure_ascii=False).encode() + b"\n"
        for version in versions
    )


def _document(metadata: RequestMetadata, driver: str, version: str) -> dict[str, Any]:
    document: dict[str, Any] = {
        "kind": "DeviceMetadata",
        "apiVersion": f"{_GROUP}/{version}",
        "metadata": {
            "name": metadata.claim.name,
            "namespace": metadata.claim.namespace,
            "uid": metadata.claim.uid,
            "generation": metadata.generation,
        },
    }
    if metadata.pod_claim_name:
        document["podClaimName"] = metadata.pod_claim_name
    names = dict.fromkeys(entry.request for entry in metadata.devices)
    document["requests"] = [
        {
            "name": name,
            "devices": [
                _device(entry, driver) for entry in metadata.devices if entry.request == name
            ],
        }
        for name in names
    ]
    return document


def _device(entry: DeviceEntry, driver: str) -> dict[str, Any]:
    device: dict[str, Any] = {"driver": driver, "pool": entry.pool, "name": entry.device}
    if entry.attributes:
        device["attributes"] = {
            name: attribute_json(value) for name, value in sorted(entry.attributes.items())
        }
    if entry.network is not None:
        device["networkData"] = {
            "interfaceName": entry.network.interface_name,
            "ips": list(entry.network.ips),
            "hardwareAddress": entry.network.hardware_address,
        }
    return device
