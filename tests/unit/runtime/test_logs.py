"""Records with fields, as the journal gets them."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.runtime.logs import (
    VALUE_LIMIT,
    JournalFormatter,
    Repeats,
    get_log,
    is_journal,
    render_value,
    start_logging,
)


@pytest.fixture(autouse=True)
def own_logging() -> Iterator[None]:
    """Give logging back to pytest after each test."""
    root = logging.getLogger()
    before = (root.handlers[:], root.level, logging.getLogger("berth").level)
    yield
    root.handlers[:], level, berth_level = before
    root.setLevel(level)
    logging.getLogger("berth").setLevel(berth_level)


def lines(text: io.StringIO) -> list[str]:
    """Give what was logged so far."""
    return text.getvalue().splitlines()


def test_record_is_one_line_with_fields() -> None:
    """A record is its sentence and its fields, in the order given."""

    text = io.StringIO()
    start_logging(stream=text, environ={})
    get_log("berth.x").info("claim prepared", claim="ns/name", device="ens1v0", ms=12.3456)

    assert lines(text) == ["claim prepared claim=ns/name device=ens1v0 ms=12.346"]


@pytest.mark.parametrize(
    ("value", "rendered"),
    [
        ("", '""'),
        ("two words", '"two words"'),
        ('say "hi"', '"say \\"hi\\""'),
        ("a=b", '"a=b"'),
        ("a\nb", '"a\\nb"'),
        ("\x1b[31m", '"\\u001b[31m"'),
        ("\x9b31m", '"\\u009b31m"'),
        ("\u2028", '"\\u2028"'),
        (None, "None"),
        (1.0, "1"),
        (0.25, "0.25"),
        (Path("/run/berth"), "/run/berth"),
        ("\x7f", '"\\u007f"'),
        ("\u202eevil", '"\\u202eevil"'),
        ("Größe", "Größe"),
        ("0000:3b:00.1", "0000:3b:00.1"),
    ],
)
def test_value_is_quoted_where_needed(value: object, rendered: str) -> None:
    """A plain word stands bare; anything that could mislead a reader is quoted."""

    assert render_value(value) == rendered


@given(st.text())
def test_value_cannot_break_its_line_or_forge_a_field(text: str) -> None:
    """Whatever a value holds, it is one printable word or one JSON string, and bounded."""

    rendered = render_value(text)

    assert len(rendered.splitlines()) == 1
    assert rendered.isprintable()
    if rendered.startswith('"'):
        assert json.loads(rendered)[:VALUE_LIMIT] == text[:VALUE_LIMIT]
    else:
        assert "=" not in rendered
        assert " " not in rendered


def test_long_value_is_cut_and_marked() -> None:
    """A value beyond the limit shows that there was more."""

    assert render_value("x" * 1000) == "x" * VALUE_LIMIT + "…"


def test_priorities_when_the_journal_reads() -> None:
    """Each line carries its priority, those of a traceback too."""

    text = io.StringIO()
    handler = logging.StreamHandler(text)
    handler.setFormatter(JournalFormatter(prefixed=True))
    logging.basicConfig(handlers=[handler], level=logging.DEBUG, force=True)
    log = get_log("berth.x")
    log.debug("a")
    log.info("b")
    log.warning("c")
    log.error("d", code=5)
    logging.getLogger("berth.x").critical("e")
    try:
        raise ValueError("two\nlines")  # noqa: TRY301 - the traceback is what is looked at
    except ValueError:
        log.exception("f")

    assert lines(text)[:6] == ["<7>a", "<6>b", "<4>c", "<3>d code=5", "<2>e", "<3>f"]
    assert all(line.startswith("<3>") for line in lines(text)[6:])
    assert lines(text)[-2:] == ["<3>ValueError: two", "<3>lines"]


def test_message_of_a_library_cannot_break_its_line() -> None:
    """Other libraries log through the same form, from warnings on."""

    text = io.StringIO()
    start_logging(stream=text, environ={})
    logging.getLogger("other").warning("peer says %s", "a\nb")
    logging.getLogger("other").info("unheard")

    assert lines(text) == ['"peer says a\\nb"']


def test_level_holds_for_our_records() -> None:
    """Below the level nothing is written."""

    text = io.StringIO()
    start_logging(stream=text, environ={}, level=logging.WARNING)
    get_log("berth.x").info("unheard")

    assert lines(text) == []


def test_is_journal_when_the_stream_is_named(tmp_path: Path) -> None:
    """The variable must name the very stream, since it is inherited by children with others."""

    with (tmp_path / "stderr").open("w") as stream:
        found = (tmp_path / "stderr").stat()
        environ = {"JOURNAL_STREAM": f"{found.st_dev}:{found.st_ino}"}

        assert is_journal(stream, environ)
        assert not is_journal(stream, {"JOURNAL_STREAM": "1:2"})
        assert not is_journal(stream, {})
        assert not is_journal(io.StringIO(), environ)


def test_repeats_when_within_and_after_the_period() -> None:
    """The first is written, those within the period are counted, the next tells their number."""

    repeats = Repeats(period_s=60)
    due = [repeats.count_due("x", now_s=now_s) for now_s in (0, 1, 59, 60, 61, 130)]

    assert due == [0, None, None, 2, None, 1]


def test_repeats_when_keys_differ() -> None:
    """One key holds back nothing of another, and only so many keys are remembered."""

    repeats = Repeats(period_s=60, most=2)

    assert [repeats.count_due(key, now_s=0) for key in "abca"] == [0, 0, 0, 0]
