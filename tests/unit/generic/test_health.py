"""What is found against device nodes, by what lies at their paths and by a command's answer."""

from __future__ import annotations

import attrs
import pytest

from berth.generic.health import Answer, command_findings, is_watched, node_findings
from berth.health.finding import MESSAGE_LIMIT, Finding, Severity
from berth.host.nodefacts import AtPath
from berth.model.device import Exclusion
from berth.model.edits import NodeType
from berth.model.peripheral import Peripheral
from tests.unit.generic.nodes import MODEM, only, surveyed, tty

HERE = AtPath(type=NodeType.CHAR, major=188, minor=0)
PROGRAM = "/opt/ok"


def modem() -> Peripheral:
    """A serial adapter at /dev/ttyUSB0, 188:0."""
    return only(surveyed([tty(0)], MODEM))


def absent(told: str) -> tuple[Finding, ...]:
    """The finding that says so."""
    message = f"{told}: plug it in again, or delete the pod that has it"
    return (Finding(code="absent", severity=Severity.LOST, message=message),)


@pytest.mark.parametrize(
    ("at", "told"),
    [
        (HERE, ""),
        (AtPath(exists=False), "/dev/ttyUSB0 is not there"),
        (AtPath(), "/dev/ttyUSB0 is no device node any more"),
        (
            attrs.evolve(HERE, minor=1),
            "/dev/ttyUSB0 is character device 188:1 now, and was 188:0",
        ),
        (
            attrs.evolve(HERE, type=NodeType.BLOCK),
            "/dev/ttyUSB0 is block device 188:0 now, and was 188:0",
        ),
    ],
)
def test_node_is_what_it_was_or_absent(at: AtPath, told: str) -> None:
    """Gone, another thing, or another device under its name."""

    assert node_findings(modem(), {"/dev/ttyUSB0": at}) == (absent(told) if told else ())


def test_what_the_survey_misses_is_absent() -> None:
    """Without a look: its numbers may be another's by now."""
    gone = attrs.evolve(modem().absent(), held_by=("team/user",))
    missing = attrs.evolve(
        gone,
        unhealthy="",
        exclusion=Exclusion(reason="nodes-missing", detail="/dev/snd/controlC0 is not there"),
    )

    assert node_findings(gone, {}) == absent("/dev/ttyUSB0 is not seen on this node")
    assert node_findings(missing, {}) == absent("/dev/snd/controlC0 is not there")


def test_what_nobody_is_offered_is_not_watched() -> None:
    """Unless somebody has it."""
    excluded = attrs.evolve(modem(), exclusion=Exclusion(reason="overlap"))

    assert is_watched(modem())
    assert not is_watched(excluded)
    assert is_watched(attrs.evolve(excluded, held_by=("team/user",)))
    assert not is_watched(attrs.evolve(modem(), kind="gpu"))


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (Answer(status=1, said=b"no carrier\n"), "no carrier"),
        (Answer(status=1), "/opt/ok says that it is not well"),
        (
            Answer(status=3, said=b"usage: ok NODE"),
            "/opt/ok ended with status 3, which is neither 0, 1 nor 2: usage: ok NODE",
        ),
        (Answer(status=1, said=b"no carrier\n", complained=b"set -x\n"), "no carrier"),
        (
            Answer(status=3, complained=b"\xa9tte\n 3: \x1b[1mmmcli: not found\n\n"),
            r"/opt/ok ended with status 3, which is neither 0, 1 nor 2: 3: \x1b[1mmmcli: not found",
        ),
        (Answer(status=-11), "/opt/ok was ended by signal SIGSEGV"),
        (Answer(status=-99), "/opt/ok was ended by signal 99"),
        (
            Answer(status=-15, late_s=10, said=b"asking"),
            "/opt/ok had not ended after 10 s and was killed: asking",
        ),
        (Answer(status=0, late_s=0.5), "/opt/ok had not ended after 0.5 s and was killed"),
        (Answer(status=1, said=b" a\n\x1b[31m\tb\xff\xc3"), r"a \x1b[31m b\xff"),
    ],
)
def test_answer_of_a_command_is_told_in_words_that_can_be_shown(answer: Answer, told: str) -> None:
    """What it printed goes to people and to their terminals."""

    assert command_findings(PROGRAM, answer) == (
        Finding(code="probe-failed", severity=Severity.FAULT, message=told),
    )


def test_command_may_say_that_all_is_well_or_that_it_does_not_know() -> None:
    """Neither speaks against the device."""

    assert command_findings(PROGRAM, Answer(status=0, said=b"no carrier")) == ()
    assert command_findings(PROGRAM, Answer(status=2, said=b"asleep")) == "asleep"
    assert command_findings(PROGRAM, Answer(status=2)) == "/opt/ok says that it does not know"


def test_message_is_bounded_whatever_the_bytes() -> None:
    """An unprintable byte becomes four signs."""
    found = command_findings("/" + 400 * "x", Answer(status=3, said=200 * b"\xff"))

    assert not isinstance(found, str)
    assert len(found[0].message.encode()) <= MESSAGE_LIMIT
