"""What kubelet passes to the runtime of extended resources."""

from __future__ import annotations

import pytest

from berth.errors import RemoteProtocolError
from berth.model.edits import Edits, Mount
from berth.model.resource import ContainerRef
from berth.pb import deviceplugin_v1beta1_pb2 as pb
from berth.rehearsal.allotted import cdi_ids_for, demands_of, edits_for
from berth.rehearsal.cdiedits import node_of_host
from berth.rehearsal.kubelet import Allotment


def allotment(container: str, answer: pb.ContainerAllocateResponse) -> Allotment:
    """What a container has of a resource."""
    return Allotment(
        container=ContainerRef(namespace="default", pod="pod", container=container),
        resource="berth.dev/null",
        ids=("a",),
        answer=answer.SerializeToString(),
    )


def test_demands_are_those_of_extended_resources() -> None:
    """Limits of the node's own resources are no business of plugins."""

    spec = {
        "containers": [
            {"name": "a", "resources": {"limits": {"cpu": "1", "berth.dev/null": "2"}}},
            {"name": "b"},
        ]
    }

    assert demands_of(spec) == {"a": {"berth.dev/null": 2}, "b": {}}


def test_answer_becomes_edits_of_its_container() -> None:
    """Variables, nodes with the host's numbers, mounts, and CDI names; of no other container."""

    answer = pb.ContainerAllocateResponse(
        envs={"A": "1"},
        devices=[pb.DeviceSpec(container_path="/dev/x", host_path="/dev/null", permissions="rw")],
        mounts=[
            pb.Mount(container_path="/c", host_path="/h", read_only=True),
            pb.Mount(container_path="/d", host_path="/i"),
        ],
        cdi_devices=[pb.CDIDevice(name="berth.dev/gpu=a")],
    )
    allotments = [allotment("main", answer), allotment("other", pb.ContainerAllocateResponse())]

    assert edits_for("main", allotments) == Edits(
        env=("A=1",),
        nodes=(node_of_host("/dev/x", "/dev/null", "rw"),),
        mounts=(
            Mount(host_path="/h", container_path="/c", options=("ro",)),
            Mount(host_path="/i", container_path="/d", options=()),
        ),
    )
    assert cdi_ids_for("main", allotments) == ("berth.dev/gpu=a",)
    assert edits_for("other", allotments) == Edits()


def test_node_that_is_gone_fails_the_container() -> None:
    """The runtime looks at the host, and says what it missed."""

    gone = pb.DeviceSpec(container_path="/dev/x", host_path="/dev/berth-has-no-such")
    answer = pb.ContainerAllocateResponse(devices=[gone])

    with pytest.raises(RemoteProtocolError, match="lstat /dev/berth-has-no-such"):
        edits_for("main", [allotment("main", answer)])
