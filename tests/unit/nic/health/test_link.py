"""What a link's state says against its NIC, row by row of network.md §7."""

from __future__ import annotations

import math
from typing import Any

import attrs
import pytest

from berth.health.finding import CODE_LIMIT, MESSAGE_LIMIT, Finding, Severity
from berth.host.netlink.link import IFF_UP, Link
from berth.nic.health.link import (
    ATTACH_S,
    CARRIER_S,
    FLAP_S,
    FLAPS,
    LEFT_S,
    QUIET_S,
    RETURN_S,
    SETTLE_S,
    LinkMemory,
    judge_link,
    resumed,
)
from berth.nic.health.post import Place, Post
from berth.nic.health.sight import LinkSight
from berth.nic.record import Stage
from tests.unit.nic.links import (
    SANDBOX,
    child_config_of,
    child_link_of,
    config_of,
    link_of,
    record_of,
)

HOLDER = "team/claim"
RECORD = record_of(link_of(), stage=Stage.ATTACHED, sandbox=SANDBOX, pod_index=3)
ATTACHED = Post(identity="link:boot:3", place=Place.POD, record=RECORD, holder=HOLDER)
FREE = Post(identity="pci:0000:41:00.0", place=Place.FREE, index=3, address="0000:41:00.0")
STAGED = attrs.evolve(ATTACHED, place=Place.STAGED)
PARENT = Post(identity="pci:0000:42:00.0", place=Place.PARENT, index=3, holder=HOLDER)
CHILD = record_of(
    None,
    stage=Stage.ATTACHED,
    sandbox=SANDBOX,
    config=child_config_of(),
    parent_index=3,
)
UP = link_of("net1", carrier=True, operstate="up")
CUT = link_of("net1", carrier=False, operstate="lowerlayerdown")
DOWN = link_of("net1", flags=0, carrier=False, operstate="down")
LONG_AGO = LinkMemory(sandbox=SANDBOX, holder=HOLDER)
# Of a NIC that has been in its pod since before the test.


class Course:
    """Looks one after the other, each judged with what the ones before left."""

    def __init__(self, post: Post, memory: LinkMemory = LONG_AGO) -> None:
        self.post = post
        self.memory = memory
        self.due_s = math.inf

    def look(self, at_s: float, link: Link | None, **more: Any) -> dict[str, Finding]:
        """What is told at a moment, by code."""
        sight = LinkSight(link=link, **more)
        verdict = judge_link(self.post, sight, self.memory, at_s=at_s)
        self.memory, self.due_s = verdict.memory, verdict.due_s
        for finding in verdict.findings:
            assert len(finding.code.encode()) <= CODE_LIMIT
            assert 0 < len(finding.message.encode()) <= MESSAGE_LIMIT
        return {finding.code: finding for finding in verdict.findings}


def test_a_link_in_its_pod_with_carrier_is_well() -> None:
    """Nothing speaks against what is as it should be."""

    course = Course(ATTACHED)

    assert course.look(0, UP) == {}
    assert course.due_s == math.inf


@pytest.mark.parametrize("link", [CUT, DOWN, attrs.evolve(UP, operstate="lowerlayerdown")])
def test_carrier_that_is_gone_is_told_after_five_seconds(link: Link) -> None:
    """It is looked at again just then, and what comes back earlier is never told."""

    course = Course(ATTACHED)

    assert course.look(100, link) == {}
    assert course.due_s == 100 + CARRIER_S
    assert course.look(104.9, link) == {}
    told = course.look(105, link)
    assert told["no-carrier"].severity is Severity.DEGRADED
    assert "team/pod" in told["no-carrier"].message
    assert course.look(106, UP) == {}
    assert course.look(107, link) == {}


def test_a_group_may_call_a_lost_carrier_a_fault() -> None:
    """Its word is the finding's severity."""

    course = Course(attrs.evolve(ATTACHED, carrier=Severity.FAULT))
    course.look(100, CUT)

    assert course.look(105, CUT)["no-carrier"].severity is Severity.FAULT


def test_carrier_may_take_thirty_seconds_to_come_after_the_attach() -> None:
    """A port that trains its link is no fault; each new sandbox counts anew."""

    course = Course(ATTACHED, LinkMemory())

    assert course.look(100, CUT) == {}
    assert course.due_s == 100 + ATTACH_S
    assert course.look(129.9, CUT) == {}
    assert "no-carrier" in course.look(130, CUT)
    other = attrs.evolve(SANDBOX, id="other")
    course.post = attrs.evolve(ATTACHED, record=attrs.evolve(RECORD, sandbox=other))
    assert course.look(131, CUT) == {}
    assert course.due_s == 131 + ATTACH_S


