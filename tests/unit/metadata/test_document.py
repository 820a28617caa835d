"""Device metadata as KEP-5304 and Kubernetes 1.37 define it."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest

from berth.metadata.document import (
    DeviceEntry,
    RequestMetadata,
    container_path,
    render,
)
from berth.model.claim import ClaimRef, NetworkData
from berth.model.device import Version

CLAIM = ClaimRef(
    namespace="desk-a",
    name="trader-0-lowlat-x7k2p",
    uid="5b0c6a52-0f0e-4a51-9a2b-6a3d3a0c9f11",
)
ENTRY = DeviceEntry(
    request="nic/vf",
    pool="rack3-node7/nic",
    device="nic-0000-41-00-4",
    attributes={
        "linkSpeedGbps": 100,
        "rdma": True,
        "resource.kubernetes.io/pciBusID": "0000:41:00.4",
        "firmware": Version("22.41.1000"),
    },
    network=NetworkData(
        interface_name="net1", ips=("10.20.0.7/24",), hardware_address="02:00:00:aa:bb:02"
    ),
)
METADATA = RequestMetadata(claim=CLAIM, pod_claim_name="lowlat", generation=2, devices=(ENTRY,))


def objects(content: bytes) -> list[Any]:
    """Reads the stream as a reader of the protocol does."""
    decoder, text, found = json.JSONDecoder(), content.decode(), []
    while text.strip():
        document, end = decoder.raw_decode(text.lstrip())
        found.append(document)
        text = text.lstrip()[end:]
    return found


def test_render_gives_one_object_per_version_with_the_same_content() -> None:
    """The newest version comes first; but for the version the objects are equal.

    Source: the example of Kubernetes 1.37's documentation of device metadata.
    """

    newest, older = objects(render(METADATA, driver="net.agent.example.org"))

    assert newest == {
        "kind": "DeviceMetadata",
        "apiVersion": "metadata.resource.k8s.io/v1beta1",
        "metadata": {
            "name": "trader-0-lowlat-x7k2p",
            "namespace": "desk-a",
            "uid": "5b0c6a52-0f0e-4a51-9a2b-6a3d3a0c9f11",
            "generation": 2,
        },
        "podClaimName": "lowlat",
        "requests": [
            {
                "name": "nic/vf",
                "devices": [
                    {
                        "driver": "net.agent.example.org",
                        "pool": "rack3-node7/nic",
                        "name": "nic-0000-41-00-4",
                        "attributes": {
                            "firmware": {"version": "22.41.1000"},
                            "linkSpeedGbps": {"int": 100},
                            "rdma": {"bool": True},
                            "resource.kubernetes.io/pciBusID": {"string": "0000:41:00.4"},
                        },
                        "networkData": {
                            "interfaceName": "net1",
                            "ips": ["10.20.0.7/24"],
                            "hardwareAddress": "02:00:00:aa:bb:02",
                        },
                    }
                ],
            }
        ],
    }
    assert older == {**newest, "apiVersion": "metadata.resource.k8s.io/v1alpha1"}


def test_render_leaves_absent_members_out() -> None:
    """What is not known yet is left out, never null."""

    bare = attrs.evolve(
        METADATA,
        pod_claim_name=None,
        devices=(attrs.evolve(ENTRY, network=None, attributes={}),),
    )

    document = objects(render(bare, driver="d.example"))[0]

    assert "podClaimName" not in document
    assert document["requests"][0]["devices"] == [
        {"driver": "d.example", "pool": "rack3-node7/nic", "name": "nic-0000-41-00-4"}
    ]


@pytest.mark.parametrize(
    ("pod_claim_name", "middle"),
    [
        ("lowlat", "resourceclaimtemplates/lowlat"),
        (None, "resourceclaims/trader-0-lowlat-x7k2p"),
        ("", "resourceclaims/trader-0-lowlat-x7k2p"),
    ],
)
def test_container_path_goes_by_how_the_claim_came_to_be(
    pod_claim_name: str | None, middle: str
) -> None:
    """A template's claim is found by the pod's name for it, another by its own; base request."""

    metadata = attrs.evolve(METADATA, pod_claim_name=pod_claim_name)

    assert container_path(metadata, "berth.dev") == (
        f"/var/run/kubernetes.io/dra-device-attributes/{middle}/nic/berth.dev-metadata.json"
    )
