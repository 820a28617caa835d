"""JSON from outside: keys given twice, half characters, and what takes no time at all."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.model import jsontext


@given(st.dictionaries(st.text(), st.text()), st.booleans())
def test_json_that_is_whole_is_read_as_it_is(value: dict[str, str], ascii_only: bool) -> None:
    """Escaped or not, pairs of surrogates included."""

    text = json.dumps(value, ensure_ascii=ascii_only)

    assert jsontext.loads(text) == jsontext.loads(text.encode()) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (rb'["\ud800", "\udfFF\ud800"]', ["\ufffd", "\ufffd\ufffd"]),
        (rb'{"a\uD83D": "\uD83D\uDE00"}', {"a\ufffd": "\U0001f600"}),
        (rb'["\\ud800", "\\\ud800"]', [r"\ud800", "\\\ufffd"]),
        (b'["\xed\xa0\x80\xff"]', ["\ufffd" * 4]),
    ],
)
def test_half_a_character_becomes_the_sign_for_it(text: bytes, value: object) -> None:
    """What was read can be written and sent: a tenant writes opaque parameters as he likes."""

    found = jsontext.loads(text)

    assert found == value
    assert json.dumps(found, ensure_ascii=False).encode()


def test_keys_given_twice_are_found_in_no_time() -> None:
    """An object of many keys with one of them twice took the square of their number."""

    pairs = ",".join(f'"k{number}":1' for number in range(100_000))
    began = time.process_time()
    found = jsontext.loads(f'{{{pairs},"k7":2}}')

    assert jsontext.duplicates(found) == ("k7",)
    assert time.process_time() - began < 10
