"""The calling side: single calls and streams of replies over one unix socket.

How long a call may take is said by the scope around it: its deadline travels with the call, and
its end cancels the call at the server.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any, Final, Generic, TypeVar, cast

import grpc
import grpc.aio
import trio
from typing_extensions import Self

from berth.runtime.asyncthread import AsyncioThread
from berth.runtime.grpcbridge.setup import client_options
from berth.runtime.methods import Message, RpcError, Status

RECONNECT_S: Final = 1.0
"""Longest pause between attempts to connect, in seconds, where nobody asks for another."""

CLOSE_LIMIT_S: Final = 1.0
"""How long the end of a channel or stream is waited for, in seconds."""

_RACE_S: Final = 0.25
_READY: Final = grpc.ChannelConnectivity.READY

ReplyT = TypeVar("ReplyT", bound=Message)
T = TypeVar("T")


@contextlib.asynccontextmanager
async def open_channel(
    thread: AsyncioThread, path: Path, *, reconnect_s: float = RECONNECT_S
) -> AsyncIterator[GrpcChannel]:
    """Give a channel to a server's unix socket while the block runs.

    It connects at the first call, and again by itself when the server comes back.

    Args:
        thread: The loop on which grpcio runs.
        path: The server's socket; need not exist yet.
        reconnect_s: Longest pause between attempts to connect.
    """

    def connect() -> grpc.aio.Channel:
        return grpc.aio.insecure_channel(
            f"unix:{path}", options=client_options(reconnect_s=reconnect_s)
        )

    channel = await thread.call(connect)
    try:
        yield GrpcChannel(thread, channel)
    finally:
        with trio.move_on_after(CLOSE_LIMIT_S, shield=True):
            await thread.run(channel.close)


class GrpcChannel:
    """Calls to one server; made by `open_channel`.

    Args:
        thread: The loop on which grpcio runs.
        channel: grpcio's own.
    """

    def __init__(self, thread: AsyncioThread, channel: grpc.aio.Channel) -> None:
        self._thread = thread
        self._channel = channel

    async def unary(
        self, method: str, request: Message, reply: type[ReplyT], *, wait_for_ready: bool = False
    ) -> ReplyT:
        """Make one call and give its reply.

        Args:
            method: Full name, as ``/service/Method``.
            request: What to send.
            reply: Class of the reply.
            wait_for_ready: Whether to wait for a server that is not there yet; else the call
                fails as UNAVAILABLE.

        Raises:
            RpcError: The server refused, could not be reached, or sent what is no such reply.
        """
        deadline = trio.current_effective_deadline()
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, ReplyT] = self._channel.unary_unary(
            method, None, reply.FromString
        )

        async def ask() -> ReplyT:
            return await call(
                request.SerializeToString(),
                timeout=left_s,
                wait_for_ready=wait_for_ready,
            )

        left_s = _left_s(deadline)
        return await _result(self._thread, method, ask, deadline=deadline)

    async def wait_connected(self) -> None:
        """Connect now, and wait until the connection stands, however often that takes."""

        async def connect() -> None:
            while (state := self._channel.get_state(try_to_connect=True)) is not _READY:
                await self._channel.wait_for_state_change(state)

        await self._thread.run(connect)

    async def wait_lost(self) -> None:
        """Wait until the connection that stands is lost; at once when none stands."""

        async def lose() -> None:
            while self._channel.get_state() is _READY:
                await self._channel.wait_for_state_change(_READY)

        await self._thread.run(lose)

    @contextlib.asynccontextmanager
    async def stream(
        self, method: str, request: Message, reply: type[ReplyT], *, wait_for_ready: bool = False
    ) -> AsyncIterator[Replies[ReplyT]]:
        """Make one call and give an iterator over its replies; leaving the block ends the call.

        The arguments are those of `unary`. What the server refuses is raised by the iterator.
        """
        deadline = trio.current_effective_deadline()
        call: grpc.aio.UnaryStreamMultiCallable[bytes, ReplyT] = self._channel.unary_stream(
            method, None, reply.FromString
        )

        def begin() -> grpc.aio.UnaryStreamCall[bytes, ReplyT]:
            return call(
                request.SerializeToString(),
                timeout=left_s,
                wait_for_ready=wait_for_ready,
            )

        left_s = _left_s(deadline)
        running = await self._thread.call(begin)
        try:
            yield Replies(self._thread, method, running, deadline)
        finally:
            self._thread.post(running.cancel)


class Replies(Generic[ReplyT]):
    """Asynchronous iterator over the replies of one call; it ends when the server ends the call.

    The next reply is fetched when it is asked for, so a slow reader slows the server down.
    A cancel while one is waited for ends the call.

    Args:
        thread: The loop on which grpcio runs.
        method: Full name, for errors.
        call: grpcio's own.
        deadline: When the caller's scope ends, on trio's clock.
    """

    def __init__(
        self,
        thread: AsyncioThread,
        method: str,
        call: grpc.aio.UnaryStreamCall[bytes, ReplyT],
        deadline: float,
    ) -> None:
        self._thread = thread
        self._method = method
        self._call = call
        self._deadline = deadline

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ReplyT:
        reply = await _result(self._thread, self._method, self._call.read, deadline=self._deadline)
        if reply is grpc.aio.EOF:
            raise StopAsyncIteration
        return cast("ReplyT", reply)


def _left_s(deadline: float) -> float | None:
    return max(0.0, deadline - trio.current_time()) if math.isfinite(deadline) else None


async def _result(
    thread: AsyncioThread,
    method: str,
    function: Callable[[], Coroutine[Any, Any, T]],
    *,
    deadline: float,
) -> T:
    """Run one step of a call, and turn grpcio's error into ours.

    grpcio's clock may run a little ahead: then the caller's own scope is let end, so that a
    caller meets one sign of "too late", not two.
    """
    try:
        reply = await thread.run(function)
    except grpc.aio.AioRpcError as error:
        fault = error
    else:
        if reply is None:  # what grpcio makes of bytes that are no such message
            raise RpcError(method, "the reply cannot be read", code=Status.INTERNAL)
        return reply
    status = Status(fault.code().value[0])
    if status is Status.DEADLINE_EXCEEDED and deadline - trio.current_time() < _RACE_S:
        await trio.sleep_until(deadline)
    raise RpcError(method, fault.details() or "", code=status) from fault
