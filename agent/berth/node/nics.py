"""NICs on their way into pods and home: the one place that moves them.

Each move is announced in its claim's record first, then done in a worker thread, then recorded as
it turned out. Whoever calls a method that moves holds no lock; the claim's lock is taken here.

What is not at home and belongs there is brought home by one task, one NIC at a time: rtnl
serialises the kernel's side anyway. It wakes on events (a namespace ended, a link appeared, a call
of `look_again`) and, while anything is away, once a minute.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Final

import attrs
import trio

from berth.errors import ClaimError, HostError
from berth.host.netlink.socket import Sender, send_now
from berth.nic import attach, homecoming
from berth.nic.attach import Budget, NotAttached
from berth.nic.execute import inode_of
from berth.nic.record import NicRecord, SandboxRef, Stage
from berth.node.record import ClaimRecord
from berth.node.records import Records
from berth.runtime.backoff import BackOff
from berth.runtime.logs import get_log
from berth.runtime.threads import Decision, run_in_thread

SWEEP_S: Final = 60.0
"""How often NICs that are away are looked after when no event speaks of them."""

_THREADS: Final = "nics"
_log = get_log(__name__)


@attrs.frozen(kw_only=True)
class NicStatistics:
    """Figures for the operator and for tests."""

    away: int
    attached: int
    returning: int


class Nics:
    """Moves NICs, and knows from the records where each of them is.

    Args:
        records: The claims' records.
        exists: Whether the device of an identity is still in the machine; blocks.
        renumbered: Called with claim UID, old and new identity, when a virtual link came home
            under another index.
        send: The seam of crash tests.
    """

    def __init__(
        self,
        records: Records,
        *,
        exists: Callable[[str], bool],
        renumbered: Callable[[str, str, str], None],
        send: Sender = send_now,
    ) -> None:
        self._records = records
        self._exists = exists
        self._renumbered = renumbered
        self._send = send
        self._due = trio.Event()

    async def stage(self, record: ClaimRecord, homes: Sequence[int]) -> ClaimRecord:
        """Read how the claim's links are, and give them what survives a move; lock held.

        Args:
            record: On disk already, so that a crash at any point is undone at the next start.
            homes: For each device its link's index at home; 0 for one that has no NIC to stage.

        Returns:
            The staged record; on disk it is still reserved, with the originals, and it is the
            caller who writes it down together with what else makes the claim prepared.

        Raises:
            HostError: A link or its driver refused; what was staged before it is restored.
        """
        for index, device in enumerate(record.devices):
            nic = device.nic
            if nic is None:
                continue
            if not nic.is_child and nic.originals is None:
                nic = await run_in_thread(
                    _THREADS, attach.read_originals, nic, homes[index], send=self._send
                )
                record = record.with_nic(index, nic)
        await self._records.put(record)
        try:
            for index, device in enumerate(record.devices):
                if device.nic is not None:
                    staged = await run_in_thread(
                        _THREADS, attach.stage, device.nic, send=self._send
                    )
                    record = record.with_nic(index, staged)
        except HostError:
            with trio.CancelScope(shield=True):
                if not await self._bring_all_home(record):
                    self.look_again()
            raise
        return record

    async def attach(
        self,
        uids: Iterable[str],
        sandbox: SandboxRef,
        *,
        limit_s: float,
        decision: Decision,
    ) -> tuple[ClaimRecord, ...]:
        """Bring every NIC of the claims into the sandbox, or none.

        A cancel is served only when the thread has ended and the records say what is: late work
        undoes itself.

        Returns:
            The records as they are now, on disk.

        Raises:
            ClaimError: A NIC could not be attached; all of the pod's are home, or on the way.
        """
        budget = _budget(limit_s)
        async with self._locked(uids) as records:
            with trio.CancelScope(shield=True):
                places = [
                    (number, index)
                    for number, record in enumerate(records)
                    for index, device in enumerate(record.devices)
                    if device.nic is not None
                ]
                await self._leave_others(records, places, sandbox)
                await self._announce(records, places, sandbox)
                await self._attach(records, places, sandbox, budget, decision)
        return tuple(records)

    async def verify(self, record: ClaimRecord, sandbox: SandboxRef) -> tuple[str, ...]:
        """Devices of the claim whose link is not in the sandbox now."""
        nics = [d.nic for d in record.devices if d.nic is not None]
        elsewhere = [nic for nic in nics if nic.sandbox is None or nic.sandbox.id != sandbox.id]
        here = [nic for nic in nics if nic not in elsewhere]
        missing = await run_in_thread(_THREADS, attach.verify, here, send=self._send)
        return tuple(nic.device for nic in (*elsewhere, *missing))

    async def give_back(self, uid: str, *, sandbox_id: str = "") -> bool:
        """Bring the claim's NICs home and put them back as they were.

        Args:
            sandbox_id: Only those that are in this sandbox; a late event of an old sandbox must
                not touch what is in a new one.

        Returns:
            Whether all of them are at home now; the rest is tried again by `run`.
        """
        home = await self._give_back(uid, sandbox_id)
        if not home:
            self.look_again()
        return home

    def look_again(self) -> None:
        """Something happened that may concern a NIC that is away; never blocks."""
        self._due.set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Bring home what belongs there, until cancelled."""
        backoff = BackOff(first_s=0.25, most_s=30.0)
        task_status.started()
        while True:
            self._due = trio.Event()
            pause_s = self._pause_s()
            if await self._sweep():
                backoff, pause_s = backoff.next_delay()
            else:
                backoff = backoff.forgiven()
            with trio.move_on_after(pause_s):
                await self._due.wait()

    def statistics(self) -> NicStatistics:
        """Give figures of now."""
        stages = [
            device.nic.stage
            for record in self._records.all()
            for device in record.devices
            if device.nic is not None
        ]
        return NicStatistics(
            away=sum(
                stage in {Stage.ATTACHING, Stage.ATTACHED, Stage.RETURNING} for stage in stages
            ),
            attached=stages.count(Stage.ATTACHED),
            returning=stages.count(Stage.RETURNING),
        )

    def _pause_s(self) -> float:
        return SWEEP_S if any(True for _ in self._records.away()) else float("inf")

    async def _attach(
        self,
        records: list[ClaimRecord],
        places: Sequence[tuple[int, int]],
        sandbox: SandboxRef,
        budget: Budget,
        decision: Decision,
    ) -> None:
        nics = [_nic(records, place) for place in places]
        try:
            done = await run_in_thread(
                _THREADS,
                attach.attach,
                nics,
                sandbox,
                budget=budget,
                decision=decision,
                send=self._send,
            )
        except NotAttached as error:
            failed = [attrs.evolve(nic, fault=error.found) for nic in error.records]
            await self._put_all(records, places, failed)
            self.look_again()
            raise
        await self._put_all(records, places, done)

    async def _announce(
        self, records: list[ClaimRecord], places: Sequence[tuple[int, int]], sandbox: SandboxRef
    ) -> None:
        """Write down where the NICs are about to be, unless they are known to be there."""
        nics = [_nic(records, place) for place in places]
        if all(nic.stage is Stage.ATTACHED and nic.sandbox == sandbox for nic in nics):
            return
        announced = [
            attrs.evolve(nic, stage=Stage.ATTACHING, sandbox=sandbox, fault="") for nic in nics
        ]
        await self._put_all(records, places, announced)

    async def _leave_others(
        self, records: list[ClaimRecord], places: Sequence[tuple[int, int]], sandbox: SandboxRef
    ) -> None:
        """Bring home what is still in an older sandbox of the pod."""
        for number in dict.fromkeys(number for number, _ in places):
            for other in {
                device.nic.sandbox.id
                for device in records[number].devices
                if device.nic is not None
                and device.nic.sandbox is not None
                and device.nic.sandbox.id != sandbox.id
            }:
                await self._bring_all_home(records[number], sandbox_id=other)
                uid = records[number].claim.uid
                records[number] = self._records.get(uid) or records[number]

    async def _put_all(
        self,
        records: list[ClaimRecord],
        places: Sequence[tuple[int, int]],
        nics: Sequence[NicRecord],
    ) -> None:
        before = list(records)
        for (number, index), nic in zip(places, nics, strict=True):
            records[number] = records[number].with_nic(index, nic)
        for old, new in zip(before, records, strict=True):
            if new != old:
                await self._records.put(new)

    async def _bring_all_home(self, record: ClaimRecord, *, sandbox_id: str = "") -> bool:
        home = True
        for index, device in enumerate(record.devices):
            nic = device.nic
            if nic is None or not nic.is_touched:
                continue
            if sandbox_id and (nic.sandbox is None or nic.sandbox.id != sandbox_id):
                continue
            announced = attrs.evolve(nic, stage=Stage.RETURNING)
            if announced != nic:
                record = record.with_nic(index, announced)
                await self._records.put_or_note(record)
            back = await self._bring_home(record, announced)
            record = record.with_nic(index, back)
            await self._records.put_or_note(record)
            home &= not back.is_touched
        return home

    async def _bring_home(self, record: ClaimRecord, nic: NicRecord) -> NicRecord:
        try:
            back = await run_in_thread(_THREADS, homecoming.bring_home, nic, send=self._send)
        except HostError as error:
            back = attrs.evolve(nic, stage=Stage.RETURNING, fault=str(error))
        if back.stage is Stage.RETURNING and not await run_in_thread(
            _THREADS, self._exists, nic.identity
        ):
            back = attrs.evolve(back, stage=Stage.LOST, fault="its device is gone")
        _tell_return(record, nic, back)
        if back.identity != nic.identity:
            self._renumbered(record.claim.uid, nic.identity, back.identity)
        return back

    async def _sweep(self) -> bool:
        """Bring home whatever belongs there; gives whether something still does."""
        left = False
        for record, index in tuple(self._records.away()):
            nic = record.devices[index].nic
            if nic is not None and await self._belongs_home(record, nic):
                left |= not await self._give_back(record.claim.uid, "")
        return left

    async def _give_back(self, uid: str, sandbox_id: str) -> bool:
        home = True
        async with self._locked((uid,)) as records:
            with trio.CancelScope(shield=True):
                for record in records:
                    home = await self._bring_all_home(record, sandbox_id=sandbox_id)
        return home

    async def _belongs_home(self, record: ClaimRecord, nic: NicRecord) -> bool:
        if record.revoked or not record.prepared or nic.stage is Stage.RETURNING:
            return True
        sandbox = nic.sandbox
        if sandbox is None:
            return True
        return not await run_in_thread(_THREADS, _is_alive, sandbox)

    @contextlib.asynccontextmanager
    async def _locked(self, uids: Iterable[str]) -> AsyncIterator[list[ClaimRecord]]:
        """The records of the claims that exist, locked in one order for everybody."""
        async with contextlib.AsyncExitStack() as stack:
            for uid in sorted(set(uids)):
                await stack.enter_async_context(self._records.lock(uid))
            found = [self._records.get(uid) for uid in sorted(set(uids))]
            yield [record for record in found if record is not None]