def test_carrier_that_came_and_went_soon_after_the_attach_is_told_after_five_seconds() -> None:
    """So it is for a daemon that started anew, to which the attach is of now."""

    course = Course(ATTACHED, LinkMemory())

    assert course.look(100, UP) == {}
    assert course.look(101, CUT) == {}
    assert course.due_s == 101 + CARRIER_S
    assert "no-carrier" in course.look(106, CUT)


def test_a_link_that_nobody_wants_up_needs_no_carrier() -> None:
    """A claim may leave it to the pod to set its NIC up."""

    config = config_of(interface={"up": False})
    course = Course(attrs.evolve(ATTACHED, record=attrs.evolve(RECORD, config=config)))
    course.look(100, DOWN)

    assert course.look(200, DOWN) == {}


def test_a_free_link_without_carrier_is_told_only_if_its_group_says_so() -> None:
    """And even then not when it is down, as berth leaves it."""

    silent, told = Course(FREE), Course(attrs.evolve(FREE, carrier_when_free=True))
    for course in (silent, told):
        course.look(100, CUT)

    assert silent.look(200, CUT) == {}
    assert "no-carrier" in told.look(200, CUT)
    assert told.look(201, DOWN) == {}


def test_a_link_that_lost_carrier_too_often_is_told_until_it_was_quiet() -> None:
    """Four times within five minutes; half an hour after the last it is steady again."""

    course = Course(ATTACHED)
    for count in range(FLAPS):
        assert course.look(100 + count, attrs.evolve(UP, carrier_down_count=7 + count)) == {}
    assert "flapping" in course.look(200, attrs.evolve(UP, carrier_down_count=7 + FLAPS))
    again = 200 + FLAP_S + 1
    assert "flapping" in course.look(again, attrs.evolve(UP, carrier_down_count=8 + FLAPS))
    quiet = attrs.evolve(UP, carrier_down_count=8 + FLAPS)
    assert "flapping" in course.look(again + QUIET_S - 1, quiet)
    assert course.look(again + QUIET_S, quiet) == {}


def test_losses_of_carrier_that_lie_far_apart_are_no_flapping() -> None:
    """A switch that is updated now and then is no bad cable."""

    course = Course(ATTACHED)
    for turn in range(20):
        link = attrs.evolve(UP, carrier_down_count=turn)
        assert course.look(turn * (FLAP_S / 3 + 1), link) == {}


def test_what_berth_does_to_a_link_on_its_way_is_no_flapping() -> None:
    """The kernel counts that, too; but under another index, or in another place."""

    course = Course(ATTACHED)
    course.look(0, attrs.evolve(UP, carrier_down_count=1))

    assert course.look(1, attrs.evolve(UP, index=9, carrier_down_count=50)) == {}
    course.post = STAGED
    assert course.look(2, attrs.evolve(UP, index=9, carrier_down_count=100)) == {}


def test_claims_that_follow_each_other_make_no_flapping() -> None:
    """Each has the NIC set down at home, and up again."""

    course = Course(FREE, LinkMemory())
    for turn in range(10):
        for post in (FREE, STAGED):
            course.post = post
            link = attrs.evolve(UP, index=3, carrier_down_count=turn + (post is STAGED))
            assert course.look(turn, link) == {}


def test_a_message_can_be_shown_whatever_is_in_it() -> None:
    """Names and the kernel's words are not ours."""

    fault = "x\n\x1b[31m" + "é" * 500
    course = Course(attrs.evolve(ATTACHED, place=Place.RETURNING, fault=fault))
    course.look(0, None)
    (told,) = course.look(60, None).values()

    assert told.message.isprintable()


def test_many_losses_between_two_looks_are_flapping() -> None:
    """The kernel counts what nobody saw."""

    course = Course(ATTACHED)
    course.look(0, attrs.evolve(UP, carrier_down_count=1))

    assert "flapping" in course.look(15, attrs.evolve(UP, carrier_down_count=900))


