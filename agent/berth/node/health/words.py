"""What the surveys' words for a sick device are as findings.

A survey sees that something is gone, or has no driver; it asks the device nothing.

Of NICs it tells nothing here: it sees them at any moment of a move, when a link is nowhere and
nothing is wrong. `berth.node.watches.nics` looks at them where they should be, and waits where it
must.

Source: gpu-and-health.md §2.3, §6.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import trio

from berth.gpu.witness import LOST
from berth.health.finding import CODE_LIMIT, Finding, Severity
from berth.health.reports import Reports
from berth.model.inventory import Inventory
from berth.model.names import slug
from berth.model.peripheral import ABSENT

SOURCE: Final = "inventory"
"""Who tells it."""

_WORDS: Final[Mapping[str, str]] = {
    LOST: "it is not on the bus, or its driver does not know it any more; look into the kernel's "
    "log, then seat it anew, or `berth device forget` it",
    ABSENT: "the machine does not show it any more; plug it in again, or delete the pod that has "
    "it",
    "no-driver": "no driver has it; bind it again, or load the driver",
    "driver-mismatch": "the driver's library and its kernel module differ; reboot, or reload the "
    "module",
    "nodes-missing": "device nodes that its containers need are not there; `berth why` names them",
    "busy": "its driver does not let go of it; end what uses it on the host",
}


class Words:
    """The source of what the surveys tell. It is a `health.reports.Prober`.

    Args:
        reports: Who is told.
    """

    def __init__(self, reports: Reports) -> None:
        self._reports = reports
        self._found: Mapping[str, tuple[Finding, ...]] = {}
        self._told: frozenset[str] = frozenset()

    def see(self, inventory: Inventory) -> None:
        """Report what the inventory says now; what heals of a device is ours until it has."""
        here = {one.identity for one in inventory.every}
        for subject in self._told - here:
            self._reports.retire(subject, SOURCE)
        found = self._found = survey_findings(inventory)
        self._told = frozenset(
            subject
            for subject in here
            if subject in found or self._reports.standing(subject, SOURCE)
        )
        for subject in self._told:
            self._reports.report(subject, SOURCE, found.get(subject, ()), asked=False)

    async def probe_now(self, subject: str) -> None:
        """Report once more what was seen last: a person may have cleared what is still so."""
        await trio.lowlevel.checkpoint()
        if subject in self._told:
            self._reports.report(subject, SOURCE, self._found.get(subject, ()), asked=False)


def survey_findings(inventory: Inventory) -> Mapping[str, tuple[Finding, ...]]:
    """What the surveys have against each device, by identity; of most devices nothing."""
    found: dict[str, dict[str, Finding]] = {}
    for one in inventory.peripherals:
        if one.unhealthy:
            finding = _finding(one.unhealthy)
            found.setdefault(one.identity, {})[finding.code] = finding
    return {identity: tuple(each.values()) for identity, each in found.items()}


def _finding(word: str) -> Finding:
    return Finding(
        code=slug(word)[:CODE_LIMIT],
        severity=Severity.LOST if word in {LOST, ABSENT} else Severity.FAULT,
        message=_WORDS.get(word, f"the survey finds it {word}; `berth why` tells more"),
    )
