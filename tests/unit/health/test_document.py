"""What speaks against devices on its way over a restart and over a boot."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest

from berth.errors import StateError
from berth.health.course import Course, Flapping
from berth.health.document import from_bytes, kept_of, recalled, same, to_bytes
from berth.health.finding import OPERATOR, Finding, Severity
from tests.unit.health.moments import LOST, SICK, WORN, at, codes, heard

GPU = "pci:0000:3b:00.0"
FOR_GOOD = Finding(
    code="remap-failure", severity=Severity.FAULT, message="replace it", permanent=True
)


def restarted(course: Course, *, boot: str = "this") -> Course:
    """The same in the next process, which begins at 5 s by another clock."""
    content = to_bytes(kept_of({GPU: course, "well": Course()}, boot_id="this", at=at(100)))
    kept = from_bytes(content, where="causes.json")
    found = recalled(kept, boot_id=boot, at=at(5))
    assert "well" not in found
    return found.get(GPU, Course())


def document(**changes: Any) -> bytes:
    """A file with one cause, a field of which is another."""
    kept = kept_of({GPU: heard(Course(), SICK, s=0)}, boot_id="this", at=at(1))
    value = json.loads(to_bytes(kept))
    value["health"]["courses"][0]["causes"][0].update(changes)
    return json.dumps(value).encode()


def test_causes_outlive_the_process_in_their_order() -> None:
    """Since when they hold by the wall, and which is the older."""

    course = heard(heard(Course(), WORN, s=10), WORN, SICK, s=40)

    found = restarted(course)

    assert [cause.finding for cause in found.causes] == [WORN, SICK]
    assert [cause.since.wall_s for cause in found.causes] == [at(10).wall_s, at(40).wall_s]
    assert [cause.since.s for cause in found.causes] == [5 - 90, 5 - 60]
    assert not found.askers


def test_what_was_healing_waits_for_its_source() -> None:
    """The next process has not seen that it was well."""

    found = restarted(heard(heard(Course(), SICK, s=0), s=10))

    assert found.due_s(recover_after_s=30, asked=None) == float("inf")
    assert found.causes[0].gone_s is None


def test_new_boot_heals_all_but_what_a_person_said_and_what_is_for_good() -> None:
    """A reset by reboot is what most faults ask for."""

    said = Finding(code="fan", severity=Severity.FAULT, message="it rattles")
    course = heard(Course(), SICK, LOST, FOR_GOOD, s=0)
    course = course.reported(OPERATOR, (said,), asked=False, at=at(1))

    assert codes(restarted(course, boot="another")) == ["remap-failure", "fan"]
    assert len(restarted(course).causes) == 4


def test_flapping_goes_on_after_a_restart_and_ends_with_the_boot() -> None:
    """It becomes quiet in half an hour of the new life."""

    course = attrs.evolve(heard(Course(), FOR_GOOD, s=0), flapping=Flapping(doublings=3))

    assert restarted(course).flapping == Flapping(changes=(5.0,), doublings=3)
    assert restarted(course, boot="another").flapping == Flapping()


def test_same_is_blind_to_age_and_words_alone() -> None:
    """So that time that goes by, or another number in each turn, is nothing to write down."""

    course = heard(Course(), SICK, s=0)

    assert same(course, heard(course, SICK, s=500))
    assert same(course, heard(course, attrs.evolve(SICK, message="81 degrees"), s=2))
    assert not same(course, heard(course, attrs.evolve(SICK, code="xid-79"), s=2))
    assert not same(course, attrs.evolve(course, flapping=Flapping(doublings=1)))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"severity": "awful"}, "severity 'awful'"),
        ({"severity": 3}, "int where str belongs"),
        ({"age_s": 1}, "int where float belongs"),
        ({"age_s": -1.0}, "age of -1.0 s"),
        ({"age_s": 1e999}, "no JSON"),
        ({"code": ""}, "code ''"),
        ({"code": "x" * 64}, "code 'xxx"),
        ({"code": "XID 79"}, "code 'XID 79'"),
        ({"colour": "red"}, "colour: is not known"),
    ],
)
def test_odd_file_is_refused_with_its_place(changes: dict[str, Any], words: str) -> None:
    """Each fault by its own words, with the file."""

    with pytest.raises(StateError, match=words) as caught:
        from_bytes(document(**changes), where="causes.json")
    assert "causes.json" in str(caught.value)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"schema": true}', b'{"schema": 1}', b"\xff", b"[" * 10_000]
)
def test_garbage_is_refused(content: bytes) -> None:
    """Whatever lies there."""

    with pytest.raises(StateError):
        from_bytes(content, where="causes.json")


def test_every_cut_of_a_file_is_refused() -> None:
    """Half of what was written is never taken for all of it."""

    content = document()

    for end in range(len(content) - 1):
        with pytest.raises(StateError):
            from_bytes(content[:end], where="causes.json")


def test_file_of_a_newer_program_is_refused() -> None:
    """It may say what this one would not understand."""

    value = json.loads(document())
    value["schema"] = 2

    with pytest.raises(StateError, match="has schema 2"):
        from_bytes(json.dumps(value).encode(), where="causes.json")