def test_a_pf_without_carrier_speaks_against_its_vf() -> None:
    """A VF's own driver may tell carrier all the time."""

    course = Course(ATTACHED)
    pf = link_of("ens1", index=2, carrier=True, operstate="up")
    assert course.look(0, UP, pf="0000:41:00.0", pf_link=pf) == {}
    cut = attrs.evolve(pf, carrier=False)
    assert course.look(1, UP, pf="0000:41:00.0", pf_link=cut) == {}
    told = course.look(6, UP, pf="0000:41:00.0", pf_link=cut)["pf-down"]
    assert told.severity is Severity.DEGRADED
    assert "0000:41:00.0" in told.message
    down = attrs.evolve(pf, flags=0)
    assert "set ens1 up" in course.look(7, UP, pf="0000:41:00.0", pf_link=down)["pf-down"].message
    assert course.look(8, UP, pf="0000:41:00.0") == {}


def test_a_link_that_is_not_in_its_pod_is_told_at_once() -> None:
    """With where it was found, if it was."""

    course = Course(ATTACHED)

    told = course.look(0, None)["missing"]
    assert told.severity is Severity.FAULT
    assert "team/pod" in told.message
    assert "nowhere" in told.message
    assert "at home as eth0" in course.look(1, None, where="at home as eth0")["missing"].message
    assert course.look(2, UP) == {}


def test_a_pod_that_ended_took_its_link_along() -> None:
    """What comes home by itself is not missing."""

    assert Course(ATTACHED).look(0, None, ended=True) == {}


def test_a_link_that_is_not_at_home_for_its_holder_is_missing_after_a_while() -> None:
    """A link that is made anew has its time."""

    course = Course(STAGED)

    assert course.look(100, None) == {}
    assert course.look(100 + SETTLE_S, None)["missing"].severity is Severity.FAULT
    assert course.look(106, DOWN) == {}


def test_a_pod_that_goes_on_without_its_nic_is_told() -> None:
    """A sandbox that is torn down outlives its NICs by less."""

    course = Course(STAGED)

    assert course.look(100, UP, in_former=True) == {}
    told = course.look(100 + LEFT_S, UP, in_former=True)["missing"]
    assert "team/pod goes on without it" in told.message
    assert course.look(101 + LEFT_S, UP) == {}


def test_a_nic_that_could_not_be_brought_into_its_pod_is_told_until_it_is() -> None:
    """A pod that started while the daemon was away may run without it."""

    home = attrs.evolve(RECORD, stage=Stage.HOME, sandbox=None, fault="net1 is taken")
    course = Course(attrs.evolve(STAGED, record=home))

    told = course.look(0, UP)["missing"]
    assert told.severity is Severity.FAULT
    assert "net1 is taken" in told.message
    course.post = ATTACHED
    assert course.look(1, UP) == {}


def test_a_free_link_that_is_nowhere_is_lost_after_a_while() -> None:
    """A driver makes its link some time after it was bound."""

    gone = Course(FREE)
    linkless = Course(attrs.evolve(FREE, index=0, linkless=True))
    for course in (gone, linkless):
        assert course.look(100, None) == {}
        assert course.look(100 + SETTLE_S, None)["lost"].severity is Severity.LOST


def test_a_function_that_has_no_link_on_purpose_is_not_lost() -> None:
    """As one whose driver makes none."""

    course = Course(attrs.evolve(FREE, index=0))
    course.look(100, None)

    assert course.look(200, None) == {}


@pytest.mark.parametrize("holder", [HOLDER, ""])
def test_a_parent_that_is_down_is_a_fault_for_all_over_it(holder: str) -> None:
    """Held or not: what is made over it has no carrier."""

    told = Course(attrs.evolve(PARENT, holder=holder)).look(0, DOWN)

    assert told["parent-down"].severity is Severity.FAULT
    assert "set it up" in told["parent-down"].message


def test_a_parent_without_carrier() -> None:
    """As bad as its group says while somebody is over it; a free one only if the group says so."""

    held, free = Course(PARENT), Course(attrs.evolve(PARENT, holder=""))
    for course in (held, free):
        course.look(100, CUT)

    assert held.look(105, CUT)["no-carrier"].severity is Severity.DEGRADED
    assert free.look(105, CUT) == {}


def test_a_parent_whose_link_is_gone() -> None:
    """Those over it have lost it at once; one that nobody uses may come back."""

    held, free = Course(PARENT), Course(attrs.evolve(PARENT, holder=""))

    assert held.look(100, None)["missing"].severity is Severity.FAULT
    assert free.look(100, None) == {}
    assert free.look(105, None)["lost"].severity is Severity.LOST


