"""Both halves of ttrpc: what goes out, what is taken in, what is answered to faults."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.errors import LocalProtocolError
from berth.nri import ttrpc
from berth.nri.ttrpc import Call, Client, Code, Refusal, Reply, Server
from berth.pb import rpcstatus_pb2, ttrpc_pb2
from tests.unit.nri.vectors import ttrpc_frame


def _request(stream: int = 1, **fields: object) -> bytes:
    values = {"service": "s.S", "method": "M", **fields}
    return ttrpc_frame(stream, 1, ttrpc_pb2.Request(**values).SerializeToString())  # type: ignore[arg-type] # names are the test's


def _answers(half: Server) -> list[Reply | Refusal]:
    """Reads what the server has to say, as a client that waits for the odd streams up to 99."""
    client = Client()
    for _ in range(50):
        client.call("s.S", "M", b"")
    client._waiting |= set(range(100))
    return [answer for message in half.messages_to_send() for answer in client.receive(message)]


def test_call_and_reply_meet() -> None:
    """A request and its answer arrive as they were sent, with id, payload and time left."""
    client, server = Client(), Server()
    stream = client.call("s.S", "M", b"question", timeout_s=2.0)
    calls = server.receive(b"".join(client.messages_to_send()))

    assert calls == [Call(stream=1, service="s.S", method="M", payload=b"question", timeout_s=2.0)]
    server.reply(stream, b"answer")
    answers = client.receive(b"".join(server.messages_to_send()))
    assert answers == [Reply(stream=1, payload=b"answer")]


def test_ids_are_odd_and_rise() -> None:
    """The client's streams are numbered 1, 3, 5."""
    client = Client()

    assert [client.call("s", "m", b"") for _ in range(3)] == [1, 3, 5]


def test_ids_end_before_they_would_repeat() -> None:
    """A connection of more calls than there are ids is our own fault to have kept."""
    client = Client()
    client._next = (1 << 32) + 1
    with pytest.raises(LocalProtocolError, match="no stream ids"):
        client.call("s", "m", b"")


def test_reply_of_nothing_has_no_data() -> None:
    """Success with an empty result is a frame of length 0, and taken as that."""
    server = Server()
    server.receive(_request())
    server.reply(1, b"")

    assert server.messages_to_send() == [ttrpc_frame(1, 2)]
    client = Client()
    client.call("s", "m", b"")
    assert client.receive(ttrpc_frame(1, 2)) == [Reply(stream=1)]


def test_status_zero_is_success() -> None:
    """Some servers set a status with code 0."""
    response = ttrpc_pb2.Response(status=rpcstatus_pb2.Status(code=0), payload=b"x")
    client = Client()
    client.call("s", "m", b"")

    found = client.receive(ttrpc_frame(1, 2, response.SerializeToString()))
    assert found == [Reply(stream=1, payload=b"x")]


@pytest.mark.parametrize(
    ("frame", "code", "text"),
    [
        (_request(stream=2), Code.INVALID_ARGUMENT, "must be odd"),
        (_request(stream=3), Code.INVALID_ARGUMENT, "must increment"),
        (_request(stream=1), Code.INVALID_ARGUMENT, "must increment"),
        (ttrpc_frame(5, 3, b"data"), Code.INVALID_ARGUMENT, "no longer active"),
        (ttrpc_frame(5, 1, b"\xff\xff"), Code.INVALID_ARGUMENT, "unmarshal"),
        (ttrpc_frame(5, 1, bytes(33)), Code.RESOURCE_EXHAUSTED, "message length 33 exceed"),
    ],
)
def test_fault_is_answered_on_its_stream_and_costs_no_more(
    frame: bytes, code: Code, text: str
) -> None:
    """Bad frames are answered as Go's server does; the next request is served."""
    server = Server(max_in_bytes=32)
    server.receive(_request(stream=3))
    server.reply(3, b"")
    server.messages_to_send()
    calls = server.receive(frame + _request(stream=7))

    assert [call.stream for call in calls] == [7]
    [answer] = _answers(server)
    assert isinstance(answer, Refusal)
    assert (answer.code, text in answer.message) == (code, True)
    assert answer.stream == int.from_bytes(frame[4:8], "big")


@pytest.mark.parametrize("kind", [0, 2, 4, 255])
def test_other_types_are_passed_over_by_the_server(kind: int) -> None:
    """Types that are no request get no answer and open no call."""
    server = Server()

    assert server.receive(ttrpc_frame(9, kind, b"xyz") + _request()) != []
    assert server.messages_to_send() == []


@pytest.mark.parametrize("kind", [0, 1, 3, 4])
def test_other_types_are_passed_over_by_the_client(kind: int) -> None:
    """Types that are no response leave the call waiting."""
    client = Client()
    client.call("s", "m", b"")

    assert client.receive(ttrpc_frame(1, kind)) == []
    assert client.receive(ttrpc_frame(1, 2)) == [Reply(stream=1)]


def test_answer_nobody_waits_for_is_dropped() -> None:
    """An answer to a stream never opened, or answered before, is passed over."""
    client = Client()
    client.call("s", "m", b"")

    assert client.receive(ttrpc_frame(3, 2)) == []
    assert client.receive(ttrpc_frame(1, 2) * 2) == [Reply(stream=1)]


