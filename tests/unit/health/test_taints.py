"""Which taint a verdict puts on a device, and whether a list shows it as unhealthy."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.health.finding import Severity
from berth.health.taints import Rules, closes, taint_key, taints_of, tolerates
from berth.health.verdict import UNASKED, Status, Verdict
from berth.model.device import Taint

DRIVER = "berth.dev"
WELL = Verdict(status=Status.HEALTHY)
DEGRADED = Verdict(status=Status.HEALTHY, severity=Severity.DEGRADED, reason="xid-63")
SICK = Verdict(status=Status.UNHEALTHY, severity=Severity.FAULT, reason="xid-79")
RULES = Rules(driver=DRIVER)


@pytest.mark.parametrize(
    ("verdict", "taints", "unhealthy"),
    [
        (WELL, [], False),
        (DEGRADED, [("berth.dev/degraded", "xid-63", "None")], False),
        (SICK, [("berth.dev/fault", "xid-79", "NoSchedule")], True),
        (UNASKED, [("berth.dev/unknown", "unasked", "None")], False),
    ],
)
def test_verdict_is_told_alike_by_taint_and_list(
    verdict: Verdict, taints: list[tuple[str, str, str]], *, unhealthy: bool
) -> None:
    """What the scheduler is kept from, kubelet is kept from too."""

    assert list(taints_of(verdict, RULES)) == [
        Taint(key=key, value=value, effect=effect) for key, value, effect in taints
    ]
    assert closes(verdict, RULES) is unhealthy
    assert [taint_key(verdict, DRIVER)] == [key for key, _, _ in taints] or not taints


def test_unknown_keeps_pods_away_only_where_the_operator_says_so() -> None:
    """Our own silence must not empty a node by default."""

    strict = Rules(driver=DRIVER, unknown_effect="NoSchedule")

    assert [taint.effect for taint in taints_of(UNASKED, strict)] == ["NoSchedule"]
    assert closes(UNASKED, strict)
    assert taints_of(SICK, strict) == taints_of(SICK, RULES)


def test_pods_are_ended_for_reasons_that_the_operator_names() -> None:
    """For no other one, and not because nobody can ask."""

    rules = Rules(driver=DRIVER, evict=frozenset({"xid-79", "unasked", "xid-63"}))
    other = Verdict(status=Status.UNHEALTHY, severity=Severity.LOST, reason="lost")

    effects = [taints_of(verdict, rules)[0].effect for verdict in (SICK, other, UNASKED, DEGRADED)]
    assert effects == ["NoExecute", "NoSchedule", "None", "None"]


@pytest.mark.parametrize(
    ("tolerations", "holds"),
    [((), False), (("berth.dev/fault",), True), (("",), True), (("berth.dev/unknown",), False)],
)
def test_toleration_is_known_by_its_key(tolerations: tuple[str, ...], *, holds: bool) -> None:
    """The empty key tolerates everything."""

    assert tolerates(tolerations, "berth.dev/fault") is holds


@given(
    st.builds(
        Verdict,
        status=st.sampled_from(Status),
        severity=st.sampled_from([None, *Severity]),
        reason=st.sampled_from(["", "lost", "xid-79"]),
    ),
    st.sampled_from(["None", "NoSchedule"]),
)
def test_device_has_one_taint_of_health_at_most(verdict: Verdict, unknown_effect: str) -> None:
    """Beside that of the other door this is far from any server's limit."""

    taints = taints_of(verdict, Rules(driver=DRIVER, unknown_effect=unknown_effect))

    assert len(taints) <= 1
    assert all(taint.key == taint_key(verdict, DRIVER) for taint in taints)
