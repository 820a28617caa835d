"""A service that does what a test asks of it, served by grpcio on a real socket."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
import trio
from google.protobuf.wrappers_pb2 import BytesValue, StringValue

from berth.errors import ClaimError
from berth.runtime.asyncthread import AsyncioThread
from berth.runtime.grpcbridge import GrpcServer
from berth.runtime.methods import Call, Method, RpcError, Send, Service, Status, StreamMethod


@attrs.define
class Stage:
    """What the handlers of the service saw, and what they wait for.

    Attributes:
        began: Requests whose handlers have begun, in order.
        ended: Those that were cancelled, with the time.
        timeouts: What each call was told of its time, in seconds.
        go: What waiting handlers wait for.
        changed: Set anew at each change of the above.
    """

    began: list[str] = attrs.field(factory=list)
    cancelled: dict[str, float] = attrs.field(factory=dict)
    timeouts: list[float | None] = attrs.field(factory=list)
    go: trio.Event = attrs.field(factory=trio.Event)
    _changed: trio.lowlevel.ParkingLot = attrs.field(factory=trio.lowlevel.ParkingLot)

    async def wait_began(self, count: int) -> None:
        """Wait until so many handlers have begun."""
        while len(self.began) < count:
            await self._changed.park()

    async def wait_cancelled(self, name: str) -> float:
        """Wait until a handler was cancelled, and say when."""
        while name not in self.cancelled:
            await self._changed.park()
        return self.cancelled[name]

    def _enter(self, name: str, call: Call) -> None:
        self.began.append(name)
        self.timeouts.append(call.timeout_s)
        self._changed.unpark_all()

    def _leave(self, name: str) -> None:
        self.cancelled[name] = trio.current_time()
        self._changed.unpark_all()

    async def echo(self, request: StringValue, call: Call) -> StringValue:
        """Answer at once."""
        await trio.lowlevel.checkpoint()
        self._enter(request.value, call)
        return request

    async def wait(self, request: StringValue, call: Call) -> StringValue:
        """Answer when the test says so."""
        self._enter(request.value, call)
        try:
            await self.go.wait()
        except trio.Cancelled:
            self._leave(request.value)
            raise
        return request

    async def refuse(self, request: StringValue, _call: Call) -> StringValue:
        """Fail in the way that the request names."""
        await trio.lowlevel.checkpoint()
        raise {
            "claim": ClaimError("ns/c", "is gone", mend="make it anew"),
            "rpc": RpcError("m", "not yet", code=Status.FAILED_PRECONDITION),
            "defect": ZeroDivisionError("secret"),
        }[request.value]

    async def double(self, request: BytesValue, _call: Call) -> BytesValue:
        """Answer with twice the bytes."""
        await trio.lowlevel.checkpoint()
        return BytesValue(value=request.value * 2)

    async def count(self, request: StringValue, call: Call, send: Send[StringValue]) -> None:
        """Send numbers, as many as the request says; without end for ``inf``."""
        self._enter(request.value, call)
        number = 0
        try:
            while number < float(request.value):
                await send(StringValue(value=str(number)))
                number += 1
        except trio.Cancelled:
            self._leave(request.value)
            raise

    async def watch(self, request: StringValue, call: Call, send: Send[StringValue]) -> None:
        """Send one reply, then nothing until cancelled."""
        await send(request)
        self._enter(request.value, call)
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            self._leave(request.value)
            raise

    async def flood(self, request: StringValue, call: Call, send: Send[BytesValue]) -> None:
        """Send much until one reply is not taken within 20 ms, then refuse."""
        self._enter(request.value, call)
        while True:
            with trio.move_on_after(0.02) as limit:
                await send(BytesValue(value=b"x" * 8_000_000))
            if limit.cancelled_caught:
                self._leave(request.value)
                raise RpcError("flood", "you do not read", code=Status.DEADLINE_EXCEEDED)

    def service(self) -> Service:
        """Give the table."""
        words = {"request": StringValue, "reply": StringValue}
        return Service(
            name="test.Stage",
            methods=(
                Method(name="Echo", handler=self.echo, **words),
                Method(name="Wait", handler=self.wait, **words),
                Method(name="Refuse", handler=self.refuse, **words),
                Method(name="Double", request=BytesValue, reply=BytesValue, handler=self.double),
                StreamMethod(name="Count", handler=self.count, **words),
                StreamMethod(name="Watch", handler=self.watch, **words),
                StreamMethod(
                    name="Flood", request=StringValue, reply=BytesValue, handler=self.flood
                ),
            ),
        )


@pytest.fixture
def stage() -> Stage:
    """Give what the handlers see."""
    return Stage()


@pytest.fixture
async def server(
    thread: AsyncioThread, stage: Stage, tmp_path: Path, nursery: trio.Nursery
) -> GrpcServer:
    """Give a server that serves on ``private.sock``."""
    running = GrpcServer(thread, path=tmp_path / "private.sock", services=(stage.service(),))
    await nursery.start(running.run)
    return running
