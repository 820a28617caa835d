"""What kubelet's PodResources says of pods, as values of ours.

Kubelet gives several entries for one resource of a container, one for each NUMA node; they are put
together. Names are not checked: nothing is done with them but to compare and to show them.

Source: KC §10.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from berth.model.resource import ClaimUsage, ContainerRef, PodUsages, Resource, Usage
from berth.pb import podresources_v1_pb2 as pb


def read_pods(pods: Iterable[pb.PodResources]) -> PodUsages:
    """What the containers of the pods have."""
    ids: dict[tuple[ContainerRef, str], dict[str, None]] = {}
    claims: dict[ClaimUsage, None] = {}
    for ref, container in _containers(pods):
        for devices in container.devices:
            entry = ids.setdefault((ref, devices.resource_name), {})
            entry.update(dict.fromkeys(devices.device_ids))
        claims.update(dict.fromkeys(claim_usages(ref, container)))
    return PodUsages(
        usages=tuple(
            Usage(container=ref, resource=resource, ids=tuple(names))
            for (ref, resource), names in ids.items()
        ),
        claims=tuple(claims),
    )


def _containers(
    pods: Iterable[pb.PodResources],
) -> Iterator[tuple[ContainerRef, pb.ContainerResources]]:
    for pod in pods:
        for container in pod.containers:
            ref = ContainerRef(namespace=pod.namespace, pod=pod.name, container=container.name)
            yield ref, container


def claim_usages(ref: ContainerRef, container: pb.ContainerResources) -> Iterator[ClaimUsage]:
    """Devices of a container's claims, one by one."""
    for claim in container.dynamic_resources:
        for device in claim.claim_resources:
            yield ClaimUsage(
                container=ref,
                namespace=claim.claim_namespace,
                name=claim.claim_name,
                driver=device.driver_name,
                pool=device.pool_name,
                device=device.device_name,
                share_id=device.share_id,
            )


def read_allocatable(answer: pb.AllocatableResourcesResponse) -> dict[str, tuple[str, ...]]:
    """Ids that kubelet can give out or has given, by the name of their resource."""
    found: dict[str, dict[str, None]] = {}
    for devices in answer.devices:
        entry = found.setdefault(devices.resource_name, {})
        entry.update(dict.fromkeys(devices.device_ids))
    return {name: tuple(ids) for name, ids in found.items()}


def compare_ids(listed: Collection[str], resource: Resource) -> str:
    """Say how the ids that kubelet takes for healthy are not a resource's; empty if they are.

    Ids that are not ours are another plugin's. None of ours although some are healthy: kubelet's
    last word of the resource was not ours. A part of them tells nothing, lists take their time.
    """
    ours = {unit.id for unit in resource.units}
    strange = sorted(set(listed) - ours)
    healthy = sum(unit.healthy for unit in resource.units)
    if strange:
        return (
            f"another plugin has registered {resource.name}: kubelet lists {len(strange)} ids that"
            f" are not ours, such as {strange[0]}"
        )
    if healthy and not listed:
        return f"kubelet lists none of the {healthy} healthy ids of {resource.name}"
    return ""
