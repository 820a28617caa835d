"""What kubelet's lists prove, and what they do not."""

from __future__ import annotations

import attrs
import pytest

from berth.model.resource import Usage
from berth.node.plugin.evidence import Absence, Finding, Judgement, Look, judge, unknown
from berth.node.records.given import Given
from tests.unit.node.peripherals import USER, given, modem, usage

GIVEN = given(modem())
BOUND = given(modem(), bound=True, container=USER)


def look(*usages: Usage, at_s: float = 100.0, age_s: float = 1000.0) -> Look:
    """A list."""
    return Look(at_s=at_s, usages=usages, kubelet_age_s=age_s)


def judged(
    one: Given,
    seen: Look,
    *,
    absence: Absence | None = None,
    known_since_s: float = 0.0,
    is_live: bool = False,
) -> Judgement:
    """A judgement, of something that was given long ago."""
    return judge(one, seen, absence=absence, known_since_s=known_since_s, is_live=is_live)


def test_first_list_names_the_container() -> None:
    """The plugin is asked for ids alone; the list says who has them."""

    found = judged(GIVEN, look(usage("modem-0")))

    assert found == Judgement(finding=Finding.RENEW, given=BOUND)
    assert str(found.given.holder).startswith("pod team/user, container main, through")


def test_container_that_the_runtime_tells_of_is_noted_once() -> None:
    """So that the next process waits for the runtime's word before it frees anything."""

    found = judged(BOUND, look(usage("modem-0")), is_live=True)

    assert found == Judgement(finding=Finding.RENEW, given=attrs.evolve(BOUND, ran=True))
    assert judged(found.given, look(usage("modem-0"))).finding is Finding.KEEP


def test_list_that_says_nothing_new_changes_nothing() -> None:
    """Nothing is written every ten seconds."""

    assert judged(BOUND, look(usage("modem-0"))).finding is Finding.KEEP
    missed = attrs.evolve(BOUND, holder=attrs.evolve(BOUND.holder, missed=True))
    absence = Absence(since_s=99.0)
    assert judged(missed, look(), absence=absence).finding is Finding.KEEP


def test_one_list_without_it_frees_nothing() -> None:
    """It is told as missed, so that a claim waits for it."""

    found = judged(BOUND, look())

    assert found.finding is Finding.RENEW
    assert found.given.holder.missed
    assert found.absence == Absence(since_s=100.0)


@pytest.mark.parametrize(
    ("absence", "age_s", "is_live", "freed"),
    [
        (Absence(since_s=90.0), 1000.0, False, True),
        (Absence(since_s=91.0), 1000.0, False, False),
        (None, 1000.0, False, False),
        (Absence(since_s=10.0), 59.0, False, False),
        (Absence(since_s=10.0), 60.0, False, True),
        (Absence(since_s=10.0), 1000.0, True, False),
    ],
)
def test_two_lists_apart_free_what_nothing_runs_of(
    absence: Absence | None, age_s: float, is_live: bool, freed: bool
) -> None:
    """Ten seconds apart, of a kubelet that knows its pods, and no container is left."""

    found = judged(BOUND, look(age_s=age_s), absence=absence, is_live=is_live)

    assert (found.finding is Finding.FREE) is freed


@pytest.mark.parametrize(("known_since_s", "freed"), [(80.0, True), (81.0, False)])
def test_never_shown_is_free_after_twenty_seconds(known_since_s: float, freed: bool) -> None:
    """A pod whose admission failed for another reason is never listed."""

    found = judged(GIVEN, look(), absence=Absence(since_s=85.0), known_since_s=known_since_s)

    assert (found.finding is Finding.FREE) is freed


def test_seen_again_forgets_the_absence() -> None:
    """A list that failed to show it was wrong."""

    missed = attrs.evolve(BOUND, holder=attrs.evolve(BOUND.holder, missed=True))
    found = judged(missed, look(usage("modem-0")), absence=Absence(since_s=1.0, lists=7))

    assert found == Judgement(finding=Finding.RENEW, given=BOUND)


def test_other_resource_with_the_same_id_shows_nothing() -> None:
    """Ids are names within a resource."""

    assert judged(BOUND, look(usage("modem-0", resource="a.dev/b"))).absence is not None


def test_unknown_is_what_no_answer_explains() -> None:
    """A lost record shows itself by kubelet's list."""

    usages = (usage("modem-0", "modem-1"), usage("x", resource="a.dev/b"))

    assert unknown(usages, [GIVEN]) == (usage("modem-1"), usage("x", resource="a.dev/b"))
    assert unknown((usage("modem-0"),), [GIVEN]) == ()
