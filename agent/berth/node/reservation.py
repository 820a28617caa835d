"""Takes a claim's devices in the ledger, waiting for what may free them.

A force-deleted pod's device goes to the next claim before this node has let go of it: the old
claim is gone from the API server then, and its sandbox is still being stopped. So a holder whose
claim is gone is waited for, by event, and its hold is ended as soon as its NIC is home; a holder
that lives is named at once.

Source: KC §3.4 (the successor's prepare came a minute before the old claim's unprepare).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final

import trio

from berth.errors import ClaimError, KubeError
from berth.kube.api import KubeApi
from berth.model.claim import Claim
from berth.node.admission import Admitted, Waiting, admit
from berth.node.claimstatus import now_text
from berth.node.discovery import Discovery
from berth.node.ledger import UNKNOWN, Hold, Ledger
from berth.node.record import ClaimRecord
from berth.node.records import Records
from berth.node.snapshot import Snapshot
from berth.node.views.troubles import Trouble, Troubles
from berth.runtime.latest import Latest
from berth.runtime.logs import get_log

_ANSWER_S: Final = 1.0
# Kept of the caller's time for the answer that says what was waited for.

_ASK_AGAIN_S: Final = 5.0
# A claim that goes away tells nobody here; so its holder is asked about again after this time.

_log = get_log(__name__)


def waiting_time_s() -> float:
    """Seconds that may be waited, so that the caller still gets the answer that says for what."""
    left_s = trio.current_effective_deadline() - trio.current_time()
    return max(0.0, left_s - _ANSWER_S)


class Reservation:
    """Finds the moment at which a claim can have its devices.

    Args:
        revoke: Undoes a claim by UID, as unprepare does; gives whether it is wholly undone.
    """

    def __init__(
        self,
        driver: str,
        *,
        api: KubeApi,
        records: Records,
        ledger: Ledger,
        discovery: Discovery,
        troubles: Troubles,
        revoke: Callable[[str], Awaitable[bool]],
    ) -> None:
        self._driver = driver
        self._api = api
        self._records = records
        self._ledger = ledger
        self._discovery = discovery
        self._troubles = troubles
        self._revoke = revoke

    async def reserve(self, claim: Claim) -> tuple[Snapshot, Admitted]:
        """Take the claim's devices in the ledger, as soon as they can be had."""
        waiting = Waiting(reason="nothing")
        began = trio.current_time()
        gone: set[str] = set()
        with trio.move_on_after(waiting_time_s()):
            while True:
                seen = self._versions()
                snapshot = await self._discovery.look()
                # No await from here to `take`: what was judged free is taken as judged.
                admission = admit(claim, snapshot, self._ledger)
                if isinstance(admission, Admitted):
                    if self._ledger.take(admission.holds) is None:
                        return snapshot, admission
                    admission = Waiting(reason="two of its requests name one device")
                if admission != waiting:
                    self._tell_wait(claim, admission)
                waiting = admission
                if not await self._evict(waiting.holders, gone):
                    await self._wait_any_change(seen)
        raise ClaimError(
            f"claim {claim.ref}",
            f"waited {trio.current_time() - began:.0f} s: {waiting.reason}",
            mend="kubelet asks again by itself",
        )

    def _tell_wait(self, claim: Claim, waiting: Waiting) -> None:
        _log.info("claim waits", claim=claim.ref, reason=waiting.reason)
        self._troubles.note(
            claim.ref.uid,
            Trouble(claim=str(claim.ref), text=waiting.reason, waiting=True, at=now_text()),
        )

    def _versions(self) -> tuple[tuple[Latest[Any], int], ...]:
        watched: tuple[Latest[Any], ...] = (
            self._discovery.inventory,
            self._ledger.releases,
            self._records.changes,
        )
        return tuple((latest, latest.version) for latest in watched)

    async def _wait_any_change(self, seen: Sequence[tuple[Latest[Any], int]]) -> None:
        """Wait until one of them changed, or until it is time to ask the API server again."""
        with trio.move_on_after(_ASK_AGAIN_S):
            async with trio.open_nursery() as nursery:

                async def wait(latest: Latest[Any], version: int) -> None:
                    await latest.wait_changed(version)
                    nursery.cancel_scope.cancel()

                for latest, version in seen:
                    nursery.start_soon(wait, latest, version)

    async def _evict(self, holders: Iterable[Hold], gone: set[str]) -> bool:
        """End holds of claims that are gone and whose NIC is home; gives whether one ended.

        Args:
            gone: UIDs of claims known to be gone; what is found out is added.

        Raises:
            ClaimError: A holder's claim lives: the scheduler gave one device to two claims.
        """
        ended = False
        for hold in holders:
            uid = hold.claim.uid
            if uid not in gone:
                lives = await self._lives(hold)
                if lives is None:
                    continue
                if lives:
                    raise ClaimError(
                        hold.device,
                        f"is held by claim {hold.claim} ({uid}), which is in use",
                        mend=f"it is free when {_pods(self._records.get(uid))} ends",
                    )
                gone.add(uid)
            record = self._records.get(uid)
            if record is None or not any(
                d.nic is not None and d.nic.is_away for d in record.devices
            ):
                ended |= await self._revoke(uid)
        return ended

    async def _lives(self, hold: Hold) -> bool | None:
        """Whether the claim of a hold still has a use for the device; ``None`` if nobody says."""
        if hold.claim.namespace == UNKNOWN:
            return None
        try:
            claim = await self._api.get_claim(hold.claim, driver=self._driver)
        except ClaimError:
            return False
        except KubeError as error:
            return False if error.status == 404 else None
        return any(result.device == hold.device for result in claim.results)


def _pods(record: ClaimRecord | None) -> str:
    if record is None or not record.consumers:
        return "its pod"
    return ", ".join(f"pod {consumer.name}" for consumer in record.consumers)
