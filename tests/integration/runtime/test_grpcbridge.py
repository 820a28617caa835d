"""grpcio under trio: real sockets, grpcio's own clients."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import grpc
import pytest
import trio
from google.protobuf.wrappers_pb2 import BytesValue, StringValue

from berth.errors import HostError, LocalProtocolError
from berth.runtime.asyncthread import AsyncioThread
from berth.runtime.grpcbridge import GrpcChannel, GrpcServer, open_channel, protobuf_fault
from berth.runtime.methods import RpcError, Status
from tests.integration.runtime.conftest import Stage

Make = Callable[[GrpcChannel, str, str], Awaitable[object]]


async def ask(channel: GrpcChannel, method: str, text: str) -> str:
    """Make one call with a word."""
    reply = await channel.unary(f"/test.Stage/{method}", StringValue(value=text), StringValue)
    return str(reply.value)


def raw_unary(channel: grpc.Channel, method: str) -> grpc.UnaryUnaryMultiCallable[bytes, bytes]:
    """Give a call of grpcio's own blocking client, without message classes."""
    call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(method)
    return call


def raw_stream(channel: grpc.Channel, method: str) -> grpc.UnaryStreamMultiCallable[bytes, bytes]:
    """Give a call with many replies of grpcio's own blocking client."""
    call: grpc.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(method)
    return call


async def read_all(channel: GrpcChannel, method: str, text: str) -> list[str]:
    """Make one call with a word, and give all replies."""
    request = StringValue(value=text)
    async with channel.stream(f"/test.Stage/{method}", request, StringValue) as replies:
        return [reply.value async for reply in replies]


async def read_to_end(replies: AsyncIterator[object]) -> None:
    """Read replies until there are no more."""
    async for _ in replies:
        pass


async def test_unary_when_200_at_once(
    thread: AsyncioThread, server: GrpcServer, stage: Stage
) -> None:
    """Two hundred calls are all under way at a time, and each gets its own answer."""

    answers: dict[str, str] = {}

    async def call(channel: GrpcChannel, text: str) -> None:
        answers[text] = await ask(channel, "Wait", text)

    async with open_channel(thread, server.path) as channel, trio.open_nursery() as nursery:
        for number in range(200):
            nursery.start_soon(call, channel, str(number))
        await stage.wait_began(200)
        assert server.statistics().calls == 200
        stage.go.set()

    assert answers == {str(number): str(number) for number in range(200)}
    assert (server.statistics().calls, server.statistics().total) == (0, 200)


async def test_unary_when_eight_streams_are_open(
    thread: AsyncioThread, server: GrpcServer, stage: Stage
) -> None:
    """Open streams take nothing from other calls."""

    async with open_channel(thread, server.path) as channel, trio.open_nursery() as nursery:
        for number in range(8):
            nursery.start_soon(read_all, channel, "Watch", str(number))
        await stage.wait_began(8)

        assert [await ask(channel, "Echo", str(number)) for number in range(20)] == [
            str(number) for number in range(20)
        ]
        assert server.statistics().streams == 8
        nursery.cancel_scope.cancel()


async def test_task_when_the_client_gives_up(
    thread: AsyncioThread, server: GrpcServer, stage: Stage
) -> None:
    """A call that its client cancels is cancelled here, within a moment."""

    async with open_channel(thread, server.path) as channel, trio.open_nursery() as nursery:
        nursery.start_soon(ask, channel, "Wait", "a")
        await stage.wait_began(1)
        gone = trio.current_time()
        nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            assert await stage.wait_cancelled("a") - gone < 5


@pytest.mark.parametrize("method", ["Wait", "Watch"])
async def test_task_when_the_client_goes_away(
    thread: AsyncioThread, server: GrpcServer, stage: Stage, method: str
) -> None:
    """A client that hangs up without a word cancels its calls; other clients go on."""

    request = StringValue(value="a").SerializeToString()
    other = grpc.insecure_channel(f"unix:{server.path}")
    # Held, since a call that nobody refers to is cancelled by grpcio.
    held: object = (
        raw_unary(other, f"/test.Stage/{method}").future(request)
        if method == "Wait"
        else raw_stream(other, f"/test.Stage/{method}")(request)
    )
    await stage.wait_began(1)
    await trio.to_thread.run_sync(other.close)

    await stage.wait_cancelled("a")
    assert held is not None
    async with open_channel(thread, server.path) as channel:
        assert await ask(channel, "Echo", "b") == "b"


