"""The scanner finds lines in any TOML, and never a wrong one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.config.document import DEPTH_LIMIT, parse
from berth.config.finding import Spot, Steps, lookup
from berth.config.locate import line_of, scan

TEXT = """\
# comment = "no"
top = 1
"quoted key" = "a # b" # c

[node]   # table
name = \"\"\"
not = a
key = \"\"\" # after
'lit.eral' = '''
[no.table]
'''
[a.b]
list = [
  1,  # one
  "two]",

  { x = 3, y.z = 4 },
]
[[nic.group]]
name = "one"
match = { pf = ["a", "b"], vendor = "15b3" }
[nic.group.deep.er]
q = 1
[[nic.group]]
match . name = 'x'
date = 1979-05-27 07:32:00 # moment
e = {}
f = []
"""


@pytest.mark.parametrize(
    ("steps", "line", "text"),
    [
        (("top",), 2, "1"),
        (("quoted key",), 3, '"a # b"'),
        (("node",), 5, ""),
        (("node", "lit.eral"), 9, "'''\n[no.table]\n'''"),
        (("a",), 12, ""),
        (("a", "b"), 12, ""),
        (("a", "b", "list"), 13, ""),
        (("a", "b", "list", 0), 14, "1"),
        (("a", "b", "list", 1), 15, '"two]"'),
        (("a", "b", "list", 2), 17, ""),
        (("a", "b", "list", 2, "x"), 17, "3"),
        (("a", "b", "list", 2, "y", "z"), 17, "4"),
        (("nic",), 19, ""),
        (("nic", "group"), 19, ""),
        (("nic", "group", 0), 19, ""),
        (("nic", "group", 0, "name"), 20, '"one"'),
        (("nic", "group", 0, "match", "pf", 1), 21, '"b"'),
        (("nic", "group", 0, "match", "vendor"), 21, '"15b3"'),
        (("nic", "group", 0, "deep"), 22, ""),
        (("nic", "group", 0, "deep", "er", "q"), 23, "1"),
        (("nic", "group", 1), 24, ""),
        (("nic", "group", 1, "match"), 25, ""),
        (("nic", "group", 1, "match", "name"), 25, "'x'"),
        (("nic", "group", 1, "date"), 26, "1979-05-27 07:32:00"),
        (("nic", "group", 1, "e"), 27, ""),
        (("nic", "group", 1, "f"), 28, ""),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_place_has_the_line_on_which_it_stands(
    steps: Steps, line: int, text: str, newline: str
) -> None:
    """Headers, dotted and quoted keys, inline tables, items of lists, strings of many lines."""
    written = TEXT.replace("\n", newline)
    expected = Spot(line=line, text=text.replace("\n", newline))

    assert expected == scan(written, parse(written))[steps]


def test_every_place_of_a_document_is_found() -> None:
    """No table, key or item of the sample is missed."""
    document = parse(TEXT)
    spots = scan(TEXT, document)

    assert {steps for steps in _places(document, ()) if steps not in spots} == set()


def _places(value: Any, steps: Steps) -> set[Steps]:
    found = {steps} if steps else set()
    if isinstance(value, dict):
        return found.union(*(_places(inner, (*steps, name)) for name, inner in value.items()))
    if isinstance(value, list):
        return found.union(*(_places(item, (*steps, n)) for n, item in enumerate(value)))
    return found


@pytest.mark.parametrize(
    ("steps", "line"),
    [
        (("nic", "group", 0, "name"), 20),
        (("nic", "group", 0, "absent"), 19),
        (("nic", "group", 1, "match", "pf", 0), 25),
        (("absent",), None),
        ((), None),
    ],
)
def test_place_without_a_line_has_that_of_what_is_around_it(steps: Steps, line: int | None) -> None:
    """A key that is missing is told with the header of its table."""

    assert line == line_of(steps, scan(TEXT, parse(TEXT)))


@pytest.mark.parametrize(
    "text",
    [
        f"a = {'[' * DEPTH_LIMIT * 2}{']' * DEPTH_LIMIT * 2}\nb = 1",
        f"{'a.' * DEPTH_LIMIT * 2}a = 1\nb = 1",
    ],
)
def test_scan_ends_where_nesting_is_too_deep(text: str) -> None:
    """What is beyond has no line, which is better than a wrong one."""
    spots = scan(text, parse(text))

    assert ("b",) not in spots
    assert spots["a",].line == 1


def test_key_with_an_escape_that_json_lacks_has_its_line() -> None:
    """Such a key is legal, and rare."""
    text = 'a = 1\n"\\U0001F600" = 2\nb = 3'

    assert {steps: spot.line for steps, spot in scan(text, parse(text)).items()} == {
        ("a",): 1,
        ("\N{GRINNING FACE}",): 2,
        ("b",): 3,
    }


def test_table_has_the_line_of_its_own_header_before_that_of_one_below() -> None:
    """TOML lets the header of an outer table follow."""
    text = "[a.b]\n[a]\nc = 1"

    assert {steps: spot.line for steps, spot in scan(text, parse(text)).items()} == {
        ("a",): 2,
        ("a", "b"): 1,
        ("a", "c"): 3,
    }


KEYS = st.text("abc-_1", min_size=1, max_size=3)
SCALARS = st.one_of(
    st.integers(-99, 99),
    st.booleans(),
    st.text("ab\"\\'#[]{}=,.\n é", max_size=8),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
TABLES = st.lists(
    st.tuples(KEYS, st.booleans(), st.dictionaries(KEYS, VALUES, max_size=3)), max_size=5
)
SPACES = st.lists(st.sampled_from(["", " ", "\t"]), min_size=1, max_size=5)
BLANKS = st.lists(st.sampled_from(["", "\n", "# [x]\n", '  # a = "\n\n']), min_size=1, max_size=5)


class _Writer:
    """Writes TOML with odd spacing, and remembers the line of all that it writes."""

    def __init__(self, spaces: list[str], blanks: list[str]) -> None:
        self.text = ""
        self.lines: dict[Steps, int] = {}
        self._spaces, self._blanks = spaces, blanks

    def space(self) -> str:
        self._spaces.append(self._spaces.pop(0))
        return self._spaces[0]

    def blank(self) -> str:
        self._blanks.append(self._blanks.pop(0))
        return "\n" + self._blanks[0] if self._blanks[0] else ""

    def mark(self, steps: Steps) -> None:
        self.lines.setdefault(steps, self.text.count("\n") + 1)

    def pair(self, steps: Steps, name: str, value: object) -> None:
        self.mark((*steps, name))
        quoted = json.dumps(name) if self.space() else name
        self.text += f"{quoted}{self.space()}={self.space()}"
        self.value((*steps, name), value)

    def value(self, steps: Steps, value: object) -> None:
        if isinstance(value, dict):
            self.text += "{"
            for number, (name, inner) in enumerate(value.items()):
                self.text += "," + self.space() if number else self.space()
                self.pair(steps, name, inner)
            self.text += "}"
        elif isinstance(value, list):
            self.text += "["
            for number, inner in enumerate(value):
                self.text += self.blank()
                self.mark((*steps, number))
                self.value((*steps, number), inner)
                self.text += self.space() + "," + self.blank()
            self.text += "]"
        elif isinstance(value, str) and "\n" in value and "'''" not in value and self.space():
            self.text += f"'''\n{value.rstrip(chr(39))}'''"
        else:
            self.text += json.dumps(value, ensure_ascii=False)


@given(TABLES, SPACES, BLANKS)
def test_scan_agrees_with_the_writer_of_any_document(
    tables: list[tuple[str, bool, dict[str, Any]]], spaces: list[str], blanks: list[str]
) -> None:
    """Every line that the scanner tells is the one on which the thing was written."""
    writer = _Writer(spaces, blanks)
    counts: dict[str, int] = {}
    for name, array, keys in tables:
        if name in counts and not (array and counts[name]):
            continue
        writer.text += writer.blank().lstrip("\n")
        number = counts.setdefault(name, 0)
        steps: Steps = (name, number) if array else (name,)
        counts[name] += 1 if array else 0
        writer.mark((name,))
        writer.mark(steps)
        writer.text += f"[[{name}]]\n" if array else f"[{name}]\n"
        for key, value in keys.items():
            writer.pair(steps, key, value)
            writer.text += "\n"
    document = parse(writer.text)
    spots = scan(writer.text, document)

    assert writer.lines == {steps: spot.line for steps, spot in spots.items()}
    assert all(lookup(steps, document) is not None for steps in spots)


@given(st.text("ab\"'#[]{}=,.\n\\ 1", max_size=60))
def test_scan_ends_on_any_text(text: str) -> None:
    """The scanner is not made for what the reader refuses, but it must not hang or fail there."""
    scan(text, {})
