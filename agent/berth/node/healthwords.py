"""What the surveys' words for a sick device are as findings.

A survey sees that something is gone, or has no driver; it asks the device nothing. Words that tell
why a device is not offered, as that somebody has it, are no sickness.

Source: gpu-and-health.md §2.3, §6.2; network.md §4.5, §7.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import trio

from berth.gpu.witness import LOST
from berth.health.finding import CODE_LIMIT, Finding, Severity
from berth.health.reports import Reports
from berth.model.device import Nic
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
    "restore-failed": "it could not be put back as it was; `berth why` tells the step, which is "
    "tried again",
}

_NIC_WORDS: Final = frozenset({LOST, ABSENT, "no-driver", "busy", "restore-failed"})
# Others say why a NIC is not offered, or not now: it is in use, on its way home, or not selected.


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
    for identity, word in _told(inventory):
        finding = _finding(word)
        found.setdefault(identity, {})[finding.code] = finding
    return {identity: tuple(each.values()) for identity, each in found.items()}


def _told(inventory: Inventory) -> Iterator[tuple[str, str]]:
    for one in inventory.peripherals:
        if one.unhealthy:
            yield one.identity, one.unhealthy
    for nic in inventory.nics:
        for word in _words_of(nic, inventory):
            if word in _NIC_WORDS:
                yield nic.identity, word


def _words_of(nic: Nic, inventory: Inventory) -> Iterator[str]:
    # What no group selects is no business of ours.
    if nic.exclusion is not None and (nic.group or nic.held_by):
        yield nic.exclusion.reason
    listing = inventory.listing_by_name.get(nic.name)
    if listing is not None:
        yield listing.unhealthy


def _finding(word: str) -> Finding:
    return Finding(
        code=slug(word)[:CODE_LIMIT],
        severity=Severity.LOST if word in {LOST, ABSENT} else Severity.FAULT,
        message=_WORDS.get(word, f"the survey finds it {word}; `berth why` tells more"),
    )
