"""NICs on their way into pods and home: the one place that moves them.

Each move is announced in its holder's record first, then done in a worker thread, then recorded as
it turned out. Whoever calls a method that moves holds no lock; the holder's lock is taken here.

A move that was begun is finished and recorded whatever happens to its caller: an attach waits for
its thread, which undoes late work by itself; a return goes on as a task of `Nics.run`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs
import trio

from berth.errors import BerthError, HostError
from berth.host.netlink.socket import Sender, send_now
from berth.nic import attach, homecoming
from berth.nic.attach import Budget, NotAttached
from berth.nic.homecoming import Homecoming
from berth.nic.record import NicRecord, SandboxRef, Stage
from berth.node.holders.nicholders import H, NicHolder, NicHolders, nics_of
from berth.node.nics.announcer import Announcer
from berth.node.nics.homenames import HomeNames
from berth.node.nics.homeward import Homeward
from berth.node.nics.whose import require_left, require_usable
from berth.runtime.threads import Decision, run_in_thread

_THREADS: Final = "nics"


@attrs.frozen(kw_only=True)
class NicStatistics:
    """Figures for the operator and for tests."""

    away: int
    attached: int
    returning: int


def ignore(uid: str) -> None:
    """Take no notice of a holder."""


class Nics:
    """Moves NICs, and knows from the records where each of them is.

    Args:
        records: The records of their holders.
        exists: Whether the device of an identity is still in the machine; blocks.
        renumbered: Called with its holder's UID, old and new identity, when a virtual link came
            home under another index.
        noticed: Called with a holder's UID when its record tells something new of its NICs in the
            pod that no caller asked for: a late carrier, a duplicate address.
        names: Folder that remembers links whose own name is taken; ``None`` forgets them at a
            restart.
        send: The seam of crash tests.

    Attributes:
        moves: Counts NICs that were to move: direction (``pod``, ``home``) and result.
        move_seconds: How long they took, by direction.
    """

    def __init__(
        self,
        records: NicHolders,
        *,
        exists: Callable[[str], bool],
        renumbered: Callable[[str, str, str], None],
        noticed: Callable[[str], None] = ignore,
        names: Path | None = None,
        send: Sender = send_now,
    ) -> None:
        self._records = records
        self._send = send
        self._names = HomeNames(records, names, send=send)
        self._announcer = Announcer(records, noticed=noticed, send=send)
        self._homeward = Homeward(
            records, self._names, exists=exists, renumbered=renumbered, send=send
        )
        self.moves = self._homeward.moves
        self.move_seconds = self._homeward.seconds
        self._nursery: trio.Nursery | None = None

    async def stage(self, record: H, homes: Sequence[int]) -> H:
        """Read how the holder's links are, and give them what survives a move; lock held.

        Of a link that is lent it is only read how it is.

        Args:
            homes: For each device its link's index at home; 0 for one that has no NIC to stage.

        Returns:
            The staged record; on disk it is still reserved, with the originals, and it is the
            caller who writes it down together with what else makes its holder prepared.

        Raises:
            BerthError: A link, its driver or the disk refused; what was staged is restored.
        """
        async with self._names.quiet:
            for index, home in enumerate(homes):
                record = await self._with_originals(record, index, home)
            await self._records.put(record)
        staged = record
        try:
            for index, device in enumerate(record.devices):
                if device.nic is not None and device.nic.stage is not Stage.LENT:
                    nic = await run_in_thread(_THREADS, attach.stage, device.nic, send=self._send)
                    staged = staged.with_nic(index, nic)
        except BerthError as error:
            back = await self._homeward.bring(record)
            if back.is_home:
                raise
            faults = "; ".join(d.nic.fault for d in back.devices if d.nic and d.nic.fault)
            raise HostError("", f"{error}; and it is not undone yet: {faults}") from error
        return staged

    async def restore(self, nic: NicRecord) -> Homecoming:
        """Put a link back as it was that is there anew, since its driver was bound again."""
        result = await run_in_thread(_THREADS, homecoming.bring_home, nic, send=self._send)
        if result.record.stage is Stage.HOME:
            await self._names.note(result.record)
        return result

    async def attach(
        self,
        uids: Iterable[str],
        sandbox: SandboxRef,
        *,
        limit_s: float,
        decision: Decision,
    ) -> tuple[NicHolder, ...]:
        """Bring every NIC of the holders into the sandbox, or none.

        A cancel is served only when the thread has ended and the records say what is: late work
        undoes itself.

        Returns:
            The records as they are now, on disk.

        Raises:
            ClaimError: A NIC could not be attached; all of the pod's are home, or on the way. Or
                another pod has one, and keeps it: nothing was begun.
            HostError: The disk refused; the same.
        """
        wanted = sorted(set(uids))
        budget = _budget(limit_s)
        async with self._records.locked(wanted) as found:
            with trio.CancelScope(shield=True):
                await require_left(found, sandbox)
                records = [await self._leave_others(record, sandbox) for record in found]
                require_usable(wanted, records)
                try:
                    attached = await self._attach(records, sandbox, budget, decision)
                except BerthError:
                    await self._withdraw(wanted, sandbox)
                    raise
                self._look_after(attached)
        return tuple(attached)

    async def verify(self, record: NicHolder, sandbox: SandboxRef) -> tuple[str, ...]:
        """Devices of the holder whose link is not in the sandbox now."""
        nics = [d.nic for d in record.devices if d.nic is not None]
        elsewhere = [nic for nic in nics if nic.sandbox is None or nic.sandbox.id != sandbox.id]
        here = [nic for nic in nics if nic not in elsewhere]
        missing = await run_in_thread(_THREADS, attach.verify, here, send=self._send)
        return tuple(nic.device for nic in (*elsewhere, *missing))

    async def give_back(
        self, uid: str, *, sandbox_id: str = "", only: Collection[str] | None = None
    ) -> bool:
        """Bring the holder's NICs home and put them back as they were.

        A cancel ends the waiting; the return goes on by itself, as long as `run` does.

        Args:
            sandbox_id: Only those that are in this sandbox; a late event of an old sandbox must
                not touch what is in a new one.
            only: Only those of these identities.

        Returns:
            Whether none of them is away any more; the rest is tried again by `run`.
        """
        if self._nursery is None:
            return await self._give_back(uid, sandbox_id, only)
        ended = trio.Event()
        home = False

        async def work() -> None:
            nonlocal home
            try:
                home = await self._give_back(uid, sandbox_id, only)
            finally:
                ended.set()

        self._nursery.start_soon(work, name=f"return of {uid}")
        await ended.wait()
        return home

    async def put_back(self, uid: str, identity: str) -> None:
        """Put a lent NIC that is at home back as it was; it stays lent.

        What cannot be put back now is when its holder ends.
        """
        async with self._records.locked((uid,)) as records:
            for record in records:
                found = (each for each in nics_of(record) if each[1].identity == identity)
                index, nic = next(found, (0, None))
                if nic is not None and nic.stage is Stage.LENT:
                    back = await self._homeward.put_back(record, nic)
                    await self._records.put_or_note(record.with_nic(index, back))

    def look_again(self) -> None:
        """Something happened that may concern a NIC that is away; never blocks."""
        self._homeward.look_again()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Bring home what belongs there, and look after what is in pods, until cancelled."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self._names.run)
            await nursery.start(self._announcer.run)
            await nursery.start(self._homeward.run)
            self._nursery = nursery
            self._look_after(self._records.all())
            try:
                task_status.started()
                await trio.sleep_forever()
            finally:
                self._nursery = None

    def statistics(self) -> NicStatistics:
        """Give figures of now."""
        stages = [
            device.nic.stage
            for record in self._records.all()
            for device in record.devices
            if device.nic is not None
        ]
        returning = stages.count(Stage.RETURNING)
        attached = stages.count(Stage.ATTACHED)
        return NicStatistics(
            away=attached + returning + stages.count(Stage.ATTACHING),
            attached=attached,
            returning=returning,
        )

    async def _with_originals(self, record: H, index: int, home: int) -> H:
        """The record with how a link is that will be moved, or that will vanish with its driver."""
        nic = record.links[index]
        if nic is None or nic.is_child or nic.originals is not None or not home:
            return record
        nic = await run_in_thread(
            _THREADS,
            attach.read_originals,
            nic,
            home,
            name=self._names.own_name(nic.identity),
            send=self._send,
        )
        return record.with_originals(index, nic)

    async def _attach(
        self,
        records: Sequence[NicHolder],
        sandbox: SandboxRef,
        budget: Budget,
        decision: Decision,
    ) -> list[NicHolder]:
        """Announce, move and record; what fails leaves in the records what is to be undone."""
        nics = _nics(records)
        records = await self._put(
            records, {place: attach.begun(nic, sandbox) for place, nic in nics.items()}
        )
        began, result = trio.current_time(), "error"
        try:
            done = await run_in_thread(
                _THREADS,
                attach.attach,
                [*_nics(records).values()],
                sandbox,
                budget=budget,
                decision=decision,
                send=self._send,
            )
            result = "ok"
        except NotAttached as error:
            told = [attrs.evolve(nic, fault=error.found) for nic in error.records]
            for record in _changed(records, dict(zip(nics, told, strict=True))):
                await self._records.put_or_note(record)
            self._homeward.look_again()
            raise
        finally:
            self.move_seconds.observe(trio.current_time() - began, "pod")
            self.moves.add("pod", result, by=len(nics))
        return await self._put(records, dict(zip(nics, done, strict=True)))

    async def _withdraw(self, uids: Iterable[str], sandbox: SandboxRef) -> None:
        """Bring home whatever is in the sandbox, or may be; locks held."""
        for uid in uids:
            record = self._records.get(uid)
            if record is not None:
                await self._homeward.bring(record, sandbox_id=sandbox.id)

    async def _put(
        self, records: Sequence[NicHolder], nics: Mapping[tuple[int, int], NicRecord]
    ) -> list[NicHolder]:
        changed = _changed(records, nics)
        for before, after in zip(records, changed, strict=True):
            if after != before:
                await self._records.put(after)
        return changed

    async def _leave_others(self, record: NicHolder, sandbox: SandboxRef) -> NicHolder:
        """Bring home what is still in another sandbox, of the pod or of one that it succeeds."""
        others = {
            device.nic.sandbox.id
            for device in record.devices
            if device.nic is not None and device.nic.sandbox is not None
        }
        for other in sorted(others - {sandbox.id}):
            record = await self._homeward.bring(record, sandbox_id=other)
        return record

    def _look_after(self, records: Sequence[NicHolder]) -> None:
        for (number, index), nic in _nics(records).items():
            self._announcer.watch(records[number].uid, index, nic)
        self._homeward.mind()

    async def _give_back(self, uid: str, sandbox_id: str, only: Collection[str] | None) -> bool:
        away = False
        async with self._records.locked((uid,)) as records:
            for record in records:
                wanted = {i for i, nic in nics_of(record) if only is None or nic.identity in only}
                back = await self._homeward.bring(record, sandbox_id=sandbox_id, only=wanted)
                away = any(
                    nic.is_touched
                    for index, nic in nics_of(back)
                    if index in wanted
                    if not sandbox_id or (nic.sandbox is not None and nic.sandbox.id == sandbox_id)
                )
        return not away


def sandbox_alive(sandbox: SandboxRef) -> bool:
    """Whether the sandbox's namespace may still be the one at its path; blocks."""
    return homecoming.is_alive(sandbox)


def _nics(records: Sequence[NicHolder]) -> dict[tuple[int, int], NicRecord]:
    """Every NIC, by the number of its record and its device index."""
    return {
        (number, index): nic
        for number, record in enumerate(records)
        for index, nic in nics_of(record)
    }


def _changed(
    records: Sequence[NicHolder], nics: Mapping[tuple[int, int], NicRecord]
) -> list[NicHolder]:
    changed = list(records)
    for (number, index), nic in nics.items():
        changed[number] = changed[number].with_nic(index, nic)
    return changed


def _budget(limit_s: float) -> Budget:
    budget = Budget(ends_at=0.0)
    return attrs.evolve(budget, ends_at=budget.clock() + limit_s)
