"""Resources from and to kubelet's device plugin messages; whatever kubelet sends is checked here.

Source: KC §1.6, §2; ``k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1/{api.proto,constants.go}``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

import attrs

from berth.deviceplugin.preference import Wish
from berth.errors import BerthError, ClaimError, RemoteProtocolError
from berth.model.edits import Edits
from berth.model.resource import Grant, Resource, Unit
from berth.pb import deviceplugin_v1beta1_pb2 as pb

VERSION: Final = "v1beta1"
"""The only version of the interface."""

SERVICE: Final = "v1beta1.DevicePlugin"
REGISTER: Final = "/v1beta1.Registration/Register"

ID_LIMIT: Final = 63
"""Longest id of a unit, in bytes; the interface's own limit, which kubelet does not enforce."""

LIST_LIMIT: Final = 3 * 1024 * 1024
"""Largest list that is sent, in bytes: kubelet's client takes 4 MiB, gRPC's default."""

IDS_LIMIT: Final = 16_384
"""Most ids of one request that are read."""

_EntryT = TypeVar("_EntryT")

HEALTHY: Final = "Healthy"
UNHEALTHY: Final = "Unhealthy"

_ENTRY_HEAD: Final = 5
"""What a unit's entry costs in the list besides itself, at most, in bytes."""


@attrs.frozen(kw_only=True)
class Listing:
    """What is told to kubelet of a resource.

    Attributes:
        answer: The whole list.
        faults: Units that are not in it, and why.
    """

    answer: pb.ListAndWatchResponse
    faults: tuple[str, ...]


def options() -> pb.DevicePluginOptions:
    """What of the interface is used; the same at registration and when kubelet asks."""
    return pb.DevicePluginOptions(pre_start_required=False, get_preferred_allocation_available=True)


def register_request(*, endpoint: str, resource: str) -> pb.RegisterRequest:
    """The request by which kubelet learns of a resource.

    Args:
        endpoint: Base name of our socket, in the folder where kubelet's own is.
        resource: Name of the resource.
    """
    return pb.RegisterRequest(
        version=VERSION, endpoint=endpoint, resource_name=resource, options=options()
    )


def list_resource(resource: Resource) -> Listing:
    """The list of a resource: each good unit in its order, as far as the list may grow."""
    devices: list[pb.Device] = []
    faults: list[str] = []
    size_bytes = 0
    seen: set[str] = set()
    for unit in resource.units:
        device = _device(unit)
        fault = _unit_fault(unit, seen)
        cost_bytes = device.ByteSize() + _ENTRY_HEAD
        if not fault and size_bytes + cost_bytes > LIST_LIMIT:
            fault = f"the list would have more than {LIST_LIMIT} bytes, which kubelet may refuse"
        if fault:
            faults.append(f"{unit.device}: {fault}")
            continue
        seen.add(unit.id)
        size_bytes += cost_bytes
        devices.append(device)
    return Listing(answer=pb.ListAndWatchResponse(devices=devices), faults=tuple(faults))


def _device(unit: Unit) -> pb.Device:
    device = pb.Device(ID=unit.id, health=HEALTHY if unit.healthy else UNHEALTHY)
    if unit.numa:
        device.topology.nodes.extend(pb.NUMANode(ID=node) for node in unit.numa)
    return device


def _unit_fault(unit: Unit, seen: set[str]) -> str:
    length = len(unit.id.encode())
    if not 0 < length <= ID_LIMIT:
        return f"its id {unit.id[:80]!r} has {length} bytes: 1 to {ID_LIMIT} are allowed"
    if unit.id in seen:
        return f"its id {unit.id!r} is another unit's already"
    return ""


def read_wish(request: pb.PreferredAllocationRequest, resource: str) -> Wish:
    """Read what a container would like to have.

    Raises:
        RemoteProtocolError: The request is none that kubelet makes.
    """
    entry = _only(list(request.container_requests), "GetPreferredAllocation", resource)
    wish = Wish(
        available=tuple(entry.available_deviceIDs),
        must=tuple(entry.must_include_deviceIDs),
        size=entry.allocation_size,
    )
    for ids in (wish.available, wish.must):
        _check_ids(ids, "GetPreferredAllocation", resource)
    return wish