async def test_deadline_travels_and_ends_both_sides(
    thread: AsyncioThread, server: GrpcServer, stage: Stage
) -> None:
    """The caller's scope says how long; the handler is told, and is cancelled in time."""

    async with open_channel(thread, server.path) as channel:
        with trio.move_on_after(0.3) as scope:
            await ask(channel, "Wait", "a")
        over = trio.current_time()

        assert scope.cancelled_caught
        assert abs(await stage.wait_cancelled("a") - over) < 2
        assert stage.timeouts[0] is not None
        assert 0.2 < stage.timeouts[0] < 0.31


async def test_deadline_when_there_is_none(
    thread: AsyncioThread, server: GrpcServer, stage: Stage
) -> None:
    """A call without a limit is told so."""

    async with open_channel(thread, server.path) as channel:
        await ask(channel, "Echo", "a")

    assert stage.timeouts == [None]


@pytest.mark.parametrize(
    ("word", "refusal"),
    [
        ("claim", (Status.FAILED_PRECONDITION, "ns/c: is gone; make it anew")),
        ("rpc", (Status.FAILED_PRECONDITION, "m: not yet")),
        ("defect", (Status.INTERNAL, "defect: ZeroDivisionError")),
    ],
)
async def test_refusal_of_each_kind(
    thread: AsyncioThread,
    server: GrpcServer,
    caplog: pytest.LogCaptureFixture,
    word: str,
    refusal: tuple[Status, str],
) -> None:
    """An error of ours is told in full; a defect by its name, with its traceback in our log."""

    async with open_channel(thread, server.path) as channel:
        with pytest.raises(RpcError) as caught:
            await ask(channel, "Refuse", word)
        assert await ask(channel, "Echo", "still here") == "still here"

    assert (caught.value.code, caught.value.found) == refusal
    assert ("secret" in caplog.text) == (word == "defect")


async def test_refusal_when_there_is_no_such_method(
    thread: AsyncioThread, server: GrpcServer
) -> None:
    """An unknown method is UNIMPLEMENTED, as kubelet expects of older plugins."""

    async with open_channel(thread, server.path) as channel:
        with pytest.raises(RpcError) as caught:
            await ask(channel, "Other", "a")

    assert caught.value.code is Status.UNIMPLEMENTED


async def test_refusal_when_the_request_is_garbage(server: GrpcServer, stage: Stage) -> None:
    """Bytes that are no message never reach the handler."""

    def send_garbage() -> grpc.StatusCode:
        with grpc.insecure_channel(f"unix:{server.path}") as channel:
            with pytest.raises(grpc.RpcError) as caught:
                raw_unary(channel, "/test.Stage/Echo")(b"\xff\xff\xff")
            return caught.value.code()

    assert await trio.to_thread.run_sync(send_garbage) is grpc.StatusCode.INTERNAL
    assert stage.began == []


async def test_messages_above_grpcios_own_limit(thread: AsyncioThread, server: GrpcServer) -> None:
    """Six megabytes there and twelve back pass, as a full node's PodResources need."""

    async with open_channel(thread, server.path) as channel:
        request = BytesValue(value=b"x" * 6_000_000)
        reply = await channel.unary("/test.Stage/Double", request, BytesValue)

    assert len(reply.value) == 12_000_000


async def test_stream_when_it_ends(thread: AsyncioThread, server: GrpcServer) -> None:
    """All replies come in order, then the iteration ends."""

    async with open_channel(thread, server.path) as channel:
        assert await read_all(channel, "Count", "500") == [str(number) for number in range(500)]


async def test_stream_when_the_reader_stops(
    thread: AsyncioThread, server: GrpcServer, stage: Stage
) -> None:
    """Leaving the block ends the call at the server."""

    async with open_channel(thread, server.path) as channel:
        request = StringValue(value="inf")
        async with channel.stream("/test.Stage/Count", request, StringValue) as replies:
            async for reply in replies:
                if reply.value == "3":
                    break

        await stage.wait_cancelled("inf")


