"""Frames of HTTP/2 are told apart wherever the bytes are cut."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from berth.runtime.goaway import GOAWAY, Frames


def frame(size: int, kind: int = 0) -> bytes:
    """A frame of so much payload."""
    return struct.pack(">BHBBI", size >> 16, size & 0xFFFF, kind, 0, 1) + bytes(size)


def test_goaway_is_the_frame_that_the_standard_draws() -> None:
    """Eight bytes of payload on stream 0: the last stream, and no error."""

    assert bytes.fromhex("000008 07 00 00000000 7fffffff 00000000") == GOAWAY


@given(
    sizes=st.lists(st.sampled_from([0, 1, 9, 300, 70_000]), max_size=4),
    cuts=st.lists(st.integers(0, 400), max_size=20),
)
def test_end_of_a_frame_is_found_at_every_cut(sizes: list[int], cuts: list[int]) -> None:
    """What `passed` gives is always the last place where one frame ends and no other has begun."""

    data, ends, at = b"".join(map(frame, sizes)), [0], 0
    for size in sizes:
        ends.append(ends[-1] + 9 + size)
    frames = Frames()
    for cut in [*cuts, len(data)]:
        piece = data[at : at + cut]
        within = [end - at for end in ends if at < end <= at + len(piece)]
        assert frames.passed(piece) == (within[-1] if within else 0)
        at += len(piece)
        assert frames.is_between is (at in ends)