def wish_answer(ids: Iterable[str]) -> pb.PreferredAllocationResponse:
    """The answer to a wish."""
    entry = pb.ContainerPreferredAllocationResponse(deviceIDs=ids)
    return pb.PreferredAllocationResponse(container_responses=[entry])


def read_ids(request: pb.AllocateRequest, resource: Resource) -> tuple[str, ...]:
    """Read which units a container is to get.

    Raises:
        RemoteProtocolError: The request is none that kubelet makes.
        ClaimError: These units cannot be given, or not together.
    """
    entry = _only(list(request.container_requests), "Allocate", resource.name)
    ids = tuple(entry.devices_ids)
    _check_ids(ids, "Allocate", resource.name)
    if not ids:
        raise _odd("Allocate", resource.name, "the container asks for no id", "1 id or more")
    _check_together(ids, resource)
    return ids


def _check_together(ids: Sequence[str], resource: Resource) -> None:
    devices = {unit.id: unit.device for unit in resource.units}
    unknown = [name for name in ids if name not in devices]
    if unknown:
        raise ClaimError(
            resource.name,
            f"{_some(unknown)} is not, or no more, among its {len(devices)} ids",
            mend="delete the pod, so that kubelet chooses anew from the list of now",
        )
    twice = [name for name, count in Counter(devices[id_] for id_ in ids).items() if count > 1]
    if twice and not resource.many:
        raise ClaimError(
            resource.name,
            f"several shares of {_some(twice)} for one container",
            rule="a container gets one share of a device, more give it no more speed",
            mend="ask for fewer, or set share.many = true in the group",
        )


def grant_answer(grant: Grant) -> pb.AllocateResponse:
    """The answer to Allocate: CDI names, and what the container gets without them."""
    entry = pb.ContainerAllocateResponse()
    entry.cdi_devices.extend(pb.CDIDevice(name=name) for name in grant.cdi_ids)
    _add_edits(entry, grant.edits)
    return pb.AllocateResponse(container_responses=[entry])


def _add_edits(entry: pb.ContainerAllocateResponse, edits: Edits) -> None:
    for variable in edits.env:
        name, _, value = variable.partition("=")
        entry.envs[name] = value
    for node in edits.nodes:
        # Kubelet keeps the answer over reboots, and the runtime looks for the node each time.
        entry.devices.add(
            container_path=node.path,
            host_path=node.link or node.host_path,
            permissions=node.permissions,
        )
    for mount in edits.mounts:
        entry.mounts.add(
            container_path=mount.container_path,
            host_path=mount.host_path,
            read_only="ro" in mount.options,
        )


def _only(entries: Sequence[_EntryT], call: str, resource: str) -> _EntryT:
    if len(entries) != 1:
        found = f"the request is about {len(entries)} containers"
        raise _odd(call, resource, found, "kubelet asks for one container at a time")
    return entries[0]


def _check_ids(ids: Sequence[str], call: str, resource: str) -> None:
    if len(ids) > IDS_LIMIT:
        raise _odd(call, resource, f"the request has {len(ids)} ids", f"{IDS_LIMIT} are read")
    if not all(ids):
        raise _odd(call, resource, "the request has an empty id", "each id names a unit")
    twice = [name for name, count in Counter(ids).items() if count > 1]
    if twice:
        raise _odd(call, resource, f"the request names {_some(twice)} twice", "each id once")


def _odd(call: str, resource: str, found: str, rule: str) -> BerthError:
    return RemoteProtocolError(f"{call} of {resource}", found, rule=rule)


def _some(names: Sequence[str]) -> str:
    """A few of the names: an error text is shown in an event of the pod."""
    shown = ", ".join(name[:80] for name in names[:4])
    return f"{shown} and {len(names) - 4} more" if len(names) > 4 else shown