async def test_stream_that_was_given_up_while_it_was_not_read(
    thread: AsyncioThread, server: GrpcServer, stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """A client that reads again gets what was on its way, and then how the stream ended."""

    async with open_channel(thread, server.path) as channel:
        request = StringValue(value="a")
        async with channel.stream("/test.Stage/Flood", request, BytesValue) as replies:
            await stage.wait_cancelled("a")
            with trio.fail_after(10), pytest.raises(RpcError) as caught:
                await read_to_end(replies)
        assert await ask(channel, "Echo", "b") == "b"

    assert (caught.value.code, caught.value.found) == (
        Status.DEADLINE_EXCEEDED,
        "flood: you do not read",
    )
    assert caplog.records == []


async def test_drain_when_a_client_does_not_read(
    thread: AsyncioThread, server: GrpcServer, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds up nobody for long, and what others wait for is answered first."""

    monkeypatch.setattr("berth.runtime.grpcbridge.server.TAKE_LIMIT_S", 0.1)
    answers: list[str] = []

    async def call(channel: GrpcChannel) -> None:
        answers.append(await ask(channel, "Wait", "w"))

    async with open_channel(thread, server.path) as deaf, open_channel(thread, server.path) as one:
        request = StringValue(value="a")
        async with deaf.stream("/test.Stage/Flood", request, BytesValue):
            await stage.wait_cancelled("a")
            with trio.fail_after(5):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(call, one)
                    await stage.wait_began(2)
                    nursery.start_soon(server.drain)
                    await trio.sleep(0.3)
                    assert answers == []
                    stage.go.set()

    assert answers == ["w"]
    assert server.statistics().calls == 0


async def test_channel_when_nobody_listens(thread: AsyncioThread, tmp_path: Path) -> None:
    """A missing server is UNAVAILABLE at once, unless the caller wants to wait for it."""

    async with open_channel(thread, tmp_path / "none.sock") as channel:
        with pytest.raises(RpcError) as caught:
            await ask(channel, "Echo", "a")

    assert caught.value.code is Status.UNAVAILABLE


async def test_channel_when_the_server_comes_later(
    thread: AsyncioThread, stage: Stage, tmp_path: Path, nursery: trio.Nursery
) -> None:
    """A caller that waits is answered when the server is there, within the pause it asked for."""

    answers: list[str] = []

    async def call(channel: GrpcChannel) -> None:
        request = StringValue(value="a")
        reply = await channel.unary("/test.Stage/Echo", request, StringValue, wait_for_ready=True)
        answers.append(reply.value)

    server = GrpcServer(thread, path=tmp_path / "later.sock", services=(stage.service(),))
    async with (
        open_channel(thread, server.path, reconnect_s=0.2) as channel,
        trio.open_nursery() as calls,
    ):
        calls.start_soon(call, channel)
        await trio.testing.wait_all_tasks_blocked(0.3)
        await nursery.start(server.run)

    assert answers == ["a"]


async def test_channel_when_the_server_comes_back(
    thread: AsyncioThread, stage: Stage, tmp_path: Path
) -> None:
    """After a restart of the server the same channel reaches the new one."""

    path = tmp_path / "again.sock"
    async with open_channel(thread, path, reconnect_s=0.2) as channel:
        for text in ("first", "second"):
            async with trio.open_nursery() as nursery:
                await nursery.start(GrpcServer(thread, path=path, services=(stage.service(),)).run)
                reply = await channel.unary(
                    "/test.Stage/Echo", StringValue(value=text), StringValue, wait_for_ready=True
                )
                assert reply.value == text
                nursery.cancel_scope.cancel()


async def test_cancel_when_calls_are_under_way(
    thread: AsyncioThread, stage: Stage, tmp_path: Path
) -> None:
    """The end of a plugin's run ends its handlers, tells their callers, and is bounded."""

    server = GrpcServer(thread, path=tmp_path / "x.sock", services=(stage.service(),))
    refusals: list[tuple[Status, str]] = []

    async def call(make: Make, channel: GrpcChannel, method: str) -> None:
        with pytest.raises(RpcError) as caught:
            await make(channel, method, method)
        refusals.append((caught.value.code, caught.value.found))

    async with open_channel(thread, server.path) as channel, trio.open_nursery() as callers:
        async with trio.open_nursery() as nursery:
            await nursery.start(server.run)
            callers.start_soon(call, ask, channel, "Wait")
            callers.start_soon(call, read_all, channel, "Watch")
            await stage.wait_began(2)
            start = trio.current_time()
            nursery.cancel_scope.cancel()
        assert trio.current_time() - start < 5

    assert refusals == [(Status.UNAVAILABLE, "berthd stops serving; call again")] * 2
    assert set(stage.cancelled) == {"Wait", "Watch"}
    assert not (tmp_path / "x.sock").exists()


async def test_drain_when_calls_are_under_way(
    thread: AsyncioThread, stage: Stage, tmp_path: Path
) -> None:
    """A drain ends streams, lets other calls end, takes no new ones, and then the run is over."""

    server = GrpcServer(thread, path=tmp_path / "x.sock", services=(stage.service(),))
    answers: list[str] = []

    async def call(channel: GrpcChannel) -> None:
        answers.append(await ask(channel, "Wait", "a"))

    async def watch(channel: GrpcChannel) -> None:
        with pytest.raises(RpcError, match="berthd stops serving"):
            await read_all(channel, "Watch", "s")

    async with (
        open_channel(thread, server.path) as channel,
        trio.open_nursery() as callers,
        trio.open_nursery() as nursery,
    ):
        await nursery.start(server.run)
        callers.start_soon(call, channel)
        callers.start_soon(watch, channel)
        await stage.wait_began(2)
        callers.start_soon(server.drain)
        await stage.wait_cancelled("s")
        with pytest.raises(RpcError) as caught:
            await ask(channel, "Echo", "late")
        # A call that crosses the GOAWAY on its way is answered CANCELLED by grpcio itself.
        assert caught.value.code in {Status.UNAVAILABLE, Status.CANCELLED}
        assert server.statistics().calls == 1
        stage.go.set()

    assert answers == ["a"]
    assert "late" not in stage.began


async def test_drain_when_it_is_cut_short(
    thread: AsyncioThread, stage: Stage, tmp_path: Path
) -> None:
    """A drain whose time is over leaves the rest to the cancel, which is bounded."""

    server = GrpcServer(thread, path=tmp_path / "x.sock", services=(stage.service(),))

    async def call(channel: GrpcChannel) -> None:
        with pytest.raises(RpcError, match="berthd stops serving"):
            await ask(channel, "Wait", "a")

    async with open_channel(thread, server.path) as channel, trio.open_nursery() as callers:
        async with trio.open_nursery() as nursery:
            await nursery.start(server.run)
            callers.start_soon(call, channel)
            await stage.wait_began(1)
            with trio.move_on_after(0.1) as scope:
                await server.drain()
            assert scope.cancelled_caught
            start = trio.current_time()
            nursery.cancel_scope.cancel()
        assert trio.current_time() - start < 5


async def test_run_when_the_socket_cannot_be_bound(
    thread: AsyncioThread, stage: Stage, tmp_path: Path
) -> None:
    """A folder that is not there is told with its path."""

    server = GrpcServer(thread, path=tmp_path / "none" / "x.sock", services=(stage.service(),))

    with pytest.RaisesGroup(pytest.RaisesExc(HostError, match=r"none/x\.sock: grpcio cannot")):
        await server.run()


async def test_run_when_it_ran_already(thread: AsyncioThread, server: GrpcServer) -> None:
    """A server object serves once."""

    with pytest.raises(LocalProtocolError, match="was run a second time"):
        await server.run()


async def test_call_from_another_thread_pool(server: GrpcServer) -> None:
    """Grpcio's own blocking client, with its own threads, is served like any other."""

    answers: list[bytes] = []

    def call(number: int) -> None:
        with grpc.insecure_channel(f"unix:{server.path}") as channel:
            request = StringValue(value=str(number)).SerializeToString()
            answers.append(raw_unary(channel, "/test.Stage/Echo")(request))

    def call_all() -> None:
        threads = [threading.Thread(target=call, args=(number,)) for number in range(8)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()

    await trio.to_thread.run_sync(call_all)

    assert {StringValue.FromString(answer).value for answer in answers} == set("01234567")


async def test_probe_while_serving_and_after_a_drain(server: GrpcServer) -> None:
    """It returns while clients are greeted, and when none is to be served any more."""

    await server.probe()
    await server.drain()
    await server.probe()


async def test_probe_when_the_private_socket_was_removed(server: GrpcServer) -> None:
    """Nobody can reach the server then, and it fails."""

    server.path.unlink()

    with pytest.raises(HostError, match="cannot connect"):
        await server.probe()


@pytest.mark.parametrize(("kind", "well"), [("upb", True), ("python", False), (None, True)])
def test_protobuf_fault_of_each_implementation(kind: str | None, well: bool) -> None:
    """Any implementation but upb is told loudly; this one here is upb."""

    assert (protobuf_fault(kind) is None) == well
