"""The node of the scenes with one NIC whose link is down and a port that died with its card."""

from __future__ import annotations

from typing import Final

from berth.health.cases import Cases, Watched
from berth.health.course import Moment
from berth.health.finding import OPERATOR, Finding, Severity
from berth.health.terms import NIC
from berth.node.views.health import Courses
from tests.unit.node.views.scenes import INVENTORY

AT: Final = Moment(s=100.0, wall_s=1_800_000_000)
NO_CARRIER: Final = Finding(
    code="no-carrier", severity=Severity.DEGRADED, message="it has no carrier; check its cable"
)
SAID: Final = Finding(
    code="loose-cable", severity=Severity.FAULT, message="is seen to on Friday", permanent=True
)


def _cases() -> Cases:
    cases = Cases()
    cases.know({nic.name: Watched(subject=nic.identity, terms=NIC) for nic in INVENTORY.nics})
    held, other = "pci:0000:41:00.0", "link:boot:9"
    cases.report(held, "links", (NO_CARRIER,), asked=True, at=AT)
    cases.report(other, OPERATOR, (SAID,), asked=False, at=AT)
    cases.report(other, "links", (NO_CARRIER,), asked=True, at=AT)
    cases.report(other, "links", (), asked=True, at=AT)
    cases.unasked(other, "links", "its namespace is gone", AT)
    cases.fold(AT)
    return cases


_CASES: Final = _cases()
HEALTH: Final = _CASES.state
"""The held NIC is degraded, the virtual link sick, and the uplink was never asked."""


def courses_of(name: str) -> Courses:
    """What the verdict on a device comes from."""
    return _CASES.courses_of(name)
