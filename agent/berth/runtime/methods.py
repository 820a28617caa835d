"""What a remote procedure is, without saying how it travels: the same for gRPC and for ttrpc.

A `Service` is a table of methods. gRPC's server and client and the ttrpc session read names and
types from it, so that no generated service code is needed. Both protocols share the numbers of
`Status` and report refusals by `RpcError`.

Source: grpc/grpc ``doc/statuscodes.md``; containerd/ttrpc ``PROTOCOL.md`` (google.rpc.Status).
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import attrs
from typing_extensions import Self

from berth.errors import (
    BerthError,
    ClaimError,
    ConfigError,
    KubeError,
    LocalProtocolError,
    RemoteProtocolError,
)


class Message(Protocol):
    """The part of a protobuf message that a transport needs."""

    def SerializeToString(self) -> bytes:  # noqa: N802 - protobuf's name
        """Give the wire form."""
        ...

    @classmethod
    def FromString(cls, s: bytes, /) -> Self:  # noqa: N802 - protobuf's name
        """Read the wire form."""
        ...


RequestT = TypeVar("RequestT", bound=Message)
ReplyT = TypeVar("ReplyT", bound=Message)
SentT_contra = TypeVar("SentT_contra", contravariant=True)


class Status(enum.IntEnum):
    """How a call ended, by the numbers that gRPC and ttrpc share."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class RpcError(BerthError):
    """A call ended with another status than OK: raised by handlers, and to callers.

    Args:
        where: The method, as ``/service/Method``, or what the handler was about.
        found: What the peer is told, or told us.
        code: The status on the wire.
    """

    def __init__(
        self, where: str, found: str, *, code: Status, rule: str = "", mend: str = ""
    ) -> None:
        super().__init__(where, found, rule=rule, mend=mend)
        self.code = code


@attrs.frozen(kw_only=True)
class Call:
    """What a handler is told of a call besides its request.

    Attributes:
        method: Full name, as ``/service/Method``.
        timeout_s: Seconds that were left to the caller when the call came in; None without a
            limit. When it is over the transport cancels the handler.
    """

    method: str
    timeout_s: float | None = None


class Send(Protocol[SentT_contra]):
    """How a streaming handler gives its replies, one by one."""

    async def __call__(self, reply: SentT_contra, /) -> None:
        """Send one reply; waits while the peer is slow."""
        ...


@attrs.frozen(kw_only=True)
class Method(Generic[RequestT, ReplyT]):
    """One request, one reply.

    Attributes:
        name: As on the wire, without the service.
        request: Class of the request.
        reply: Class of the reply.
        handler: Answers a call; raises `RpcError` or another error of ours to refuse.
    """

    streaming: ClassVar[bool] = False
    name: str
    request: type[RequestT]
    reply: type[ReplyT]
    handler: Callable[[RequestT, Call], Awaitable[ReplyT]]


@attrs.frozen(kw_only=True)
class StreamMethod(Generic[RequestT, ReplyT]):
    """One request, any number of replies; the stream ends when the handler returns.

    Attributes:
        name: As on the wire, without the service.
        request: Class of the request.
        reply: Class of each reply.
        handler: Is given the request, the call, and how to send a reply.
    """

    streaming: ClassVar[bool] = True
    name: str
    request: type[RequestT]
    reply: type[ReplyT]
    handler: Callable[[RequestT, Call, Send[ReplyT]], Awaitable[None]]


AnyMethod = Method[Any, Any] | StreamMethod[Any, Any]


@attrs.frozen(kw_only=True)
class Service:
    """A table of methods under one name.

    Attributes:
        name: Package and service, such as ``v1beta1.DevicePlugin``.
        methods: The methods, each name once.
    """

    name: str
    methods: tuple[AnyMethod, ...] = attrs.field()

    @methods.validator
    def _check_methods(self, _attribute: object, methods: tuple[AnyMethod, ...]) -> None:
        names = [method.name for method in methods]
        for name in names:
            if names.count(name) > 1:
                raise LocalProtocolError(f"service {self.name}", f"method {name} is there twice")

    def find(self, name: str) -> AnyMethod | None:
        """Give the method of this name, or None."""
        return next((method for method in self.methods if method.name == name), None)

    def full_name(self, method: AnyMethod) -> str:
        """Give the name on the wire, as ``/service/Method``."""
        return f"/{self.name}/{method.name}"


_CODES: tuple[tuple[type[BerthError], Status], ...] = (
    (ClaimError, Status.FAILED_PRECONDITION),
    (ConfigError, Status.INVALID_ARGUMENT),
    (KubeError, Status.UNAVAILABLE),
    (LocalProtocolError, Status.INTERNAL),
    (RemoteProtocolError, Status.INVALID_ARGUMENT),
)


def status_of(error: BerthError) -> Status:
    """Give the status by which an error of ours is told to a peer.

    What is not the caller's fault and may pass is FAILED_PRECONDITION or UNAVAILABLE; a fault of
    the host or of our state is INTERNAL.
    """
    if isinstance(error, RpcError):
        return error.code
    return next((code for kind, code in _CODES if isinstance(error, kind)), Status.INTERNAL)
