"""Figures on a real port of the loopback: one good client among bad ones, a port that is taken."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator

import pytest
import trio

from berth.config.listen import Listen
from berth.errors import HostError
from berth.metrics.server import CONNECTION_LIMIT, MetricsServer

BODY = b"berth_ready 1\n" * 100
REQUEST = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"


def free_port() -> int:
    """A port that nobody has, on the loopback."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def text() -> bytes:
    """The page."""
    return BODY


@pytest.fixture
async def port(nursery: trio.Nursery) -> AsyncIterator[int]:
    """Of a server that runs."""
    number = free_port()
    await nursery.start(MetricsServer(Listen(host="localhost", port=number), text).run)
    yield number
    nursery.cancel_scope.cancel()


async def ask(port: int, request: bytes = REQUEST) -> bytes:
    """What a client gets."""
    answer = bytearray()
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(request)
        async for data in stream:
            answer += data
    return bytes(answer)


async def test_scraper_gets_the_page_again_and_again(port: int) -> None:
    """Each time on a connection of its own, with the length that it says."""
    with trio.fail_after(30):
        for _ in range(3):
            head, _, body = (await ask(port)).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 ")
            assert body == BODY


async def test_clients_that_misbehave_keep_nobody_from_the_page(port: int) -> None:
    """They send garbage and more than there is room for, hang up in the middle, or reset."""
    async with trio.open_nursery() as nursery:
        for request in (b"\x00" * 100_000, b"GET /" + b"x" * 100_000, REQUEST[:-2], b""):
            nursery.start_soon(_misbehave, port, request)
    with trio.fail_after(30):
        assert (await ask(port)).endswith(BODY)


async def test_silent_clients_are_as_many_as_there_are_places(port: int) -> None:
    """One more waits, and is served as soon as one of them is gone."""
    silent = [await trio.open_tcp_stream("127.0.0.1", port) for _ in range(CONNECTION_LIMIT)]
    with trio.move_on_after(0.2) as waited:
        await ask(port)
    assert waited.cancelled_caught
    for stream in silent:
        await stream.aclose()
    with trio.fail_after(30):
        for _ in range(2 * CONNECTION_LIMIT):
            assert (await ask(port)).endswith(BODY)


async def test_port_that_another_has_is_told_with_what_to_do(port: int) -> None:
    """The supervisor tries again."""
    with pytest.raises(HostError) as caught:
        await MetricsServer(Listen(host="127.0.0.1", port=port), text).run()

    assert str(caught.value).startswith(f"[metrics] listen 127.0.0.1:{port}: cannot listen on ")
    assert "does another program have the port" in str(caught.value)


async def test_server_that_ends_leaves_no_socket_behind(nursery: trio.Nursery) -> None:
    """So that the next run can have the port, connections or not."""
    listen = Listen(host="127.0.0.1", port=free_port())
    for _ in range(2):
        async with trio.open_nursery() as run:
            await run.start(MetricsServer(listen, text).run)
            async with await trio.open_tcp_stream("127.0.0.1", listen.port) as stream:
                await stream.send_all(REQUEST[:10])
                run.cancel_scope.cancel()
                await trio.lowlevel.cancel_shielded_checkpoint()


async def _misbehave(port: int, request: bytes) -> None:
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    try:
        await stream.send_all(request)
    except trio.BrokenResourceError:
        # It was told what is wrong, and cut off while it was still talking.
        pass
    finally:
        # By a reset, not in order.
        linger = b"\x01\x00\x00\x00\x00\x00\x00\x00"
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        await trio.aclose_forcefully(stream)
