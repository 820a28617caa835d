"""Tables as lines: aligned, folded at a terminal's width, and nothing lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from berth.cli.tabling import GAP, tabled


def test_columns_are_aligned_by_what_a_terminal_shows() -> None:
    """A character of two columns counts as two; no line ends in white space."""

    assert list(tabled([("A", "B"), ("xyz", ""), ("\u6f22", "1")])) == [
        "A    B",
        "xyz",
        "\u6f22   1",
    ]


def test_row_that_fits_is_one_line() -> None:
    """As wide as the terminal, and not one column less."""

    assert list(tabled([("ab", "cd")], width=6)) == ["ab  cd"]
    assert list(tabled([("ab", "cd")], width=5)) == ["a  cd", "b"]


def test_widest_cell_gives_way_first() -> None:
    """It is broken between words; the others stay whole."""

    assert list(tabled([("id", "a word or two", "x")], width=13)) == [
        "id  a word  x",
        "    or two",
    ]


def test_word_that_is_too_long_is_broken() -> None:
    """Also one of characters of two columns, which are not cut apart."""

    assert list(tabled([("abcdefg", "")], width=5)) == ["abc", "def", "g"]
    assert list(tabled([("\u6f22\u5b57\u6f22", "")], width=5)) == ["\u6f22", "\u5b57", "\u6f22"]


CELLS = st.text("ab \u6f22\u00e9-", max_size=20)
ROWS = st.integers(1, 4).flatmap(
    lambda n: st.lists(st.tuples(*[CELLS] * n), min_size=1, max_size=4)
)


@given(ROWS, st.integers(20, 60))
def test_nothing_is_lost_and_no_line_is_too_long(rows: list[tuple[str, ...]], width: int) -> None:
    """Whatever the cells are."""
    lines = list(tabled(rows, width=width))

    assert all(sum(2 if sign == "\u6f22" else 1 for sign in line) <= width for line in lines)
    assert sorted("".join(lines).replace(" ", "")) == sorted(
        "".join(cell for row in rows for cell in row).replace(" ", "")
    )
    assert GAP == 2
