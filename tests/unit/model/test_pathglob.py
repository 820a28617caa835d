"""Patterns of paths: what fits, what the wildcards took, what is no pattern."""

from __future__ import annotations

import time
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.model.pathglob import (
    PathGlob,
    component_fits,
    has_wildcards,
    is_path_glob,
)

NAMES = st.text(alphabet="aAb1.-[]!^*?\\{}é\udcff", min_size=1, max_size=12)
PATTERNS = st.text(alphabet="ab1*?.", min_size=1, max_size=8).filter(lambda p: "**" not in p)


@pytest.mark.parametrize(
    ("glob", "path", "taken"),
    [
        ("/dev/kvm", "/dev/kvm", ()),
        ("/dev/ttyUSB*", "/dev/ttyUSB12", ("12",)),
        ("/dev/ttyUSB*", "/dev/ttyUSB", ("",)),
        ("/dev/ttyUSB*", "/dev/ttyUSB/1", None),
        ("/dev/snd/pcmC*D*c", "/dev/snd/pcmC10D2c", ("10", "2")),
        ("/dev/snd/pcmC*D*c", "/dev/snd/pcmC10D2p", None),
        ("/dev/*/by-id/usb-*-if?", "/dev/serial/by-id/usb-a-b-if0", ("serial", "a-b", "0")),
        ("/dev/video[02]", "/dev/video2", ("2",)),
        ("/dev/video[!02]", "/dev/video2", None),
        ("/dev/video[a-c^]", "/dev/video^", ("^",)),
        ("/dev/a[]]", "/dev/a]", ("]",)),
        ("/dev/a.b", "/dev/axb", None),
        ("/dev/x", "dev/x", None),
        ("/dev/*", "/dev/a\nb", ("a\nb",)),
        ("/dev/*", "/dev/\udcff", ("\udcff",)),
    ],
)
def test_wildcards_take_what_stands_in_their_place(
    glob: str, path: str, taken: tuple[str, ...] | None
) -> None:
    """A slash is never taken, any other sign is."""

    assert is_path_glob(glob)
    assert PathGlob(glob).fits(path) == taken


@given(PATTERNS, NAMES)
def test_pattern_fits_what_the_shell_would_take(pattern: str, name: str) -> None:
    """The wildcards and the plain text together are the name again."""
    taken = component_fits(pattern, name)

    assert (taken is not None) == fnmatchcase(name, pattern)
    if taken is not None:
        texts = iter(taken)
        assert name == "".join(next(texts) if sign in "*?" else sign for sign in pattern)
        assert next(texts, None) is None


@given(NAMES)
def test_plain_name_fits_itself_alone(name: str) -> None:
    """Signs of expressions mean nothing."""
    if not has_wildcards(name):
        assert component_fits(name, name) == ()
        assert component_fits(name, f"{name}x") is None


@pytest.mark.parametrize(
    "text",
    ["", "dev/x", "/", "/dev/", "/dev//x", "/dev/./x", "/dev/..", "/a**", "/[x", "/[b-a]", "/a\0"],
)
def test_text_that_is_no_pattern_is_told(text: str) -> None:
    """Relative, empty or upward components, unfinished brackets, ranges from behind."""

    assert not is_path_glob(text)


def test_pattern_knows_its_wildcards() -> None:
    """Brackets are one, whatever is in them."""

    assert PathGlob("/dev/a*[*?]/?").wildcards == 3
    assert str(PathGlob("/dev/x")) == "/dev/x"


def test_name_cannot_make_the_search_long() -> None:
    """Many stars against a name that nearly fits: what other matchers take hours for."""
    start = time.perf_counter()

    assert component_fits("*a" * 9 + "b", "a" * 255) is None
    assert time.perf_counter() - start < 1
