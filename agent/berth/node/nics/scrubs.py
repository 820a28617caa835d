"""Brings NICs home, and binds the driver of a VF anew where its group asks for that.

What a pod set of rings, flow rules, coalescing and whatever else a driver keeps is gone with the
driver; the VF comes back as a new link, under a new index and at first another name, and is put
back as it was once more.

Each step is in the holder's record before it is done, so a start after a crash goes on with it: a
VF that is without a driver is known for one of ours.

Source: network.md §4.5.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import attrs
import trio

from berth.errors import BerthError, HostError
from berth.host.driverbind import DriverCalls
from berth.nic.homecoming import Homecoming
from berth.nic.record import NicRecord, ScrubStep, Stage
from berth.node.holders.nicholders import NicHolder, NicHolders
from berth.runtime.logs import get_log

LINK_S: Final = 5.0
"""How long the link is waited for after its driver was bound."""

_PAUSE_S: Final = 0.1
_log = get_log(__name__)


class Scrubs:
    """Brings NICs home one at a time; whoever calls holds the holder's lock and serves no cancel.

    Args:
        records: The records of their holders.
        bring_home: Brings one home, whatever was or was not done to it.
        calls: Where drivers are changed.
    """

    def __init__(
        self,
        records: NicHolders,
        *,
        bring_home: Callable[[NicRecord], Awaitable[Homecoming]],
        calls: DriverCalls,
    ) -> None:
        self._records = records
        self._bring_home = bring_home
        self._calls = calls

    async def bring(self, holder: NicHolder, index: int, nic: NicRecord) -> Homecoming:
        """Bring a NIC home, by way of its driver if it was in a pod and its group wants that.

        Args:
            index: Of its device in the holder's record.
        """
        if nic.scrub_step is None:
            result = await self._bring_home(nic)
            if not nic.scrub or nic.sandbox is None or result.record.stage is not Stage.HOME:
                return result
            nic = attrs.evolve(result.record, stage=Stage.RETURNING, scrub_step=ScrubStep.UNBIND)
        try:
            if nic.scrub_step is ScrubStep.UNBIND:
                nic = await self._unbind(holder, index, nic)
            await self._probe(nic)
        except BerthError as error:
            return Homecoming(record=attrs.evolve(nic, stage=Stage.RETURNING, fault=str(error)))
        return await self._wait_home(nic)

    async def _unbind(self, holder: NicHolder, index: int, nic: NicRecord) -> NicRecord:
        """Take it from its driver, unless that has it no more."""
        await self._records.put(holder.with_nic(index, nic))
        driver = await self._driver(nic)
        wanted = nic.originals.driver if nic.originals is not None else ""
        if driver and driver == wanted:
            await self._calls.unbind(nic.parent_device, driver)
            _log.info("driver taken from a VF", device=nic.device, driver=driver)
        elif driver:
            _log.warning("VF not bound anew, it has another driver", device=nic.device, now=driver)
        nic = attrs.evolve(nic, scrub_step=ScrubStep.PROBE)
        await self._records.put(holder.with_nic(index, nic))
        return nic

    async def _probe(self, nic: NicRecord) -> None:
        """Have the kernel look for its driver, unless one has it."""
        if not await self._driver(nic):
            await self._calls.probe(nic.parent_device)

    async def _driver(self, nic: NicRecord) -> str:
        bound = await self._calls.bound(nic.parent_device)
        if bound is None:
            raise HostError(nic.device, f"is not in the machine any more ({nic.parent_device})")
        return bound.driver

    async def _wait_home(self, nic: NicRecord) -> Homecoming:
        """Put the new link back as it was, as soon as it is there."""
        result = Homecoming(record=nic, seen=False)
        with trio.move_on_after(LINK_S):
            while True:
                result = await self._bring_home(nic)
                if result.record.stage is Stage.HOME:
                    return attrs.evolve(result, record=attrs.evolve(result.record, scrub_step=None))
                if result.seen:
                    return result
                await trio.sleep(_PAUSE_S)
        return result
