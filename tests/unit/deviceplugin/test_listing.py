"""PodResources answers as values, and kubelet's books against ours."""

from __future__ import annotations

import pytest

from berth.deviceplugin.listing import compare_ids, read_allocatable, read_pods
from berth.model.resource import ClaimUsage, ContainerRef, PodUsages, Resource, Unit, Usage
from berth.pb import podresources_v1_pb2 as pb

GPU = "example.com/gpu"
MAIN = ContainerRef(namespace="ns", pod="pod", container="main")


def devices(resource: str, *ids: str) -> pb.ContainerDevices:
    """Give one entry of kubelet's."""
    return pb.ContainerDevices(resource_name=resource, device_ids=ids)


def test_read_pods_puts_the_entries_of_a_resource_together() -> None:
    """Kubelet has an entry for each NUMA node; a container has its ids once, in order."""

    main = pb.ContainerResources(
        name="main",
        devices=[devices(GPU, "a", "b"), devices("other/x", "a"), devices(GPU, "c", "a")],
    )
    side = pb.ContainerResources(name="side", devices=[devices(GPU)])
    pods = [pb.PodResources(namespace="ns", name="pod", containers=[main, side])]

    assert read_pods(pods).usages == (
        Usage(container=MAIN, resource=GPU, ids=("a", "b", "c")),
        Usage(container=MAIN, resource="other/x", ids=("a",)),
        Usage(
            container=ContainerRef(namespace="ns", pod="pod", container="side"),
            resource=GPU,
            ids=(),
        ),
    )


def test_read_pods_tells_the_devices_of_claims() -> None:
    """Each device of a claim is told with its claim and its share; a claim without any is not."""

    claim = pb.DynamicResource(
        claim_name="claim",
        claim_namespace="ns",
        claim_resources=[
            pb.ClaimResource(driver_name="d", pool_name="p", device_name="gpu-1", share_id="s"),
            pb.ClaimResource(driver_name="d", pool_name="p", device_name="gpu-2"),
        ],
    )
    hanging = pb.DynamicResource(claim_name="hanging", claim_namespace="ns")
    main = pb.ContainerResources(name="main", dynamic_resources=[claim, hanging])
    pods = [pb.PodResources(namespace="ns", name="pod", containers=[main])]

    def usage(device: str, share_id: str) -> ClaimUsage:
        return ClaimUsage(
            container=MAIN,
            namespace="ns",
            name="claim",
            driver="d",
            pool="p",
            device=device,
            share_id=share_id,
        )

    assert read_pods(pods).claims == (usage("gpu-1", "s"), usage("gpu-2", ""))
    assert read_pods([]) == PodUsages()


def test_read_allocatable_gives_ids_by_resource() -> None:
    """Entries of one resource are put together here too."""

    answer = pb.AllocatableResourcesResponse(
        devices=[devices(GPU, "a"), devices("other/x"), devices(GPU, "b", "a")]
    )

    assert read_allocatable(answer) == {GPU: ("a", "b"), "other/x": ()}


@pytest.mark.parametrize(
    ("listed", "text"),
    [
        (["a"], ""),
        (["a", "b"], ""),
        (["b"], ""),
        ([], "kubelet lists none of the 1 healthy ids of example.com/gpu"),
        (
            ["z", "a", "y"],
            "another plugin has registered example.com/gpu: kubelet lists 2 ids that are not ours",
        ),
    ],
)
def test_compare_ids_tells_what_no_list_of_ours_can_have_led_to(
    listed: list[str], text: str
) -> None:
    """Other ids are another plugin's, none at all are a lost list; a part may be on its way."""

    units = (Unit(id="a", device="a"), Unit(id="b", device="b", healthy=False))

    found = compare_ids(listed, Resource(name=GPU, units=units))

    assert found.removesuffix(", such as y") == text


def test_compare_ids_of_a_resource_without_healthy_units_is_content() -> None:
    """Nothing healthy is listed where nothing is healthy."""

    assert compare_ids([], Resource(name=GPU, units=())) == ""
    ill = (Unit(id="a", device="a", healthy=False),)
    assert compare_ids([], Resource(name=GPU, units=ill)) == ""
