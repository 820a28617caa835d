"""Brings NICs home: at once where asked, else by one task that never gives up.

What belongs home and is not there is looked after when something happened (a namespace ended, a
link appeared, a call of `Homeward.look_again`) and, while anything is away, once a minute. A NIC
whose link is there and does not let itself be put back is tried again with growing pauses only,
since each try makes link events, which would be taken for news; one whose link is not seen yet is
looked for at each event.

What belongs home is decided under the lock of its holder's record: it may have gone into another
sandbox since the event. A holder whose lock is held is being worked on and is passed over until it
is free.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

import attrs
import trio

from berth.errors import BerthError
from berth.host.driverbind import DriverCalls, DriverFiles
from berth.host.netlink.socket import Sender, send_now
from berth.model.meter import Tally, Timing
from berth.nic import homecoming
from berth.nic.homecoming import Homecoming
from berth.nic.record import NicRecord, Stage
from berth.node.holders.nicholders import NicHolder, NicHolders, nics_of
from berth.node.nics.homenames import HomeNames
from berth.node.nics.scrubs import Scrubs
from berth.runtime.backoff import BackOff
from berth.runtime.logs import get_log
from berth.runtime.threads import run_in_thread

SWEEP_S: Final = 60.0
"""How often NICs that are away are looked after when no event speaks of them."""

BUSY_S: Final = 1.0
"""How soon a holder that somebody works on is looked at again."""

COALESCE_S: Final = 0.01
"""Events within this time are one look."""

_BACKOFF: Final = BackOff(first_s=0.25, most_s=30.0)
_FOREVER: Final = float("inf")
_RESULTS: Final = {Stage.HOME: "ok", Stage.LOST: "lost"}
_IN_POD: Final = frozenset({Stage.ATTACHING, Stage.ATTACHED})
_log = get_log(__name__)


@attrs.frozen(kw_only=True)
class _Retry:
    """When a NIC that did not come home is tried again.

    Attributes:
        due_at: On trio's clock.
        seen: Its link was there, so events before that time are no reason to try.
    """

    backoff: BackOff
    due_at: float
    seen: bool


class Homeward:
    """The way home of every NIC of the node.

    Args:
        exists: Whether the device of an identity is still in the machine; blocks.
        renumbered: Called with its holder's UID, old and new identity, when a virtual link came
            home under another index.
        drivers: Where drivers are changed; ``None`` for the machine's.
        send: The seam of crash tests.

    Attributes:
        moves: Counts NICs that were to move: direction and result.
        seconds: How long they took, by direction.
    """

    def __init__(
        self,
        records: NicHolders,
        names: HomeNames,
        *,
        exists: Callable[[str], bool],
        renumbered: Callable[[str, str, str], None],
        drivers: DriverFiles | None = None,
        send: Sender = send_now,
    ) -> None:
        self.moves = Tally("direction", "result")
        self.seconds = Timing("direction")
        self._records = records
        self._names = names
        self._exists = exists
        self._renumbered = renumbered
        self._send = send
        self._scrubs = Scrubs(
            records,
            bring_home=self._bring_home,
            calls=DriverCalls(drivers, returned=self.look_again),
        )
        self._retries: dict[tuple[str, int], _Retry] = {}
        self._due = trio.Event()
        self._stirred = False
        self._resting = False

    def look_again(self) -> None:
        """Something happened that may concern a NIC that is away; never blocks."""
        self._stirred = True
        self._due.set()

    def mind(self) -> None:
        """Something is away now that was not; never blocks."""
        if self._resting:
            self._due.set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Bring home what belongs there, until cancelled."""
        task_status.started()
        while True:
            self._due = trio.Event()
            stirred, self._stirred = self._stirred, False
            pause_s = await self._sweep(stirred=stirred)
            self._resting = pause_s == _FOREVER
            with trio.move_on_after(pause_s):
                await self._due.wait()
            await trio.sleep(COALESCE_S)

    async def bring(
        self, record: NicHolder, *, sandbox_id: str = "", only: Collection[int] | None = None
    ) -> NicHolder:
        """Bring the holder's NICs home; its record's lock is held, and no cancel is served.

        Args:
            sandbox_id: Only those that are in this sandbox.
            only: Only those of these device indexes.

        Returns:
            The record as it is now; what could not be brought home is tried again by `run`.
        """
        due = [
            (index, nic)
            for index, nic in nics_of(record)
            if nic.is_touched
            and (only is None or index in only)
            and (not sandbox_id or (nic.sandbox is not None and nic.sandbox.id == sandbox_id))
        ]
        with trio.CancelScope(shield=True):
            announced = [(index, attrs.evolve(nic, stage=Stage.RETURNING)) for index, nic in due]
            record = await self._put(record, announced)
            back = [(index, await self._bring_one(record, index, nic)) for index, nic in announced]
            record = await self._put(record, back)
        return record

    async def put_back(self, record: NicHolder, nic: NicRecord) -> NicRecord:
        """Put a lent NIC back as it was if it is at home; the holder's lock is held.

        Returns:
            Its record of now; it is still lent, whatever became of it.
        """
        with trio.CancelScope(shield=True):
            result = await self._bring_home(nic)
        back = result.record
        if back.identity != nic.identity:
            self._renumbered(record.uid, nic.identity, back.identity)
        if back.stage is Stage.HOME:
            await self._names.note(back)
        return attrs.evolve(back, stage=Stage.LENT)

    async def _bring_one(self, record: NicHolder, index: int, nic: NicRecord) -> NicRecord:
        began = trio.current_time()
        result = await self._scrubs.bring(record, index, nic)
        self.seconds.observe(trio.current_time() - began, "home")
        back = result.record
        if back.stage is Stage.RETURNING and await self._is_gone(nic):
            back = attrs.evolve(back, stage=Stage.LOST, fault="its device is gone")
        self.moves.add("home", _RESULTS.get(back.stage, "error"))
        self._note(record, index, attrs.evolve(result, record=back))
        _tell(record, nic, back)
        if back.identity != nic.identity:
            self._renumbered(record.uid, nic.identity, back.identity)
        if back.stage is Stage.HOME:
            await self._names.note(back)
        return back

    async def _bring_home(self, nic: NicRecord) -> Homecoming:
        return await run_in_thread("nics", homecoming.bring_home, nic, send=self._send)

    async def _is_gone(self, nic: NicRecord) -> bool:
        try:
            return not await run_in_thread("nics", self._exists, nic.identity)
        except BerthError as error:
            _log.warning("not known whether the device is gone", device=nic.device, reason=error)
            return False

    async def _put(self, record: NicHolder, nics: Sequence[tuple[int, NicRecord]]) -> NicHolder:
        before = record
        for index, nic in nics:
            record = record.with_nic(index, nic)
        if record != before:
            await self._records.put_or_note(record)
        return record

    def _note(self, record: NicHolder, index: int, result: Homecoming) -> None:
        """Remember when to try again, and see to it that the task does."""
        key = record.uid, index
        if result.record.stage is not Stage.RETURNING:
            self._retries.pop(key, None)
            return
        last = self._retries.get(key)
        backoff, delay_s = (
            last.backoff if last else BackOff(first_s=0.25, most_s=30.0)
        ).next_delay()
        due_at = trio.current_time() + delay_s
        self._retries[key] = _Retry(backoff=backoff, due_at=due_at, seen=result.seen)
        self._due.set()

    async def _sweep(self, *, stirred: bool) -> float:
        """Bring home what belongs there; gives for how long nothing more is to be done.

        Args:
            stirred: There was an event, so what was not seen yet may be seen now.
        """
        touched = [
            (record, index, nic)
            for record in self._records.all()
            for index, nic in nics_of(record)
            if nic.is_touched
        ]
        self._forget_settled({(record.uid, index) for record, index, _ in touched})
        ended = await self._ended([nic for _, _, nic in touched])
        suspects = {
            record.uid
            for (record, _, nic), over in zip(touched, ended, strict=True)
            if over or _belongs_home(record, nic)
        }
        pauses_s = [SWEEP_S] if any(nic.stage in _IN_POD for _, _, nic in touched) else []
        pauses_s.extend([await self._look_after(uid, stirred=stirred) for uid in sorted(suspects)])
        return min(pauses_s, default=_FOREVER)

    def _forget_settled(self, touched: Collection[tuple[str, int]]) -> None:
        for key in [key for key in self._retries if key not in touched]:
            del self._retries[key]

    async def _ended(self, nics: Sequence[NicRecord]) -> Sequence[bool]:
        """Of each NIC, whether it was in a pod and is there no more."""
        if not any(nic.stage in _IN_POD for nic in nics):
            return [False] * len(nics)
        try:
            return await run_in_thread("nics", homecoming.find_ended, nics, send=self._send)
        except BerthError as error:
            _log.warning("NICs in pods not looked after, trying again", reason=error)
            return [False] * len(nics)

    async def _look_after(self, uid: str, *, stirred: bool) -> float:
        """Bring home what belongs there of one holder; gives when to look at it again."""
        lock = self._records.lock(uid)
        try:
            lock.acquire_nowait()
        except trio.WouldBlock:
            return BUSY_S
        try:
            record = self._records.get(uid)
            if record is None:
                return _FOREVER
            nics = list(nics_of(record))
            ended = await self._ended([nic for _, nic in nics])
            home = [
                index
                for (index, nic), over in zip(nics, ended, strict=True)
                if over or _belongs_home(record, nic)
            ]
            await self.bring(record, only=[i for i in home if self._is_due(uid, i, stirred)])
            return min([self._pause_s(uid, index) for index in home], default=_FOREVER)
        finally:
            lock.release()

    def _is_due(self, uid: str, index: int, stirred: bool) -> bool:
        retry = self._retries.get((uid, index))
        if retry is None or (stirred and not retry.seen):
            return True
        return retry.due_at <= trio.current_time()

    def _pause_s(self, uid: str, index: int) -> float:
        retry = self._retries.get((uid, index))
        return _FOREVER if retry is None else max(0.0, retry.due_at - trio.current_time())


def _belongs_home(record: NicHolder, nic: NicRecord) -> bool:
    """Whether nobody wants a touched NIC where it is; of one in a pod, the pod's end says more."""
    unwanted = record.revoked or not record.prepared or nic.stage is Stage.RETURNING
    return nic.is_touched and unwanted


def _tell(record: NicHolder, before: NicRecord, after: NicRecord) -> None:
    fields = {"device": before.device, **record.told_as}
    if after.stage is Stage.HOME and after.home_name:
        _log.warning(
            "NIC home under another name, its own is taken", name=after.home_name, **fields
        )
    elif after.stage is Stage.HOME:
        _log.info("NIC home", **fields)
    elif after.stage is Stage.LOST:
        _log.warning("NIC lost", reason=after.fault, **fields)
    elif after.fault != before.fault:
        _log.warning("NIC not home yet, trying again", reason=after.fault, **fields)