def sandbox_alive(sandbox: SandboxRef) -> bool:
    """Whether the sandbox's namespace is still the one at its path; blocks."""
    return _is_alive(sandbox)


def _is_alive(sandbox: SandboxRef) -> bool:
    try:
        return inode_of(sandbox.netns_path) == sandbox.netns_inode
    except HostError:
        return False


def _nic(records: Sequence[ClaimRecord], place: tuple[int, int]) -> NicRecord:
    nic = records[place[0]].devices[place[1]].nic
    if nic is None:
        raise ClaimError(str(records[place[0]].claim), "has no NIC where one was")
    return nic


def _budget(limit_s: float) -> Budget:
    budget = Budget(ends_at=0.0)
    return attrs.evolve(budget, ends_at=budget.clock() + limit_s)


def _tell_return(record: ClaimRecord, before: NicRecord, after: NicRecord) -> None:
    fields = {"device": before.device, "claim": record.claim}
    if after.stage is Stage.HOME and after.home_name:
        _log.warning("NIC home under another name", name=after.home_name, **fields)
    elif after.stage is Stage.HOME:
        _log.info("NIC home", **fields)
    elif after.stage is Stage.LOST:
        _log.warning("NIC lost", reason=after.fault, **fields)
    elif after.fault != before.fault:
        _log.warning("NIC not home yet, trying again", reason=after.fault, **fields)
