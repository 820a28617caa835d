"""Watches GPUs that vfio-pci has: whether the function is there, answers, and kept its driver.

A virtual machine has the rest of it, so nothing else can be asked without getting in its way.

Source: gpu-and-health.md §1.6, §6.1, §6.2.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

import trio

from berth.gpu.told import OFF_THE_BUS
from berth.health.finding import Finding, Severity, wholes
from berth.health.reports import Reports
from berth.host.nvml.values import NoAnswer
from berth.host.pcihealth import FunctionSight
from berth.model.inventory import Inventory
from berth.model.peripheral import Peripheral
from berth.node.health.judge import Watching
from berth.node.health.rounds import Rounds, Unanswerable, Watched
from berth.runtime.latest import Latest
from berth.vfio.binding import VFIO

SOURCE: Final = "pci"

Signs = Callable[[str, float], Awaitable[FunctionSight | NoAnswer]]
"""Looks at the PCI function of an address, for so many seconds at most."""


def _no_driver(driver: str) -> Finding:
    found = f"its driver is {driver}" if driver else "it has no driver"
    return Finding(
        code="no-driver",
        severity=Severity.FAULT,
        message=f"{found} and should be {VFIO}: bind it again (`driverctl set-override`), or let "
        "berth do so with `vfio = { rebind = true }`",
    )


def sign_findings(sign: FunctionSight, *, bound: bool) -> tuple[Finding, ...]:
    """What a look at a function speaks against it.

    Args:
        bound: It has to have vfio-pci; of others berth itself sees to the driver.
    """
    if sign.is_gone:
        return (OFF_THE_BUS,)
    if bound and sign.driver != VFIO:
        return (_no_driver(sign.driver),)
    return ()


def bound_for_good(inventory: Inventory) -> frozenset[str]:
    """What has vfio-pci by the operator's will: no claim gives it back to another driver."""
    return frozenset(
        whole
        for one in inventory.peripherals
        if one.kind == "vfio" and not one.only_counted
        for whole in wholes(one.identity)
    )


class VfioWatch:
    """The source ``pci``. It is a `health.reports.Prober`.

    Args:
        inventory: What devices there are.
        reports: Who is told.
        terms: By which times they are watched.
        signs: Looks at a PCI function.
    """

    def __init__(
        self,
        *,
        inventory: Latest[Inventory],
        reports: Reports,
        terms: Latest[Watching],
        signs: Signs,
    ) -> None:
        self._inventory = inventory
        self._terms = terms
        self._signs = signs
        self._rounds = Rounds(reports, source=SOURCE)

    @property
    def rounds(self) -> Rounds:
        """Its probes, for their figures."""
        return self._rounds

    async def probe_now(self, subject: str) -> None:
        """See `Prober`."""
        await self._rounds.probe_now(subject)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Watch until cancelled."""
        async with trio.open_nursery() as nursery:
            self._watch()
            nursery.start_soon(self._follow, self._inventory)
            nursery.start_soon(self._follow, self._terms)
            await nursery.start(self._rounds.run)
            task_status.started()

    async def _follow(self, news: Latest[Inventory] | Latest[Watching]) -> None:
        version = news.version
        while True:
            version = await news.wait_changed(version)
            self._watch()

    def _watch(self) -> None:
        """Watch every function that somebody may have, or has, whatever became of it."""
        functions = [one for one in self._inventory.get().peripherals if one.kind == "vfio"]
        self._rounds.watch(
            {
                one.identity: Watched(
                    terms=self._terms.get().of_peripheral(one),
                    probe=partial(self._probe, one),
                    mend="see `journalctl -k`, drain the node and boot",
                )
                for one in functions
                if one.exclusion is None or one.held_by
            },
            of=(one.identity for one in functions),
        )

    async def _probe(self, one: Peripheral) -> Sequence[Finding] | Unanswerable:
        sign = await self._signs(one.path, math.inf)  # the rounds keep the deadline
        if isinstance(sign, NoAnswer):
            return Unanswerable(why=sign.text)
        return sign_findings(sign, bound=not one.only_counted)