def test_unreadable_answer_fails_the_call_alone() -> None:
    """The envelope of one answer does not parse: that call has failed, the next is answered."""
    client = Client()
    client.call("s", "m", b"")
    client.call("s", "m", b"")
    answers = client.receive(ttrpc_frame(1, 2, b"\xff\xff") + ttrpc_frame(3, 2))

    assert isinstance(answers[0], Refusal)
    assert answers[0].code == Code.INTERNAL
    assert answers[1] == Reply(stream=3)


def test_too_long_answer_fails_the_call_alone() -> None:
    """Data beyond the limit is not kept; that call has failed, the next is answered."""
    client = Client(max_in_bytes=10)
    client.call("s", "m", b"")
    client.call("s", "m", b"")
    answers = client.receive(ttrpc_frame(1, 2, bytes(11)) + ttrpc_frame(3, 2))

    assert isinstance(answers[0], Refusal)
    assert answers[0].code == Code.RESOURCE_EXHAUSTED
    assert answers[1] == Reply(stream=3)


def test_six_megabytes_in_are_taken() -> None:
    """Containerd 1.7 sends more than the protocol's own limit."""
    server = Server()
    frame = _request(payload=bytes(6 << 20))
    calls = [
        call
        for start in range(0, len(frame), 65536)
        for call in server.receive(frame[start : start + 65536])
    ]

    assert [len(call.payload) for call in calls] == [6 << 20]


def test_more_than_sixteen_megabytes_are_not_kept() -> None:
    """The data of a frame beyond our own limit is dropped as it comes."""
    server = Server()
    server.receive(ttrpc_frame(1, 1, length=(16 << 20) + 1))
    for _ in range(16):
        server.receive(bytes(1 << 20))
        assert len(server._reader._buffer) == 0
    assert server.inside_frame
    calls = server.receive(bytes(1) + _request(stream=3))

    assert [call.stream for call in calls] == [3]


def test_nothing_above_four_megabytes_goes_out() -> None:
    """A longer message would kill the connection without a word, so it is refused here."""
    server, client = Server(), Client()
    server.receive(_request())
    with pytest.raises(LocalProtocolError, match="at most 4194304"):
        server.reply(1, bytes(4 << 20))
    with pytest.raises(LocalProtocolError, match="at most 4194304"):
        client.call("s", "m", bytes(4 << 20))

    server.refuse(1, Code.INTERNAL, "too long")
    assert _answers(server) == [Refusal(stream=1, code=13, message="too long")]
    assert client.call("s", "m", b"") == 1


@pytest.mark.parametrize("stream", [1, 3])
def test_second_answer_is_our_own_fault(stream: int) -> None:
    """A call is answered once, and only if it is there."""
    server = Server()
    server.receive(_request())
    server.refuse(1, Code.INTERNAL, "no")
    with pytest.raises(LocalProtocolError):
        server.reply(stream, b"")
    with pytest.raises(LocalProtocolError):
        server.refuse(stream, Code.INTERNAL, "no")


def test_error_text_always_fits() -> None:
    """Texts of any length and of bytes that are no text go out, cut and replaced."""
    server = Server()
    server.receive(_request())
    server.refuse(1, Code.INTERNAL, "\udcff" + "x" * (5 << 20))
    [answer] = _answers(server)

    assert isinstance(answer, Refusal)
    assert answer.message == "?" + "x" * (ttrpc.MAX_TEXT_CHARACTERS - 1)


def test_too_many_open_calls_are_refused() -> None:
    """A peer that asks without end is told so; the calls that wait stay open."""
    server = Server()
    requests = [_request(stream=1 + 2 * n) for n in range(ttrpc.MAX_OPEN_CALLS + 1)]
    calls = server.receive(b"".join(requests))

    assert len(calls) == ttrpc.MAX_OPEN_CALLS
    assert len(server.messages_to_send()) == 1


def test_metadata_is_passed_over() -> None:
    """Pairs that an interceptor adds, and repeats, change nothing."""
    pair = ttrpc_pb2.KeyValue(key="traceparent", value="00-1")
    [call] = Server().receive(_request(metadata=[pair, pair]))

    assert call.timeout_s is None


@given(st.lists(st.integers(0, 1 << 16), max_size=10), st.binary(max_size=5000))
def test_messages_are_found_at_any_cut(cuts: list[int], payload: bytes) -> None:
    """Two requests in one read, or in many, are the same two calls."""
    data = _request(stream=1, payload=payload) + _request(stream=3)
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    server = Server()
    calls = [call for a, b in pairwise(places) for call in server.receive(data[a:b])]

    assert [(call.stream, call.payload) for call in calls] == [(1, payload), (3, b"")]
    assert not server.inside_frame


@given(st.binary(max_size=300))
def test_garbage_never_raises(data: bytes) -> None:
    """Whatever comes is a call, an answer, or nothing yet."""
    server, client = Server(), Client()
    client.call("s", "m", b"")
    server.receive(data)
    client.receive(data)

    assert all(len(message) >= 10 for message in server.messages_to_send())


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 4), st.binary(max_size=20))))
def test_plausible_garbage_never_raises(frames: list[tuple[int, int, bytes]]) -> None:
    """Well-formed frames of any type, id and content do no harm either."""
    data = b"".join(ttrpc_frame(*frame) for frame in frames)
    server, client = Server(max_in_bytes=16), Client(max_in_bytes=16)
    client.call("s", "m", b"")
    server.receive(data)
    client.receive(data)

    assert not server.inside_frame
    assert not client.inside_frame
