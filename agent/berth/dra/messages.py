"""Claims and what became of them, from and to protobuf, for both versions of kubelet's service.

The two versions have the same messages; only v1 knows shares. Everything that kubelet sends is
checked here: a UID becomes a file name later, namespace and name a path of the API server.

Source: KC §3.1, §3.3; ``k8s.io/kubelet/pkg/apis/dra/{v1,v1beta1}/api.proto``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from types import MappingProxyType, ModuleType
from typing import Final, Protocol, TypeAlias

import attrs
from google.protobuf.message import Message

from berth.errors import RemoteProtocolError
from berth.model.claim import ClaimRef, PreparedClaim, PreparedDevice
from berth.model.names import excerpt
from berth.pb import dra_v1_pb2, dra_v1beta1_pb2

CLAIMS_LIMIT: Final = 256
"""Claims of one request, which are those of one pod; a request of more is refused as a whole."""

NAME_LIMIT: Final = 253
"""Longest namespace or name, in characters."""

_UID: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,126}[A-Za-z0-9])?")

_LABEL: Final = "[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
_NAME: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")


class _Claim(Protocol):
    """A claim of either version."""

    namespace: str
    uid: str
    name: str


@attrs.frozen(kw_only=True)
class Requested:
    """What a request asks for, checked; each of its UIDs is in one of the two.

    Attributes:
        claims: What is to be worked on, each UID once, in the order of the request.
        settled: UIDs that are not, with the answer.
    """

    claims: tuple[ClaimRef, ...]
    settled: Mapping[str, Outcome]


Outcome: TypeAlias = "PreparedClaim | str | None"
"""What became of a claim: its devices, the text of an error, or nothing to tell (unprepared)."""


def read_claims(claims: Collection[_Claim]) -> Requested:
    """Read the claims of a prepare request of either version.

    Raises:
        RemoteProtocolError: There are more than `CLAIMS_LIMIT`; none of them is looked at.
    """
    _require_few(claims)
    taken: dict[str, ClaimRef] = {}
    settled: dict[str, Outcome] = {}
    for claim in claims:
        ref = ClaimRef(namespace=claim.namespace, name=claim.name, uid=claim.uid)
        fault = _fault(ref, taken)
        if fault:
            settled[ref.uid] = fault
        else:
            taken.setdefault(ref.uid, ref)
    return _requested(taken, settled)


def read_ended_claims(claims: Collection[_Claim]) -> Requested:
    """Read the claims of an unprepare request of either version; only their UIDs matter.

    A UID that can be none was never prepared, and what was never prepared is undone.

    Raises:
        RemoteProtocolError: There are more than `CLAIMS_LIMIT`, which no pod has that was prepared.
    """
    _require_few(claims)
    taken: dict[str, ClaimRef] = {}
    settled: dict[str, Outcome] = {}
    for claim in claims:
        if _UID.fullmatch(claim.uid):
            ref = ClaimRef(namespace=claim.namespace, name=claim.name, uid=claim.uid)
            taken.setdefault(claim.uid, ref)
        else:
            settled[claim.uid] = None
    return _requested(taken, settled)


def _require_few(claims: Collection[_Claim]) -> None:
    # A message holds a million claims: an entry and a line of the log for each would hold up the
    # daemon for a minute, and with it every pod's hook.
    if len(claims) > CLAIMS_LIMIT:
        raise RemoteProtocolError(
            "request", f"has {len(claims)} claims", rule=f"a pod has at most {CLAIMS_LIMIT}"
        )


def _requested(taken: Mapping[str, ClaimRef], settled: Mapping[str, Outcome]) -> Requested:
    left = tuple(ref for uid, ref in taken.items() if uid not in settled)
    return Requested(claims=left, settled=MappingProxyType(settled))


def _fault(ref: ClaimRef, taken: Mapping[str, ClaimRef]) -> str:
    if not _UID.fullmatch(ref.uid):
        return f"the claim's UID {ref.uid[:64]!r} is not one: letters, digits, '-' and '.' only"
    for what, text in (("namespace", ref.namespace), ("name", ref.name)):
        if not text or len(text) > NAME_LIMIT:
            return f"the claim's {what} has {len(text)} characters: 1 to {NAME_LIMIT} are allowed"
        if not _NAME.fullmatch(text):
            return f"the claim's {what} {text[:64]!r} is not one: it must be a DNS subdomain"
    known = taken.get(ref.uid)
    if known is not None and known != ref:
        return f"the request names this UID twice, as {known} and as {ref}"
    return ""


@attrs.frozen(kw_only=True)
class Dialect:
    """One version of the service: its name, its messages, and how replies are made.

    Attributes:
        version: As in kubelet's registration, such as ``v1``.
        service: Full name of the service on the wire.
        shares: Whether a device can carry its share.
    """

    version: str
    service: str
    prepare_request: type[Message]
    prepare_reply: type[Message]
    unprepare_request: type[Message]
    unprepare_reply: type[Message]
    prepared: type[Message]
    unprepared: type[Message]
    device: type[Message]
    shares: bool

    def prepare_answer(self, outcomes: Mapping[str, Outcome]) -> Message:
        """The answer to a prepare request, by UID."""
        entries = {
            uid: self.prepared(
                error=_error(outcome),
                devices=[self._device(device) for device in _devices(outcome)],
            )
            for uid, outcome in outcomes.items()
        }
        return self.prepare_reply(claims=entries)

    def unprepare_answer(self, outcomes: Mapping[str, Outcome]) -> Message:
        """The answer to an unprepare request, by UID."""
        entries = {uid: self.unprepared(error=_error(outcome)) for uid, outcome in outcomes.items()}
        return self.unprepare_reply(claims=entries)

    def _device(self, device: PreparedDevice) -> Message:
        share = {"share_id": device.share_id} if self.shares and device.share_id else {}
        return self.device(
            request_names=device.requests,
            pool_name=device.pool,
            device_name=device.device,
            cdi_device_ids=device.cdi_ids,
            **share,
        )


def _dialect(version: str, pb: ModuleType, *, shares: bool) -> Dialect:
    return Dialect(
        version=version,
        service=f"k8s.io.kubelet.pkg.apis.dra.{version}.DRAPlugin",
        prepare_request=pb.NodePrepareResourcesRequest,
        prepare_reply=pb.NodePrepareResourcesResponse,
        unprepare_request=pb.NodeUnprepareResourcesRequest,
        unprepare_reply=pb.NodeUnprepareResourcesResponse,
        prepared=pb.NodePrepareResourceResponse,
        unprepared=pb.NodeUnprepareResourceResponse,
        device=pb.Device,
        shares=shares,
    )


DIALECTS: Final = (
    _dialect("v1", dra_v1_pb2, shares=True),
    _dialect("v1beta1", dra_v1beta1_pb2, shares=False),
)
"""The versions that are spoken, the newest first: kubelet takes the first that it knows."""


def _devices(outcome: Outcome) -> tuple[PreparedDevice, ...]:
    return outcome.devices if isinstance(outcome, PreparedClaim) else ()


def _error(outcome: Outcome) -> str:
    return excerpt(outcome) if isinstance(outcome, str) else ""
