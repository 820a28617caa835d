"""The lines that the audience sees."""

from __future__ import annotations

import io
import json

from berth.errors import ConfigError, Faults
from berth.rehearsal.report import WIDTH, Report, compact


class Clock:
    """Time that goes on when it is told to."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        """The time."""
        return self.now_s


def page() -> tuple[Report, io.StringIO, Clock]:
    """A report, where it prints to, and its clock."""
    out, clock = io.StringIO(), Clock()
    return Report(out, clock), out, clock


def test_stage_shows_its_moment_and_what_it_took() -> None:
    """Both times are there, and what was found stands beside the name."""

    report, out, clock = page()
    clock.now_s += 0.5
    report.stage("ready", "it serves")
    clock.now_s += 0.25
    report.stage("prepared", "one", "two")

    assert out.getvalue().splitlines() == [
        "  0.500 s    500 ms  ready       it serves",
        "  0.750 s    250 ms  prepared    one",
        "                                 two",
    ]


def test_long_lines_are_wrapped_below_their_beginning() -> None:
    """Whatever a stage tells stays within the page."""

    report, out, _ = page()
    report.stage("ready", "word " * 40)

    lines = out.getvalue().splitlines()
    assert len(lines) > 1
    assert all(len(line) <= WIDTH for line in lines)
    assert lines[1].startswith(" " * 33)


def test_failure_names_place_finding_rule_and_mend_of_every_fault() -> None:
    """Each fault is told in full; what it does not say is left out."""

    report, out, _ = page()
    faults = [
        ConfigError("file:1", "is odd", rule="it must be even", mend="add one"),
        ConfigError("file:2", "first\nsecond"),
    ]
    report.failure("files", Faults("file", faults))

    assert out.getvalue().splitlines() == [
        "",
        "FAILED in stage 'files' after 0.0 s",
        "  where     file:1",
        "  found     is odd",
        "  expected  it must be even",
        "  mend      add one",
        "  where     file:2",
        "  found     first",
        "          - second",
    ]


def test_compact_json_says_the_same() -> None:
    """Only white space is taken out."""

    value = {"a": {"b": {"string": "x  y"}}, "c": [1, 2], "d": [{"e": []}]}
    text = compact(json.dumps(value, indent=2))

    assert json.loads(text) == value
    assert '"b": {"string": "x  y"}' in text


def test_words_of_others_steer_no_terminal() -> None:
    """Claims of the operator, the log of the daemon, errors of the kernel."""

    report, out, _ = page()
    report.say("one\x1b[2J\ntwo\x9b")
    report.quote("three\u202e")
    report.stage("ready", "four\x07")

    assert all(line.isprintable() for line in out.getvalue().splitlines())
    assert out.getvalue().count("\n") == 4
