"""Method tables and the status of errors."""

from __future__ import annotations

import pytest
import trio
from google.protobuf.wrappers_pb2 import StringValue

from berth import errors
from berth.runtime.methods import (
    Call,
    Method,
    RpcError,
    Send,
    Service,
    Status,
    StreamMethod,
    status_of,
)


async def _echo(request: StringValue, _call: Call) -> StringValue:
    await trio.lowlevel.checkpoint()
    return request


async def _repeat(request: StringValue, _call: Call, send: Send[StringValue]) -> None:
    await send(request)


ECHO = Method(name="Echo", request=StringValue, reply=StringValue, handler=_echo)
REPEAT = StreamMethod(name="Repeat", request=StringValue, reply=StringValue, handler=_repeat)


def test_find_when_there_and_not() -> None:
    """A table finds its methods by name."""

    service = Service(name="test.Words", methods=(ECHO, REPEAT))

    assert tuple(map(service.find, ("Echo", "Repeat", "Other"))) == (ECHO, REPEAT, None)


def test_full_name_is_the_path_on_the_wire() -> None:
    """Both transports name a method by service and method."""

    service = Service(name="v1beta1.DevicePlugin", methods=(ECHO,))

    assert service.full_name(ECHO) == "/v1beta1.DevicePlugin/Echo"


def test_streaming_tells_the_kinds_apart() -> None:
    """A transport asks a method whether it streams."""

    assert (ECHO.streaming, REPEAT.streaming) == (False, True)


def test_service_when_a_name_is_there_twice() -> None:
    """A table with two methods of one name is our own mistake."""

    with pytest.raises(errors.LocalProtocolError, match="method Echo is there twice"):
        Service(name="test.Words", methods=(ECHO, ECHO))


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.ClaimError("claim", "is gone"), Status.FAILED_PRECONDITION),
        (errors.ConfigError("agent.toml", "is empty"), Status.INVALID_ARGUMENT),
        (errors.KubeError("apiserver", "is away"), Status.UNAVAILABLE),
        (errors.HostError("/dev", "is full"), Status.INTERNAL),
        (errors.StateError("/var", "is newer"), Status.INTERNAL),
        (errors.LocalProtocolError("x", "y"), Status.INTERNAL),
        (errors.RemoteProtocolError("x", "y"), Status.INVALID_ARGUMENT),
        (RpcError("m", "is away", code=Status.NOT_FOUND), Status.NOT_FOUND),
        (errors.Faults("c", [errors.ClaimError("a", "b")]), Status.FAILED_PRECONDITION),
    ],
)
def test_status_of_each_error(error: errors.BerthError, status: Status) -> None:
    """Each class of error has its status on the wire."""

    assert status is status_of(error)
