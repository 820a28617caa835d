"""Prepare and unprepare as kubelet calls them, and what it makes of the answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, Final

import trio

from berth.errors import RemoteProtocolError
from berth.model.claim import ClaimRef, PreparedDevice
from berth.pb import dra_v1_pb2, dra_v1beta1_pb2
from berth.runtime.grpcbridge import GrpcChannel
from berth.runtime.methods import RpcError

CALL_S: Final = 45.0
"""Deadline of a call, in seconds."""

TOKENS: Final[Mapping[str, ModuleType]] = {
    "v1.DRAPlugin": dra_v1_pb2,
    "v1beta1.DRAPlugin": dra_v1beta1_pb2,
}
"""Versions that kubelet knows, by what a plugin advertises."""


async def call_driver(
    channel: GrpcChannel, token: str, method: str, claims: Sequence[ClaimRef]
) -> Mapping[str, Any]:
    """Make one call for the claims of a pod, and give its entries by UID.

    Args:
        channel: To the driver.
        token: The version to speak, a key of `TOKENS`.
        method: ``NodePrepareResources`` or ``NodeUnprepareResources``.
        claims: What it is about.

    Raises:
        RemoteProtocolError: The call failed, an entry is missing, or one holds an error.
    """
    pb = TOKENS[token]
    request = getattr(pb, f"{method}Request")(
        claims=[pb.Claim(namespace=ref.namespace, name=ref.name, uid=ref.uid) for ref in claims]
    )
    with trio.move_on_after(CALL_S):
        try:
            reply = await channel.unary(
                f"/k8s.io.kubelet.pkg.apis.dra.{token}/{method}",
                request,
                getattr(pb, f"{method}Response"),
            )
        except RpcError as error:
            raise RemoteProtocolError(
                method, f"rpc error: code = {error.code.name} desc = {error.found}"
            ) from error
        return _checked(method, claims, dict(reply.claims))
    raise RemoteProtocolError(method, "rpc error: code = DEADLINE_EXCEEDED")


def devices_of(entry: Any) -> tuple[PreparedDevice, ...]:
    """Read the devices of one entry of either version."""
    return tuple(
        PreparedDevice(
            requests=tuple(device.request_names),
            pool=device.pool_name,
            device=device.device_name,
            cdi_ids=tuple(device.cdi_device_ids),
            share_id=getattr(device, "share_id", "") or None,
        )
        for device in entry.devices
    )


def _checked(
    method: str, claims: Sequence[ClaimRef], entries: Mapping[str, Any]
) -> Mapping[str, Any]:
    names = {claim.uid: claim.name for claim in claims}
    for uid, entry in entries.items():
        if uid not in names:
            raise RemoteProtocolError(method, f"returned a claim that was not asked for: {uid}")
        if entry.error:
            raise RemoteProtocolError(
                f"{method} failed for ResourceClaim {names[uid]}", entry.error
            )
    skipped = len(names) - len(entries)
    if skipped:
        raise RemoteProtocolError(method, f"skipped {skipped} ResourceClaims")
    return entries
