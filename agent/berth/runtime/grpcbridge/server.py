"""The serving side: each call that comes in is a task of trio, under the nursery of its server.

What a handler raises never ends a plugin: errors of ours go to the caller with their status; any
other is a defect, which is logged with its traceback and told as INTERNAL.

A server listens on a private socket only. Public ones belong to the front door, since grpcio
removes whatever lies at its path when it stops.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, cast

import attrs
import grpc
import grpc.aio
import trio
from google.protobuf.message import DecodeError

from berth.errors import BerthError, HostError, LocalProtocolError
from berth.runtime.asyncthread import AsyncioThread, enter_trio
from berth.runtime.grpcbridge.setup import SERVER_OPTIONS
from berth.runtime.latest import Latest
from berth.runtime.logs import get_log
from berth.runtime.methods import (
    AnyMethod,
    Call,
    Message,
    RpcError,
    Service,
    Status,
    StreamMethod,
    status_of,
)
from berth.runtime.sockets import connect_unix
from berth.runtime.together import together

CALL_LIMIT: Final = 1024
"""Calls that one server works on at a time; more are refused as RESOURCE_EXHAUSTED."""

TAKE_LIMIT_S: Final = 2.0
"""How long clients may take for the last answers of a drain, in seconds."""

STOP_GRACE_S: Final = 0.5
"""What cancelled handlers have for telling their callers, in seconds."""

STOP_LIMIT_S: Final = 2.0
"""After which a server that does not stop is left behind, in seconds."""

_NO_LIMIT_S: Final = 365 * 86400.0
_CODES: Final = {Status(code.value[0]): code for code in grpc.StatusCode}
_log = get_log(__name__)

Context = grpc.aio.ServicerContext[bytes, bytes]


@attrs.frozen(kw_only=True)
class GrpcStatistics:
    """What can be seen of a server from outside.

    Attributes:
        calls: Handlers at work now.
        streams: How many of those are streams.
        total: Calls taken since the server began.
    """

    calls: int
    streams: int
    total: int


@attrs.frozen(kw_only=True)
class _Refusal:
    code: Status
    details: str


_STOPPING = _Refusal(code=Status.UNAVAILABLE, details="berthd stops serving; call again")


class GrpcServer:
    """Serves method tables on one private unix socket.

    Args:
        thread: The loop on which grpcio runs.
        path: The private socket, in a folder that nobody else writes; unique to this process.
        services: What is served.
    """

    def __init__(self, thread: AsyncioThread, *, path: Path, services: Sequence[Service]) -> None:
        self.path = path
        self._thread = thread
        self._services = tuple(services)
        self._floor: _Floor | None = None
        self._server: grpc.aio.Server | None = None
        self._drained = trio.Event()
        self._greets = False

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled or drained; ``started()`` once the socket listens.

        A cancel ends the handlers, tells their callers UNAVAILABLE, and takes at most
        `STOP_LIMIT_S`. An object serves once.

        Raises:
            HostError: The socket cannot be bound; in an exception group, as nurseries raise.
        """
        if self._floor is not None:
            raise LocalProtocolError("GrpcServer", "was run a second time")
        async with trio.open_nursery() as nursery:
            self._floor = _Floor(self._thread, nursery)
            try:
                self._server = await self._thread.run(self._start, self._floor)
                self._greets = True
                task_status.started()
                await self._drained.wait()
            finally:
                self._greets = False
                self._floor.close()
                with trio.move_on_after(STOP_LIMIT_S, shield=True):
                    await self._stop(STOP_GRACE_S)

    async def drain(self) -> None:
        """Take no further call, end the streams, and wait until the other handlers are done.

        Clients are told to connect anew (GOAWAY). Afterwards `run` returns. The caller's scope says
        how long to wait; when it is cut short, the calls under way go on until `run` is cancelled.
        """
        self._greets = False
        self.end_streams()
        if self._floor is not None:
            await self._stop_when_answered(self._floor)
        self._drained.set()

    async def probe(self) -> None:
        """Return once a new client is greeted, as HTTP/2 wants; at once while none is to be served.

        Raises:
            HostError: It is not: somebody removed the private socket, or grpcio sends clients away.
        """
        if not self._greets:
            return
        greeting = b""
        try:
            async with await connect_unix(self.path) as client:
                greeting = await client.receive_some()
        except trio.BrokenResourceError:
            pass
        except HostError:
            if self._greets:
                raise
        if not greeting and self._greets:
            raise HostError(str(self.path), "takes a client and does not greet it")

    def end_streams(self) -> None:
        """End every stream, which would never end by itself; their callers are told UNAVAILABLE."""
        if self._floor is not None:
            self._floor.end_streams()

    async def _stop_when_answered(self, floor: _Floor) -> None:
        """Stop when every call has its answer, and its client has taken it, if it takes any.

        A client that does not read would keep its call, and so the server, for as long as it likes.
        """
        cutting = trio.CancelScope()

        async def stop() -> None:
            await self._stop(_NO_LIMIT_S)
            cutting.cancel()

        async def cut_off() -> None:
            with cutting:
                await floor.unanswered.wait_value(lambda count: not count)
                await trio.sleep(TAKE_LIMIT_S)
                await self._stop(0)

        await together(stop, cut_off)

    def statistics(self) -> GrpcStatistics:
        """Give figures for tests and for the operator."""
        if self._floor is None:
            return GrpcStatistics(calls=0, streams=0, total=0)
        return self._floor.statistics()

    async def _start(self, floor: _Floor) -> grpc.aio.Server:
        server = grpc.aio.server(options=SERVER_OPTIONS, maximum_concurrent_rpcs=CALL_LIMIT)
        for service in self._services:
            handlers = {
                method.name: _handler(floor, service.full_name(method), method)
                for method in service.methods
            }
            generic = grpc.method_handlers_generic_handler(service.name, handlers)
            server.add_generic_rpc_handlers((generic,))
        try:
            server.add_insecure_port(f"unix:{self.path}")
        except RuntimeError as error:
            raise HostError(str(self.path), f"grpcio cannot bind it: {error}") from error
        await server.start()
        return server

    async def _stop(self, grace_s: float) -> None:
        if self._server is not None:
            await self._thread.run(self._server.stop, grace_s)


