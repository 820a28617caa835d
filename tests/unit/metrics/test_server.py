"""One connection of the server of figures: what is answered, and whom it gives up."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from berth.metrics.page import CONTENT_TYPE
from berth.metrics.server import CONNECTION_S, HEAD_LIMIT, serve

BODY = b"berth_ready 1\n"


def _text() -> bytes:
    return BODY


async def _ask(*pieces: bytes, pause_s: float = 0, ends: bool = True) -> bytes:
    """What a client gets that sends these pieces, with pauses between."""
    client, ours = trio.testing.memory_stream_pair()
    received = bytearray()

    async def send() -> None:
        for piece in pieces:
            await client.send_all(piece)
            await trio.sleep(pause_s)
        if ends:
            await client.send_eof()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve, ours, _text)
        nursery.start_soon(send)
        async for data in client:
            received += data
        nursery.cancel_scope.cancel()
    return bytes(received)


def _request(target: str = "/metrics", method: str = "GET") -> bytes:
    return f"{method} {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def _split(answer: bytes) -> tuple[int, dict[str, str], bytes]:
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    return int(first.split()[1]), headers, body


async def test_page_is_given_and_the_connection_ends() -> None:
    """With its type, so that a scraper knows the format."""
    status, headers, body = _split(await _ask(_request(), ends=False))

    assert (status, body) == (200, BODY)
    assert headers["content-type"] == CONTENT_TYPE
    assert (headers["content-length"], headers["connection"]) == (str(len(BODY)), "close")


@pytest.mark.parametrize(
    ("request_", "status", "words"),
    [
        (_request("/metrics?name[]=berth_ready"), 200, BODY),
        (_request("/"), 200, b"/metrics"),
        (_request("/metrics/"), 404, b"/metrics"),
        (_request("/../etc/shadow"), 404, b"/metrics"),
        (_request("http://other/metrics"), 404, b"/metrics"),
        (_request(method="POST"), 405, b"Only GET"),
        (_request(method="HEAD"), 405, b""),
        (_request("host:443", method="CONNECT"), 405, b"Only GET"),
        (b"GET /metrics HTTP/1.0\r\n\r\n", 200, BODY),
        (b"GET /metrics HTTP/1.1\r\n\r\n", 400, b"no request"),
        (b"GET /metrics\r\n\r\n", 400, b"no request"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400, b"no request"),
        (_request()[:-2] + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 200, BODY),
    ],
)
async def test_what_is_answered(request_: bytes, status: int, words: bytes) -> None:
    """Two paths and one method; whatever else comes has an answer too."""
    found, _, body = _split(await _ask(request_))

    assert found == status
    assert words in body


async def test_head_that_is_too_large_is_refused() -> None:
    """Before it takes any room worth mentioning."""
    line = b"X-Padding: " + b"x" * 1000 + b"\r\n"
    status, _, _ = _split(await _ask(_request()[:-2], *[line] * (HEAD_LIMIT // 1000 + 2)))

    assert status == 431


async def test_client_that_takes_too_long_is_given_up(autojump_clock: MockClock) -> None:
    """Byte by byte, or without a word: its time is that of the connection as a whole."""
    began = trio.current_time()
    answer = await _ask(*[bytes([byte]) for byte in _request()], pause_s=1, ends=False)

    assert answer == b""
    assert trio.current_time() - began == pytest.approx(CONNECTION_S, abs=1)


async def test_client_that_reads_nothing_is_given_up(autojump_clock: MockClock) -> None:
    """What it was to be sent is dropped."""
    client, ours = trio.testing.lockstep_stream_pair()
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.send_all, _request())
        await serve(ours, _text)

    assert trio.current_time() - began == CONNECTION_S


async def test_client_that_is_gone_is_no_fault() -> None:
    """It may end before, in, or after its request."""
    for sent in (b"", _request()[:20], _request()):
        client, ours = trio.testing.memory_stream_pair()
        await client.send_all(sent) if sent else None
        await client.aclose()
        await serve(ours, _text)


@settings(max_examples=50)
@given(st.binary(max_size=200), st.integers(0, 60))
def test_garbage_has_an_answer_or_none(garbage: bytes, cut: int) -> None:
    """Never an error of ours."""
    outcomes: list[bytes] = []

    async def main() -> None:
        outcomes.append(await _ask(_request()[:cut], garbage))

    trio.run(main)
    assert all(not each or each.startswith(b"HTTP/1.1 ") for each in outcomes)


def test_half_a_request_at_every_cut_has_no_page() -> None:
    """Only a whole one is answered by it."""

    async def main(cut: int) -> bytes:
        return await _ask(_request()[:cut])

    run: Callable[[int], bytes] = lambda cut: trio.run(main, cut)  # noqa: E731 - one use
    assert all(BODY not in run(cut) for cut in range(0, len(_request()), 5))
