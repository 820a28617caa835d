"""Verdicts to order, and a judge that tells them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import trio

from berth.health.finding import Severity
from berth.health.fold import REFUSED
from berth.health.taints import Rules
from berth.health.verdict import UNASKED, HealthState, Status, Verdict
from berth.node.health.inquiry import Inquiry
from berth.runtime.latest import Latest

RULES: Final = Rules(driver="berth.dev")
WELL: Final = Verdict(status=Status.HEALTHY, observed_s=1)
DEGRADED: Final = Verdict(
    status=Status.HEALTHY,
    severity=Severity.DEGRADED,
    reason="xid-63",
    message="a row was remapped",
    causes=1,
)
SICK: Final = Verdict(
    status=Status.UNHEALTHY,
    severity=Severity.FAULT,
    reason="xid-79",
    message="it fell off the bus; reboot",
    causes=1,
)
SILENT: Final = Verdict(status=Status.UNKNOWN, reason=REFUSED, message="it cannot be asked: off")


class Judge:
    """Gives verdicts as it is told to.

    Attributes:
        answers: What a device says when it is asked; one that is not in it says nothing.
        asked: Who was asked.
    """

    def __init__(self, **verdicts: Verdict) -> None:
        self.state: Latest[HealthState] = Latest(HealthState())
        self.answers: dict[str, Verdict] = {}
        self.asked: list[str] = []
        self.tell({name.replace("_", "-"): verdict for name, verdict in verdicts.items()})

    def tell(self, verdicts: Mapping[str, Verdict]) -> None:
        """Let these be the verdicts, beside those of before."""
        self.state.set(HealthState(verdicts={**self.state.get().verdicts, **verdicts}))

    async def ask(self, name: str) -> Verdict:
        """Answer, or never."""
        self.asked.append(name)
        if name not in self.answers:
            await trio.sleep_forever()
        await trio.lowlevel.checkpoint()
        return self.answers[name]

    def inquiry(self, rules: Rules = RULES) -> Inquiry:
        """What whoever gives devices away asks."""
        return Inquiry(self, rules)


__all__ = ["DEGRADED", "RULES", "SICK", "SILENT", "UNASKED", "WELL", "Judge"]