def _handler(floor: _Floor, name: str, method: AnyMethod) -> grpc.RpcMethodHandler[Any, Any]:
    async def answer(request: bytes, context: Context) -> bytes:
        return await _Exchange(floor, name, method, request, context).relay()

    async def stream(request: bytes, context: Context) -> None:
        await _Exchange(floor, name, method, request, context).relay()

    if method.streaming:
        return grpc.unary_stream_rpc_method_handler(stream)
    return grpc.unary_unary_rpc_method_handler(answer)


class _Floor:
    """Where the tasks of calls run; entered from the other thread by functions that cannot raise.

    Args:
        thread: The loop on which grpcio runs.
        nursery: Of the server's run.
    """

    def __init__(self, thread: AsyncioThread, nursery: trio.Nursery) -> None:
        self.thread = thread
        self.token = trio.lowlevel.current_trio_token()
        self._nursery: trio.Nursery | None = nursery
        self._exchanges: set[_Exchange] = set()
        self._total = 0
        self.unanswered: Latest[int] = Latest(0)
        """Calls at work, without streams."""

    def begin(self, exchange: _Exchange) -> None:
        """Make a call a task; a closed floor refuses it."""
        if self._nursery is None:
            exchange.finish(_STOPPING)
            return
        self._total += 1
        self._exchanges.add(exchange)
        self._count(exchange, 1)
        self._nursery.start_soon(self._host, exchange, name=exchange.call.method)

    async def _host(self, exchange: _Exchange) -> None:
        try:
            await exchange.work()
        finally:
            self._exchanges.discard(exchange)
            self._count(exchange, -1)

    def _count(self, exchange: _Exchange, more: int) -> None:
        if not exchange.method.streaming:
            self.unanswered.set(self.unanswered.get() + more)

    def end_streams(self) -> None:
        """Cancel the streams, which would never end by themselves."""
        for exchange in self._exchanges:
            if exchange.method.streaming:
                exchange.scope.cancel()

    def close(self) -> None:
        """Take no call any more and cancel those under way."""
        if self._nursery is not None:
            self._nursery.cancel_scope.cancel()
            self._nursery = None

    def statistics(self) -> GrpcStatistics:
        """Give the figures of the server."""
        streams = sum(exchange.method.streaming for exchange in self._exchanges)
        return GrpcStatistics(calls=len(self._exchanges), streams=streams, total=self._total)


