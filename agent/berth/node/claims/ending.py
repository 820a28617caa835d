"""Ends claims: what was prepared is undone, comes home, and leaves nothing behind.

An end is written down first, so nothing but a prepare of the same claim can take it back. Devices
come home whatever the disk says; the ledger is freed last, when nothing of the claim is left.

Source: network.md §4.5; KC §3.5 for what kubelet expects of an unprepare.
"""

from __future__ import annotations

import math
from typing import Final, Protocol

import attrs
import trio

from berth.errors import BerthError
from berth.node.claims.status import StatusSink
from berth.node.ledger import Ledger
from berth.node.records.record import ClaimRecord
from berth.node.records.records import Records
from berth.runtime.backoff import BackOff
from berth.runtime.logs import get_log

HOMECOMING_S: Final = 2.0
"""How long an end waits for devices to be home before it goes on without them."""

BUSY_S: Final = 1.0
"""How soon a claim that somebody works on is looked at again."""

_BACKOFF: Final = BackOff(first_s=1.0, most_s=30.0)
_log = get_log(__name__)


class Returns(Protocol):
    """Who brings devices of one sort home."""

    async def give_back(self, uid: str, *, sandbox_id: str = "") -> bool:
        """Bring a claim's devices home; gives whether none is away any more."""
        ...

    def look_again(self) -> None:
        """Look for what belongs home; never blocks."""
        ...


class Ways:
    """Several ways home as one, each taken in its turn.

    Args:
        each: Functions before NICs: a link is there again when its driver is.
    """

    def __init__(self, *each: Returns) -> None:
        self._each = each

    async def give_back(self, uid: str, *, sandbox_id: str = "") -> bool:
        """Bring home all that the claim has; gives whether nothing is away any more."""
        return all([await one.give_back(uid, sandbox_id=sandbox_id) for one in self._each])

    def look_again(self) -> None:
        """Look for what belongs home; never blocks."""
        for one in self._each:
            one.look_again()


class Remains(Protocol):
    """What a claim has on disk beside its record."""

    async def remove(self, claim_uid: str) -> None:
        """Take away every file of the claim; what is not there is no fault."""
        ...


class Ending:
    """Ends claims, at once where that goes, else as soon as their last NIC is home."""

    def __init__(
        self,
        *,
        records: Records,
        ledger: Ledger,
        home: Returns,
        remains: Remains,
        status: StatusSink,
    ) -> None:
        self._records = records
        self._ledger = ledger
        self._home = home
        self._remains = remains
        self._status = status

    async def end(self, uid: str) -> bool:
        """End a claim; one that nobody knows has ended already.

        A cancel leaves a claim that has ended and is closed by `run`, or one of which nothing was
        begun.

        Returns:
            Whether everything of it is home and gone; the rest is done by `run`.

        Raises:
            HostError: The disk refused; devices come home all the same, and `run` tries again.
        """
        async with self._records.lock(uid):
            record = self._records.get(uid)
            if record is not None and not record.revoked:
                with trio.CancelScope(shield=True):
                    await self._records.put_or_note(attrs.evolve(record, revoked=True))
        self._status.forget(uid)
        if record is not None:
            with trio.move_on_after(HOMECOMING_S, shield=True):
                await self._home.give_back(uid)
        return await self._close(uid)

    def look_again(self) -> None:
        """Look for what belongs home; never blocks."""
        self._home.look_again()

    async def take_back(self, record: ClaimRecord) -> None:
        """Undo a prepare that failed; the claim's lock is held.

        What is not home then keeps its hold until `run` has closed the claim; so does what a
        cancel interrupts.
        """
        uid = record.claim.uid
        current = self._records.get(uid)
        if current is not None:
            await self._records.put_or_note(attrs.evolve(current, revoked=True, prepared=False))
        if current is not None and not current.is_home:
            self._home.look_again()
            return
        try:
            await self._remove(uid)
        except BerthError as error:
            _log.warning("failed prepare not wholly undone", claim=record.claim, reason=error)
        self._ledger.release(uid)

    async def finish(self, uid: str) -> None:
        """Remove what is left of a claim that has ended and is home; the claim's lock is held.

        Raises:
            HostError: The disk refuses.
        """
        with trio.CancelScope(shield=True):
            await self._remove(uid)
        self._ledger.release(uid)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Close claims that have ended as soon as their last NIC is home, until cancelled."""
        task_status.started()
        backoff = _BACKOFF
        while True:
            version = self._records.changes.version
            ended = [r.claim.uid for r in self._records.all() if r.revoked and r.is_home]
            # Somebody may wait for long under a claim's lock: the others do not wait with it.
            busy = [uid for uid in ended if self._records.lock(uid).locked()]
            refused = [e for uid in ended if uid not in busy and (e := await self._try_close(uid))]
            delay_s = BUSY_S if busy else math.inf
            if refused:
                backoff, delay_s = backoff.next_delay()
                _log.warning(
                    "ended claims not removed, trying again",
                    claims=len(refused),
                    in_s=delay_s,
                    reason=refused[0],
                )
            with trio.move_on_after(delay_s):
                await self._records.changes.wait_changed(version)

    async def _try_close(self, uid: str) -> BerthError | None:
        try:
            await self._close(uid)
        except BerthError as error:
            return error
        return None

    async def _close(self, uid: str) -> bool:
        """Forget a claim that has ended, if its NICs are home."""
        async with self._records.lock(uid):
            record = self._records.get(uid)
            if record is not None and not record.revoked:
                # Prepared again meanwhile: that is another life.
                return True
            if record is not None and not record.is_home:
                await self._remains.remove(uid)
                return False
            await self._remove(uid)
            self._ledger.release(uid)
        return True

    async def _remove(self, uid: str) -> None:
        """Remove everything of a claim; its record goes last, since it leads to the rest."""
        await self._remains.remove(uid)
        await self._records.delete(uid)
