"""What the kernel tells of names, and whom it concerns."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.runtime.notices import (
    CREATE,
    DELETE_SELF,
    IGNORED,
    OVERFLOW,
    Names,
    Notice,
    WatchTable,
    decode_notices,
)

SOCK = Names(exact=frozenset({"a.sock"}))
TTYS = Names(patterns=frozenset({"ttyUSB*"}))


def encode(notice: Notice) -> bytes:
    """Give a notice as the kernel writes it: the name padded with zero bytes."""
    name = notice.name.encode()
    padded = name.ljust(-(-(len(name) + 1) // 16) * 16, b"\0") if name else b""
    return struct.pack("=iIII", notice.watch, notice.mask, 0, len(padded)) + padded


notices = st.builds(
    Notice,
    watch=st.integers(-1, 2**31 - 1),
    mask=st.integers(0, 2**32 - 1),
    name=st.text(st.characters(codec="utf-8", exclude_characters="\0/"), max_size=60),
)


@given(st.lists(notices, max_size=5))
def test_decode_gives_back_what_was_encoded(wanted: list[Notice]) -> None:
    """Any row of notices is read as it was written."""

    assert decode_notices(b"".join(map(encode, wanted))) == tuple(wanted)


@given(st.lists(notices, max_size=3), st.integers(0, 300))
def test_decode_when_cut_anywhere(wanted: list[Notice], cut: int) -> None:
    """A cut gives the notices that are whole, in order."""

    read = decode_notices(b"".join(map(encode, wanted))[:cut])

    assert read == tuple(wanted[: len(read)])


@given(st.binary(max_size=200))
def test_decode_when_given_garbage(data: bytes) -> None:
    """Garbage gives some notices or none, never an error."""

    assert len(decode_notices(data)) <= len(data) // 16


@pytest.mark.parametrize(
    ("name", "fits"), [("a.sock", True), ("ttyUSB0", True), ("", True), ("b.sock", False)]
)
def test_names_fit_by_name_or_pattern(*, name: str, fits: bool) -> None:
    """Without a name it is the folder itself, which matters to everybody."""

    assert (SOCK | TTYS).fits(name) is fits


def created(name: str, watch: int = 1) -> Notice:
    """Something was made in a folder."""
    return Notice(watch=watch, mask=CREATE, name=name)


def gone(mask: int, watch: int = 1) -> Notice:
    """Something happened to the folder itself."""
    return Notice(watch=watch, mask=mask)


def table_of_two() -> WatchTable[str]:
    """One watches folder 1 for a socket, another folders 1 and 2 for terminals."""
    table: WatchTable[str] = WatchTable()
    table.aim("door", {1: SOCK})
    table.aim("stock", {1: TTYS, 2: TTYS})
    return table


def test_those_are_concerned_whose_names_fit() -> None:
    """In a folder that two watch, each for his own."""

    table = table_of_two()

    assert table.concerned(created("a.sock")) == {"door"}
    assert table.concerned(created("ttyUSB0")) == {"stock"}
    assert table.concerned(created("a.sock", watch=2)) == set()
    assert table.concerned(gone(DELETE_SELF)) == {"door", "stock"}


def test_watch_ends_with_its_last_subscriber() -> None:
    """The other one keeps it; who aims elsewhere hears no more of it."""

    table = table_of_two()

    assert table.aim("stock", {3: TTYS}) == (2,)
    assert table.concerned(created("ttyUSB0")) == set()
    assert table.concerned(created("a.sock")) == {"door"}
    assert table.aim("door", {}) == (1,)
    assert table.aim("door", {}) == ()
    assert table.aim("stock", {}) == (3,)


def test_lost_notices_concern_everybody() -> None:
    """Any of them may have been the one."""

    assert table_of_two().concerned(Notice(watch=-1, mask=OVERFLOW)) == {"door", "stock"}


def test_watch_that_the_kernel_ended_is_told_once_and_not_ended_again() -> None:
    """Its number may be another folder's by then."""

    table = table_of_two()

    assert table.concerned(gone(IGNORED)) == {"door", "stock"}
    assert table.concerned(gone(IGNORED)) == set()
    assert table.aim("door", {4: SOCK}) == ()
    assert table.aim("stock", {}) == (2,)


def test_late_end_of_a_number_that_is_used_again_makes_them_aim_anew() -> None:
    """The kernel gives numbers in turn, so that takes two thousand million of them."""

    table = table_of_two()
    table.aim("door", {})
    table.aim("stock", {})
    table.aim("door", {1: SOCK})

    assert table.concerned(gone(IGNORED)) == {"door"}
    table.aim("door", {1: SOCK})
    assert table.concerned(created("a.sock")) == {"door"}


aims = st.tuples(
    st.sampled_from("abc"), st.dictionaries(st.integers(1, 4), st.just(SOCK), max_size=4)
)


@given(st.lists(aims, max_size=20))
def test_exactly_those_watches_are_kept_that_somebody_wants(
    row: list[tuple[str, dict[int, Names]]],
) -> None:
    """Whatever they aim at one after another, the kernel is asked to end each once, and in time."""

    table: WatchTable[str] = WatchTable()
    wants: dict[str, dict[int, Names]] = {}
    kept: set[int] = set()
    for subscriber, wanted in row:
        wants[subscriber] = wanted
        kept |= wanted.keys()
        ended = table.aim(subscriber, wanted)
        assert kept.issuperset(ended)
        kept -= set(ended)
        assert kept == {number for each in wants.values() for number in each}
    for number in kept:
        assert table.concerned(created("a.sock", watch=number)) == {
            one for one, each in wants.items() if number in each
        }
