"""Who looks after the health of devices: the owner, what reports to it, and the settings of both.

A source is attached in `HealthWork.run`: it is given ``self.health`` to report to (its `Reports`),
is started there, and is named to ``self.health.add_prober`` if it can be asked at once. A reader
follows ``self.health.state``, and asks ``self.health.ask(name)`` before it gives a device away.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import trio

from berth.config.schema import Config
from berth.daemon.holdings import Holdings
from berth.health import watching
from berth.host.pcisigns import PciSigns
from berth.node.gpus.gpus import Gpus
from berth.node.health.file import HealthFile
from berth.node.health.judge import Health, Watching
from berth.node.health.rounds import Rounds
from berth.node.watches.commands import CommandWatch
from berth.node.watches.gpus import GpuWatch
from berth.node.watches.nics import NicWatch
from berth.node.watches.nodes import GenericWatch
from berth.node.watches.vfio import VfioWatch
from berth.runtime.latest import Latest
from berth.runtime.logs import get_log

REMARK_S: Final = 60.0
"""How long after a start or reload devices may appear before one is called missing."""

_log = get_log(__name__)


class HealthWork:
    """The owner of health, and its sources.

    Args:
        boot_id: Of this boot.

    Attributes:
        terms: How devices are watched by the settings in force.
        folder: What outlives the process, for figures.
        gpus: Watches GPUs of the driver; ``None`` where GPUs are off.
    """

    def __init__(self, config: Config, held: Holdings, *, boot_id: str) -> None:
        self._settings = watching.Watching.of(config)
        self.terms: Latest[Watching] = Latest(self._settings)
        self._inventory = held.discovery.inventory
        file = HealthFile(config.node.state_dir / "health", boot_id=boot_id)
        self.folder = file.folder
        self.health = Health(inventory=held.discovery.inventory, terms=self.terms, file=file)
        self._nodes = GenericWatch(
            self.health, inventory=held.discovery.inventory, terms=self.terms
        )
        self._commands = CommandWatch(
            self.health,
            inventory=held.discovery.inventory,
            commands=held.stock.commands,
            terms=self.terms,
        )
        self._nics = self._nic_watch(config, held)
        for prober in (self._nodes.rounds, self._commands.rounds, self._nics):
            self.health.add_prober(prober)
        self.gpus: GpuWatch | None = None
        self._functions: VfioWatch | None = None
        if held.gpus is not None:
            self._watch_gpus(config, held, held.gpus)

    def _watch_gpus(self, config: Config, held: Holdings, gpus: Gpus) -> None:
        inventory, signs = held.discovery.inventory, PciSigns().of
        self.gpus = GpuWatch(
            gpus,
            inventory=inventory,
            reports=self.health,
            terms=self.terms,
            xids=config.health.xid,
            signs=signs,
        )
        self._functions = VfioWatch(
            inventory=inventory, reports=self.health, terms=self.terms, signs=signs
        )
        self.health.add_prober(self.gpus)
        self.health.add_prober(self._functions)

    def _nic_watch(self, config: Config, held: Holdings) -> NicWatch:
        """The evidence of NICs."""
        return NicWatch(
            self.health,
            inventory=held.discovery.inventory,
            records=held.records,
            given=held.given,
            table=config.nic,
            terms=lambda nic: self.terms.get().of_nic(nic),
            busy=lambda: [address for address, why in held.bindings.lent().items() if why],
        )

    def remarks(self) -> tuple[str, ...]:
        """What an operator should know of the settings, as they turn out on this machine."""
        names = frozenset(one.name for one in self._inventory.get().every)
        return self._settings.remarks(names)

    def rounds(self) -> Iterator[tuple[str, Rounds]]:
        """All probes, by the kind of what is probed, for their figures."""
        yield "generic", self._nodes.rounds
        yield "generic", self._commands.rounds
        yield from (("nic", each) for each in self._nics.rounds)
        if self.gpus is not None:
            yield "gpu", self.gpus.rounds
        if self._functions is not None:
            yield "vfio", self._functions.rounds

    async def recall(self) -> None:
        """Take up what the life before left, before anybody is told how a device is."""
        await self.health.recall()

    def reload(self, config: Config) -> None:
        """Take other settings."""
        self._settings = watching.Watching.of(config)
        self.terms.set(self._settings)
        self._nics.reload(config.nic)
        if self.gpus is not None:
            self.gpus.reload(config.health.xid)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Judge and watch until cancelled; started when the first verdicts are told."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self.health.run)
            await nursery.start(self._nodes.run)
            await nursery.start(self._commands.run)
            await nursery.start(self._nics.run)
            for source in (self.gpus, self._functions):
                if source is not None:
                    await nursery.start(source.run)
            nursery.start_soon(self._tell_remarks)
            task_status.started()

    async def _tell_remarks(self) -> None:
        """Tell the log of names that no device has; a driver may bring its devices late."""
        told: set[str] = set()
        async for _ in self.terms.changes():
            await trio.sleep(REMARK_S)
            for remark in self.remarks():
                if remark not in told:
                    _log.warning("configuration", finding=remark)
                told.add(remark)
