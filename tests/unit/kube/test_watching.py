"""The stream of a watch, at every cut and with garbage."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.errors import LocalProtocolError, RemoteProtocolError
from berth.kube import watching
from berth.kube.watching import DELAY_LIMIT_S, WatchDecoder, delay_s

EVENTS: list[dict[str, Any]] = [
    {"type": "ADDED", "object": {"metadata": {"name": "a", "resourceVersion": "5"}}},
    {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}},
    {"type": "DELETED", "object": {"metadata": {"name": "é\u2028", "resourceVersion": "10"}}},
    {"type": "ERROR", "object": {"kind": "Status", "code": 410}},
]
STREAM = b"".join(json.dumps(event).encode() + b"\n" for event in EVENTS)


@given(st.lists(st.integers(min_value=0, max_value=len(STREAM)), max_size=8))
def test_events_are_the_same_however_the_stream_is_cut(cuts: list[int]) -> None:
    """No cut of the bytes changes what is read."""

    decoder = WatchDecoder()
    places = [0, *sorted(cuts), len(STREAM)]

    found = [
        event
        for start, end in itertools.pairwise(places)
        for event in decoder.feed(STREAM[start:end])
    ]

    assert [(event.kind, event.object) for event in found] == [
        (event["type"], event["object"]) for event in EVENTS
    ]


def test_stream_fed_byte_by_byte_gives_each_event_at_its_line_end() -> None:
    """An event is not held back, and not told before it is whole."""

    decoder = WatchDecoder()

    counts = [len(decoder.feed(bytes([byte]))) for byte in STREAM]

    assert [index for index, count in enumerate(counts) if count] == [
        index for index, byte in enumerate(STREAM) if byte == ord("\n")
    ]


def test_half_a_line_at_the_end_is_nothing() -> None:
    """What the connection cut off comes again after the resume."""

    assert [event.resource_version for event in WatchDecoder().feed(STREAM[:-10])] == [
        "5",
        "9",
        "10",
    ]


def test_empty_lines_are_skipped() -> None:
    """A proxy's heartbeat is no event."""

    assert WatchDecoder().feed(b"\n \r\n" + STREAM)[0].kind == "ADDED"


@pytest.mark.parametrize(
    "line",
    [
        b"garbage",
        b"[]",
        b"{}",
        b'{"type": "WISH", "object": {}}',
        b'{"type": "ADDED", "object": []}',
        b'{"type": 1, "object": {}}',
        b"\xff\xfe",
        b"NaN",
        b"[" * 100_000,
    ],
)
def test_line_that_is_no_event_is_refused_and_ends_the_use(line: bytes) -> None:
    """After an error the decoder is of no further use."""

    decoder = WatchDecoder()

    with pytest.raises(RemoteProtocolError):
        decoder.feed(line + b"\n")
    with pytest.raises(LocalProtocolError):
        decoder.feed(STREAM)


@pytest.mark.parametrize("size", [1, 7])
def test_line_longer_than_the_limit_is_refused(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that never ends its line cannot fill the memory."""

    monkeypatch.setattr(watching, "LINE_LIMIT", 10)
    decoder = WatchDecoder()

    def fill() -> None:
        for _ in range(20):
            decoder.feed(b"x" * size)

    with pytest.raises(RemoteProtocolError, match="longer than 10 bytes"):
        fill()


@given(st.lists(st.binary(max_size=40), max_size=5))
def test_garbage_gives_events_or_a_protocol_error(pieces: list[bytes]) -> None:
    """Never anything else."""

    decoder = WatchDecoder()

    for piece in pieces:
        try:
            decoder.feed(piece)
        except RemoteProtocolError:
            return


def test_delays_double_to_their_limit() -> None:
    """1, 2, 4 … 30, and up to half of it less."""

    assert [delay_s(attempts, 0) for attempts in (1, 2, 3, 5, 6, 1000)] == [1, 2, 4, 16, 30, 30]
    assert delay_s(1000, 1) == DELAY_LIMIT_S / 2
