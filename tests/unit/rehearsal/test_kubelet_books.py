"""What the stand-in's device manager writes down, counts and takes."""

from __future__ import annotations

import pytest

from berth.model.resource import ContainerRef
from berth.pb import deviceplugin_v1beta1_pb2 as pb
from berth.rehearsal.kubelet.books import (
    Allotment,
    ResourceState,
    read_checkpoint,
    write_checkpoint,
)
from berth.rehearsal.kubelet.devicecalls import judge


def test_checkpoint_is_read_as_it_was_written() -> None:
    """The answers of plugins outlive a life of kubelet, byte for byte."""

    answer = pb.ContainerAllocateResponse(envs={"A": "1"})
    allotment = Allotment(
        container=ContainerRef(namespace="ns", pod="pod", container="main"),
        resource="example.com/gpu",
        ids=("b", "a"),
        answer=answer.SerializeToString(),
    )

    (read,) = read_checkpoint(write_checkpoint([allotment]))

    assert read == allotment
    assert read.read_answer() == answer


def test_resource_counts_as_kubelet_counts() -> None:
    """Capacity outlives the plugin by five minutes, what may be given does not."""

    listed = ResourceState(devices={"a": True, "b": False})
    ended = ResourceState(devices={"a": True, "b": False}, ended_at=100.0)

    assert (listed.capacity(1e9), listed.healthy) == (2, ("a",))
    assert (ended.capacity(399.0), ended.healthy) == (2, ())
    assert ended.capacity(400.0) == 0


@pytest.mark.parametrize(
    ("version", "name", "fault"),
    [
        ("v1beta1", "nvidia.com/mig-1g.10gb", ""),
        ("v1beta1", "berth.dev/Modem_1", ""),
        ("v1alpha1", "berth.dev/modem", "version 'v1alpha1' is not supported"),
        ("v1beta1", "modem", "'modem' is invalid"),
        ("v1beta1", "berth.dev/", "'berth.dev/' is invalid"),
        ("v1beta1", "kubernetes.io/gpu", "is invalid"),
        ("v1beta1", "x.kubernetes.io/gpu", "is invalid"),
    ],
)
def test_judge_takes_what_kubelet_takes(version: str, name: str, fault: str) -> None:
    """One version and extended resources outside Kubernetes' own domain, nothing else."""

    request = pb.RegisterRequest(version=version, resource_name=name, endpoint="x.sock")

    found = judge(request)

    assert fault in found
    assert bool(fault) is bool(found)
