"""The device manager's calls to one plugin, and what kubelet says when they go wrong.

Source: KC §1.6, §2.2.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Final

import attrs
import trio

from berth.errors import RemoteProtocolError
from berth.pb import deviceplugin_v1beta1_pb2 as pb
from berth.runtime.grpcbridge import GrpcChannel
from berth.runtime.methods import RpcError

SERVICE: Final = "/v1beta1.DevicePlugin"

_NAME: Final = re.compile(
    r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?/[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?"
)


@attrs.define(eq=False)
class PluginCaller:
    """One registered plugin.

    Attributes:
        endpoint: Path of its socket.
        options: What it says of itself; those of its registration are not read.
        listening: Ends the following of its list.
        forgotten: Whether a second registration of its path failed, so that its end goes unseen.
    """

    resource: str
    endpoint: str
    channel: GrpcChannel
    options: pb.DevicePluginOptions
    listening: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    forgotten: bool = False

    async def prefer(
        self, available: Collection[str], must: Collection[str], size: int
    ) -> tuple[str, ...]:
        """Ask which ids are best; those that are not available are cut off.

        Raises:
            RemoteProtocolError: The plugin refused.
        """
        entry = pb.ContainerPreferredAllocationRequest(
            available_deviceIDs=available, must_include_deviceIDs=must, allocation_size=size
        )
        request = pb.PreferredAllocationRequest(container_requests=[entry])
        try:
            answer = await self.channel.unary(
                f"{SERVICE}/GetPreferredAllocation", request, pb.PreferredAllocationResponse
            )
        except RpcError as error:
            raise _unexpected(error) from error
        chosen = answer.container_responses[0].deviceIDs if answer.container_responses else ()
        return tuple(name for name in chosen if name in available)

    async def allocate(self, ids: Sequence[str]) -> bytes:
        """Allocate, without a deadline; gives the answer for the container, serialized.

        Raises:
            RemoteProtocolError: The plugin refused, or has no answer.
        """
        entry = pb.ContainerAllocateRequest(devices_ids=ids)
        request = pb.AllocateRequest(container_requests=[entry])
        try:
            answer = await self.channel.unary(f"{SERVICE}/Allocate", request, pb.AllocateResponse)
        except RpcError as error:
            raise _unexpected(error) from error
        if not answer.container_responses:
            raise RemoteProtocolError(
                "UnexpectedAdmissionError", "no containers return in allocation response"
            )
        return answer.container_responses[0].SerializeToString()


def _unexpected(error: RpcError) -> RemoteProtocolError:
    return RemoteProtocolError(
        "UnexpectedAdmissionError",
        f"Allocate failed due to rpc error: code = {error.code.name} desc = {error.found},"
        " which is unexpected",
    )


def judge(request: pb.RegisterRequest) -> str:
    """Say why a registration is refused; empty when it is not."""
    if request.version != "v1beta1":
        return f"requested API version {request.version!r} is not supported by kubelet: v1beta1"
    domain = request.resource_name.partition("/")[0]
    named = _NAME.fullmatch(request.resource_name)
    if not named or domain == "kubernetes.io" or domain.endswith(".kubernetes.io"):
        return f"the ResourceName {request.resource_name!r} is invalid"
    return ""
