"""The multiplexer: what the writer may cut where, and that the reader takes any cut."""

from __future__ import annotations

import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.errors import LocalProtocolError, RemoteProtocolError
from berth.nri.mux import FIRST_FRAME_BYTES, MAX_FRAME_BYTES, Demultiplexer, Piece, frames


def _cut(data: bytes) -> list[tuple[int, bytes]]:
    found = []
    while data:
        connection, length = struct.unpack_from(">II", data)
        found.append((connection, data[8 : 8 + length]))
        data = data[8 + length :]
    return found


def _streams(pieces: list[Piece]) -> dict[int, bytes]:
    streams: dict[int, bytes] = {}
    for piece in pieces:
        streams[piece.connection] = streams.get(piece.connection, b"") + piece.data
    return streams


@pytest.mark.parametrize(
    ("size", "sizes"),
    [
        (1, [1]),
        (4095, [4095]),
        (4096, [4096]),
        (4097, [4096, 1]),
        (10 + (4 << 20), [4096, 10 + (4 << 20) - 4096]),
    ],
)
def test_frames_cut_where_go_can_read(size: int, sizes: list[int]) -> None:
    """Up to 4096 bytes make one frame, anything longer a frame of 4096 and one of all the rest."""
    found = _cut(frames(1, bytes(size)))

    assert sizes == [len(payload) for _, payload in found]


def _go_reads(data: bytes) -> int:
    """Counts the messages that Go would read, with its buffer of 4096 bytes; -1 if it breaks off.

    Each read of the multiplexer gives one whole frame and fails if the buffer is smaller; the
    buffered reader asks with 4096 bytes for a header, and with all that is missing for the rest.
    """
    waiting = [len(payload) for _, payload in _cut(data)]
    stream = b"".join(payload for _, payload in _cut(data))
    messages = buffered = 0
    while waiting or buffered:
        if buffered == 0:
            if waiting[0] > FIRST_FRAME_BYTES:
                return -1
            buffered = waiting.pop(0)
        missing = 10 + struct.unpack_from(">I", stream)[0]
        stream = stream[missing:]
        missing -= min(missing, buffered)
        buffered = 0 if missing else buffered - 10
        while missing:
            if waiting[0] > missing:
                return -1
            missing -= waiting.pop(0)
        buffered = 0
        messages += 1
    return messages


@pytest.mark.parametrize("size", [0, 4085, 4086, 4087, 4096, 10_000, 4 << 20])
def test_go_reads_what_frames_gives(size: int) -> None:
    """A model of Go's reader takes every length; it refuses one frame of more than 4096 bytes."""
    message = struct.pack(">IIBB", size, 1, 2, 0) + bytes(size)

    assert _go_reads(frames(1, message) * 2) == 2
    one_frame = struct.pack(">II", 1, len(message)) + message
    assert (_go_reads(one_frame) == -1) == (len(message) > FIRST_FRAME_BYTES)


@given(
    st.lists(st.tuples(st.integers(0, 9), st.binary(max_size=40)), max_size=8),
    st.lists(st.integers(0, 400), max_size=12),
)
def test_receive_gives_the_streams_at_any_cut(
    payloads: list[tuple[int, bytes]], cuts: list[int]
) -> None:
    """However frames are cut into reads, open connections get their bytes and others none."""
    data = b"".join(struct.pack(">II", number, len(part)) + part for number, part in payloads)
    reader = Demultiplexer((1, 2))
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    pieces = [piece for a, b in pairwise(places) for piece in reader.receive(data[a:b])]

    expected = [Piece(number, part) for number, part in payloads if number in {1, 2} and part]
    assert _streams(expected) == _streams(pieces)
    assert not reader.inside_frame


def test_receive_gives_the_streams_byte_by_byte() -> None:
    """The smallest reads possible lose nothing."""
    reader = Demultiplexer((1,))
    data = frames(1, b"x" * 5000) + frames(7, b"dropped") + frames(0, b"") + frames(1, b"end")
    pieces = [piece for byte in data for piece in reader.receive(bytes([byte]))]

    assert _streams(pieces) == {1: b"x" * 5000 + b"end"}


def test_empty_frame_is_harmless() -> None:
    """A frame without payload gives nothing and does not stop the next."""
    pieces = Demultiplexer((1,)).receive(bytes.fromhex("00000001 00000000 00000001 00000001 61"))

    assert pieces == [Piece(1, b"a")]


@pytest.mark.parametrize("connection", [1, 7])
def test_too_long_frame_is_the_peers_fault_and_the_end(connection: int) -> None:
    """A length that no runtime writes means that the stream is out of step."""
    reader = Demultiplexer((1, 2))
    with pytest.raises(RemoteProtocolError, match=f"{MAX_FRAME_BYTES + 1} bytes"):
        reader.receive(struct.pack(">II", connection, MAX_FRAME_BYTES + 1))

    with pytest.raises(LocalProtocolError):
        reader.receive(b"")


@given(st.binary(max_size=200))
def test_garbage_gives_pieces_or_a_protocol_error(data: bytes) -> None:
    """Whatever comes, nothing else happens, and no byte is given twice."""
    try:
        pieces = Demultiplexer((1, 2)).receive(data)
    except RemoteProtocolError:
        return
    assert sum(len(piece.data) for piece in pieces) <= len(data)


@pytest.mark.parametrize("count", [4, 8, 10])
def test_inside_frame_knows_an_unfinished_one(count: int) -> None:
    """A stream that ends after part of a header or payload ended within a frame."""
    reader = Demultiplexer((1,))
    reader.receive(frames(1, b"abc")[:count])

    assert reader.inside_frame
