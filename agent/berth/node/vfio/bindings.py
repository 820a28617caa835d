"""Gives functions to vfio-pci for claims, and brings them back to the drivers that had them.

Each step is announced in its claim's record first, then done in a thread of its own, then looked
at: what the kernel shows decides what is due next, so a start after a crash, a failed prepare and
an unprepare all go home by the same way.

A driver that is asked to let go waits, uninterruptibly, until nobody has the device open. Nobody
waits for it beyond a few seconds: the record stays at ``returning``, the claim keeps its hold, and
when the kernel comes back the rest is done.

A GPU is taken from its driver only while nobody computes on it, and with berth's own session let go
of, since that has it open too.

Source: network.md §4.6; gpu-and-health.md §1.6, §2.6.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import attrs
import trio

from berth.errors import BerthError, HostError
from berth.host.driverbind import LIMIT_S, DriverCalls, DriverFiles
from berth.host.vfiofiles import VfioFiles
from berth.node.records.record import ClaimRecord
from berth.node.records.records import Records
from berth.node.vfio.functions import Functions, Grips, Links
from berth.runtime.backoff import BackOff
from berth.vfio.binding import Stage, forth

BUSY_S: Final = 1.0
"""How soon a claim that somebody works on is looked at again."""

BUSY: Final = "busy"
"""Why a function is unhealthy whose driver does not let go of it."""

_FOREVER: Final = float("inf")


class Bindings:
    """Every function of the node that a claim has bound.

    Args:
        records: The claims' records.
        grip: The session with the GPUs' driver; ``None`` where GPUs are off.
        links: Who puts links back that come with their driver.
        files: What the machine shows of vfio-pci.
        drivers: Where drivers are changed.
        changed: Called when another driver has a function.
        limit_s: How long a driver is waited for.
    """

    def __init__(
        self,
        records: Records,
        *,
        grip: Grips | None = None,
        links: Links | None = None,
        files: VfioFiles | None = None,
        drivers: DriverFiles | None = None,
        changed: Callable[[], None] = lambda: None,
        limit_s: float = LIMIT_S,
    ) -> None:
        self._records = records
        self._grip = grip
        self._calls = DriverCalls(drivers, returned=self.look_again, limit_s=limit_s)
        self._functions = Functions(
            records, grip=grip, links=links, files=files or VfioFiles(), calls=self._calls
        )
        self._changed = changed
        self._due = trio.Event()
        self._backoffs: dict[str, BackOff] = {}
        self._nursery: trio.Nursery | None = None

    def lent(self) -> Mapping[str, str]:
        """Functions that are taken from their drivers, each with why it is unhealthy, if it is."""
        return {
            binding.address: BUSY
            if binding.stage is Stage.RETURNING and self._calls.is_out(binding.address)
            else ""
            for record in self._records.all()
            for _, binding in record.bindings
            if binding.is_touched
        }

    async def bind(self, record: ClaimRecord) -> ClaimRecord:
        """Give the claim's functions to vfio-pci; the claim's lock is held.

        Returns:
            The record with its functions bound and their nodes; on disk it is still at ``binding``,
            and it is the caller who writes it down.

        Raises:
            ClaimError: A function is in use, or shares its group with what is used elsewhere.
            HostError: The kernel or the disk refused. What was done is undone, or on its way.
        """
        if not record.bindings:
            return record
        try:
            return await self._bind(record)
        except BerthError as error:
            if record.prepared:
                raise
            home = await self.bring(self._records.get(record.claim.uid) or record)
            faults = "; ".join(binding.fault for _, binding in home.bindings if binding.fault)
            if not faults:
                raise
            raise HostError("", f"{error}; and it is not undone yet: {faults}") from error

    async def bring(self, record: ClaimRecord) -> ClaimRecord:
        """Give the claim's functions back; the claim's lock is held, and no cancel is served.

        Returns:
            The record as it is now; what could not be given back is tried again by `run`.
        """
        due = [(index, binding) for index, binding in record.bindings if binding.is_touched]
        with trio.CancelScope(shield=True):
            for index, binding in due:
                going = attrs.evolve(binding, stage=Stage.RETURNING)
                record = await self._functions.note(record, index, going)
            for index, _ in due:
                record = await self._functions.bring(record, index)
        if due:
            self._changed()
        return record

    async def give_back(self, uid: str, *, sandbox_id: str = "") -> bool:
        """Give the claim's functions back to the drivers that had them.

        A cancel ends the waiting; the return goes on by itself, as long as `run` does.

        Args:
            sandbox_id: Given when only a sandbox has ended: then the claim keeps its functions.

        Returns:
            Whether none of them is away any more; the rest is tried again by `run`.
        """
        if sandbox_id:
            return True
        if self._nursery is None:
            return await self._give_back(uid)
        ended, home = trio.Event(), False

        async def work() -> None:
            nonlocal home
            try:
                home = await self._give_back(uid)
            finally:
                ended.set()

        self._nursery.start_soon(work, name=f"functions of claim {uid}")
        await ended.wait()
        return home

    def look_again(self) -> None:
        """Something happened that may let a function go home; never blocks."""
        self._due.set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Give back what belongs to other drivers, until cancelled."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            try:
                task_status.started()
                while True:
                    self._due = trio.Event()
                    pause_s = await self._sweep()
                    with trio.move_on_after(pause_s):
                        await self._due.wait()
            finally:
                self._nursery = None

    async def _bind(self, record: ClaimRecord) -> ClaimRecord:
        due = []
        for index, binding in record.bindings:
            await self._functions.require_apart(record.devices[index], binding)
            if forth(await self._functions.seen(binding)):
                due.append(index)
        if due:
            record = await self._functions.take(record, due)
            self._changed()
        for index, binding in record.bindings:
            nodes = await self._functions.wait_nodes(record.devices[index], binding)
            stage = Stage.RESERVED if binding.former is None else Stage.BOUND
            done = attrs.evolve(binding, stage=stage, step="", fault="", nodes=nodes)
            record = record.with_binding(index, done)
        return record

    async def _give_back(self, uid: str) -> bool:
        async with self._records.locked((uid,)) as found:
            return all([_is_home(await self.bring(record)) for record in found])

    async def _sweep(self) -> float:
        """Give back what belongs elsewhere; gives for how long nothing more is to be done."""
        unwanted = [r.claim.uid for r in self._records.all() if _is_unwanted(r)]
        for uid in self._backoffs.keys() - set(unwanted):
            del self._backoffs[uid]
        return min([await self._look_after(uid) for uid in unwanted], default=_FOREVER)

    async def _look_after(self, uid: str) -> float:
        lock = self._records.lock(uid)
        try:
            lock.acquire_nowait()
        except trio.WouldBlock:
            return BUSY_S
        try:
            record = self._records.get(uid)
            if record is None or not _is_unwanted(record):
                return _FOREVER
            away = [b.address for _, b in record.bindings if b.is_touched]
            if all(map(self._calls.is_out, away)):
                # The kernel works on it; its return wakes us.
                return _FOREVER
            if _is_home(await self.bring(record)):
                return _FOREVER
        finally:
            lock.release()
        backoff, pause_s = self._backoffs.get(uid, BackOff(first_s=0.25, most_s=30.0)).next_delay()
        self._backoffs[uid] = backoff
        return pause_s


def _is_home(record: ClaimRecord) -> bool:
    return not any(binding.is_touched for _, binding in record.bindings)


def _is_unwanted(record: ClaimRecord) -> bool:
    """Whether its claim has no use for what it has taken."""
    return not _is_home(record) and (record.revoked or not record.prepared)