def test_what_one_pod_does_to_its_child_is_no_fault_of_the_parent() -> None:
    """It is told, and the parent stays as good as it is for others."""

    course = Course(attrs.evolve(PARENT, children=(CHILD, CHILD, CHILD)))
    children = (
        LinkSight(),
        LinkSight(link=child_link_of(), duplicates=("192.0.2.5/24",), lacking=("routes[0]",)),
        LinkSight(ended=True),
    )
    told = course.look(0, UP, children=children)

    assert told.keys() == {"missing", "duplicate-address", "drifted"}
    assert {finding.severity for finding in told.values()} == {Severity.DEGRADED}
    assert "192.0.2.5/24 in pod team/pod" in told["duplicate-address"].message


def test_addresses_and_routes_that_the_pod_lacks() -> None:
    """What is missing is told and not set again; a duplicate has its own word."""

    course = Course(ATTACHED)
    told = course.look(0, UP, lacking=("addresses[0]",), duplicates=("2001:db8::5/64",))

    assert told["drifted"].severity is told["duplicate-address"].severity is Severity.DEGRADED
    assert "addresses[0] in pod team/pod" in told["drifted"].message
    assert "2001:db8::5/64" in told["duplicate-address"].message
    assert course.look(1, UP) == {}


def test_a_link_that_is_down_lacks_no_routes() -> None:
    """They go with it, and that it is down is told already."""

    told = Course(ATTACHED).look(0, DOWN, lacking=("routes[0]",))

    assert "drifted" not in told


def test_a_long_list_is_cut() -> None:
    """A message stays within its limit, and says how much it leaves out."""

    lacking = tuple(f"addresses[{number}]" for number in range(200))
    told = Course(ATTACHED).look(0, UP, lacking=lacking)

    assert "and 195 more" in told["drifted"].message


def test_a_nic_that_cannot_be_put_back_is_told_after_a_while() -> None:
    """Every return fails for a moment while the kernel sends the link home."""

    post = attrs.evolve(ATTACHED, place=Place.RETURNING, fault="mtu is 9000, not 1500")
    course = Course(post)

    assert course.look(100, None) == {}
    told = course.look(100 + RETURN_S, None)["restore-failed"]
    assert told.severity is Severity.FAULT
    assert "mtu is 9000, not 1500" in told.message


def test_a_driver_that_does_not_let_go_is_busy() -> None:
    """One word for it: the return that it holds up is no second fault."""

    post = attrs.evolve(FREE, place=Place.RETURNING, holder=HOLDER, fault="blocked", busy=True)

    assert Course(post).look(0, None).keys() == {"busy"}


def test_a_link_that_exists_no_more_is_lost() -> None:
    """Its record says so."""

    told = Course(attrs.evolve(ATTACHED, place=Place.GONE)).look(0, None)

    assert told["lost"].severity is Severity.LOST


def test_of_a_link_on_its_way_nobody_can_say_anything() -> None:
    """Until it is there, or does not get there."""

    returning = attrs.evolve(ATTACHED, place=Place.RETURNING)

    assert attrs.evolve(ATTACHED, place=Place.MOVING).is_moving
    assert returning.is_moving
    assert not attrs.evolve(returning, fault="no way").is_moving
    assert not attrs.evolve(returning, busy=True).is_moving
    assert not ATTACHED.is_moving


def test_what_somebody_else_moves_is_not_looked_for() -> None:
    """A CNI plugin's pods are its own affair."""

    assert Course(attrs.evolve(FREE, place=Place.ELSEWHERE, holder=HOLDER)).look(0, None) == {}


def test_a_restart_takes_up_what_was_told() -> None:
    """A fault does not heal by our own restart, and waits for no time again."""

    standing = [
        Finding(code=code, severity=Severity.DEGRADED, message="told")
        for code in ("no-carrier", "flapping")
    ]
    course = Course(ATTACHED, resumed(standing, at_s=1000))

    assert course.look(1000, CUT).keys() == {"no-carrier", "flapping"}
    assert course.look(1001, UP).keys() == {"flapping"}
    assert course.look(1002, CUT).keys() == {"flapping"}
    assert course.look(1000 + QUIET_S, UP) == {}


def test_keys_by_which_events_tell_of_a_link() -> None:
    """Its own in its pod, its PF's at home, and those of links over it."""

    child = LinkSight(link=child_link_of(index=8), nsid=4)
    sight = LinkSight(
        link=attrs.evolve(UP, index=5), nsid=2, pf_link=link_of(index=6), children=(child,)
    )

    assert sight.keys == {(2, 5), (None, 6), (4, 8)}


def test_dummies_and_others_without_operational_state_have_carrier() -> None:
    """A driver that tells none is believed its carrier."""

    dummy = link_of("net1", flags=IFF_UP, carrier=True, operstate="unknown")

    assert Course(ATTACHED).look(0, dummy) == {}