class _Exchange:
    """One call: `relay` is its half on asyncio's loop, `work` its half in trio.

    Made on the loop. The halves meet in two places: `_Floor.begin` starts the task, and `finish`
    brings its outcome back. Whichever half ends first tells the other, which may be gone already.
    """

    def __init__(
        self, floor: _Floor, name: str, method: AnyMethod, request: bytes, context: Context
    ) -> None:
        # The stub forgets that grpcio gives None for a call without a deadline.
        left_s = cast("float | None", context.time_remaining())
        self.call = Call(method=name, timeout_s=None if left_s is None else max(0.0, left_s))
        self.method = method
        self.scope = trio.CancelScope()
        self._floor = floor
        self._request = request
        self._context = context
        self._outcome: asyncio.Future[bytes | _Refusal] = asyncio.get_running_loop().create_future()
        self._writing: asyncio.Future[None] | None = None

    async def relay(self) -> bytes:
        """Have trio do the work, and give its reply; in asyncio."""
        if not enter_trio(self._floor.token, lambda: self._floor.begin(self)):
            self._settle(_STOPPING)
        try:
            outcome = await self._outcome
        except asyncio.CancelledError:  # the client is gone, or its time is over
            enter_trio(self._floor.token, self.scope.cancel)
            raise
        if isinstance(outcome, _Refusal):
            await self._wait_written()
            await self._context.abort(_CODES[outcome.code], outcome.details)
        return outcome

    def finish(self, outcome: bytes | _Refusal) -> None:
        """Bring the outcome to the other half; from trio, never raises."""
        self._floor.thread.post(self._settle, outcome)

    def _settle(self, outcome: bytes | _Refusal) -> None:
        if not self._outcome.done():
            self._outcome.set_result(outcome)

    async def work(self) -> None:
        """Run the handler, whatever becomes of it, and tell the outcome; in trio."""
        outcome: bytes | _Refusal = _STOPPING
        try:
            with self.scope:
                outcome = await self._handle()
        finally:
            self.finish(outcome)

    async def _handle(self) -> bytes | _Refusal:
        try:
            request = self.method.request.FromString(self._request)
            if isinstance(self.method, StreamMethod):
                await self.method.handler(request, self.call, self._send)
                return b""
            reply: Message = await self.method.handler(request, self.call)
            return reply.SerializeToString()
        except BerthError as error:
            return _Refusal(code=status_of(error), details=str(error))
        except DecodeError as error:
            return _Refusal(code=Status.INTERNAL, details=f"the request is no message: {error}")
        except Exception as error:  # noqa: BLE001 - a defect in one handler must not end the others
            _log.exception("call failed by a defect", method=self.call.method)
            return _Refusal(code=Status.INTERNAL, details=f"defect: {type(error).__name__}")

    async def _send(self, reply: Message) -> None:
        data = reply.SerializeToString()
        try:
            await self._floor.thread.run(self._write, data)
        except (grpc.aio.BaseError, HostError) as error:
            raise RpcError(self.call.method, "the peer is gone", code=Status.CANCELLED) from error

    async def _write(self, data: bytes) -> None:
        """Write one reply; in asyncio.

        A write goes on when its sender is cancelled, since grpcio cannot take it back: it would
        refuse to send a status while one is under way, and a client that reads again would wait
        for the end of its stream for ever.
        """
        self._writing = asyncio.ensure_future(self._context.write(data))
        self._writing.add_done_callback(_look_at)
        await asyncio.wait({self._writing})
        self._writing.result()

    async def _wait_written(self) -> None:
        """Wait until the client can be told how its call ended; in asyncio.

        Raises:
            asyncio.CancelledError: It has gone: grpcio takes no status either.
        """
        if self._writing is not None:
            await asyncio.wait({self._writing})
            if self._writing.exception() is not None:
                raise asyncio.CancelledError


def _look_at(done: asyncio.Future[None]) -> None:
    """Keep asyncio from complaining of an error that nobody waited for: the client has gone."""
    if not done.cancelled():
        done.exception()
