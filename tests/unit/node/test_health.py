"""The owner of health: what is told of devices, when, and what outlives it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from berth.errors import ClaimError, HostError
from berth.health.finding import OPERATOR, Finding, Severity
from berth.health.terms import Terms
from berth.health.verdict import Status
from berth.model.device import Exclusion, Nic, NicKind
from berth.model.inventory import Inventory
from berth.model.peripheral import ABSENT, Peripheral
from berth.node.health import ASK_S, Health, Watching
from berth.node.healthfile import NAME, HealthFile
from berth.runtime.latest import Latest
from tests.unit.node.peripherals import modem

TERMS: Final = Terms(interval_s=5, deadline_s=4, timeout_s=30)
MODEM: Final = modem()
SICK: Final = Finding(code="xid-79", severity=Severity.LOST, message="it fell off the bus")
WORN: Final = Finding(code="remap-pending", severity=Severity.DEGRADED, message="reset it soon")


class Always:
    """Every device is watched by the same terms."""

    def of_peripheral(self, _one: Peripheral) -> Terms:
        """The terms."""
        return TERMS

    def of_nic(self, _nic: Nic) -> Terms:
        """The terms."""
        return TERMS


def health(
    *peripherals: Peripheral, nics: Sequence[Nic] = (), folder: Path | None = None, boot: str = "b"
) -> Health:
    """The owner over an inventory that stands still."""
    terms: Latest[Watching] = Latest(Always())
    return Health(
        inventory=Latest(Inventory(peripherals=peripherals or (MODEM,), nics=tuple(nics))),
        terms=terms,
        file=HealthFile(folder, boot_id=boot) if folder is not None else None,
        wall=lambda: 1_000_000 + trio.current_time(),
    )


async def test_reports_of_one_moment_are_told_once(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """However many came, readers see the last state of each device alone."""

    it = health()
    await nursery.start(it.run)
    version = it.state.version
    for _ in range(100):
        it.report(MODEM.identity, "nvml", (SICK,))
        it.report(MODEM.identity, "nvml", (SICK, WORN))
    await wait_all_tasks_blocked()

    assert it.state.version == version + 1
    assert it.state.get().of(MODEM.name).causes == 2
