"""Takes a claim's devices in the ledger, waiting for what may free them.

A force-deleted pod's device goes to the next claim before this node has let go of it: the old
claim is gone from the API server then, and its sandbox is still being stopped. So a holder whose
claim is gone is waited for, by event, and its hold is ended as soon as its NIC is home; a holder
that lives is named at once.

A device of which nobody knows how it is gets asked when nothing else stands against the claim. One
that turns out sick ends the waiting.

A claim that waits holds nothing, so two that wait for each other cannot hold each other up.

Source: KC §3.4 (the successor's prepare came a minute before the old claim's unprepare).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import nullcontext
from typing import Any, Final, Protocol, TypeAlias

import attrs
import trio

from berth.errors import BerthError, ClaimError, KubeError
from berth.health.verdict import HealthState, Status, Verdict
from berth.kube.api import KubeApi
from berth.model.claim import Claim, ClaimRef
from berth.model.inventory import Inventory
from berth.nic.attributes import VFIO_TYPE
from berth.node.claims.admission import Admission, Admitted, Unsure, Waiting, admit
from berth.node.claims.pools import require_pools
from berth.node.claims.status import now_text
from berth.node.claims.unwaited import Unwaited
from berth.node.health.fitness import Fitness
from berth.node.health.inquiry import Inquiry
from berth.node.inventory.snapshot import Snapshot
from berth.node.ledger import UNKNOWN, Conflict, Hold, Ledger, PluginHolder
from berth.node.records.record import ClaimRecord
from berth.node.records.records import Records
from berth.node.views.troubles import Trouble, Troubles
from berth.runtime.latest import Latest
from berth.runtime.logs import get_log

_ANSWER_S: Final = 1.0
# Kept of the caller's time for the answer that says what was waited for.

_ASK_AGAIN_S: Final = 5.0
# A claim that goes away tells nobody here; so its holder is asked about again after this time.

_ASK_S: Final = 2.0
# A server that hangs must not keep us from seeing that the holder is home.

_log = get_log(__name__)

Versions: TypeAlias = "tuple[tuple[Latest[Any], int], ...]"


def waiting_time_s() -> float:
    """Seconds that may be waited, so that the caller still gets the answer that says for what."""
    left_s = trio.current_effective_deadline() - trio.current_time()
    return max(0.0, left_s - _ANSWER_S)


class Eyes(Protocol):
    """Who looks at the machine.

    Attributes:
        inventory: What was seen last.
    """

    @property
    def inventory(self) -> Latest[Inventory]:
        """What was seen last."""

    async def look(self) -> Snapshot:
        """Look now."""


@attrs.frozen(kw_only=True)
class Glimpse:
    """A look that was begun while it was not known yet for whom.

    Attributes:
        versions: Of everything that may change its meaning, when it was done.
    """

    snapshot: Snapshot
    versions: Versions


class Reservation:
    """Finds the moment at which a claim can have its devices.

    Args:
        closed: Why no hook would move a NIC into a pod now; empty while one would.
        end: Ends a claim by UID, as unprepare does; gives whether nothing of it is left.
        inquiry: Tells how devices are; ``None`` where nobody judges them.
        unwaited: Tells what nobody waited for before the pod was bound; ``None`` for nothing.
        pools: Gives the pools of this node; none while nobody knows which node it is.
    """

    def __init__(
        self,
        driver: str,
        *,
        api: KubeApi,
        records: Records,
        ledger: Ledger,
        discovery: Eyes,
        closed: Latest[str],
        troubles: Troubles,
        end: Callable[[str], Awaitable[bool]],
        inquiry: Inquiry | None = None,
        unwaited: Unwaited | None = None,
        pools: Callable[[], Collection[str]] = tuple,
    ) -> None:
        self._driver = driver
        self._api = api
        self._records = records
        self._ledger = ledger
        self._discovery = discovery
        self._closed = closed
        self._troubles = troubles
        self._end = end
        self._inquiry = inquiry
        self._unwaited = unwaited
        self._pools = pools

    async def glimpse(self) -> Glimpse:
        """Look at the machine while the API server is being asked for the claim.

        Raises:
            BerthError: The machine could not be read.
        """
        snapshot = await self._discovery.look()
        return Glimpse(snapshot=snapshot, versions=self._versions())

    async def reserve(self, claim: Claim, glimpse: Glimpse) -> tuple[Snapshot, Admitted]:
        """Take the claim's devices in the ledger, as soon as they can be had.

        Args:
            glimpse: Decided from if nothing has changed since.

        Raises:
            ClaimError: It is refused, or what it waited for did not come in the caller's time.
        """
        require_pools(claim, self._pools())
        with self._unwaited.asking(claim) if self._unwaited is not None else nullcontext():
            return await self._reserve(claim, glimpse)

    async def _reserve(self, claim: Claim, glimpse: Glimpse) -> tuple[Snapshot, Admitted]:
        waiting = Waiting(reason="nothing")
        began = trio.current_time()
        gone: set[str] = set()
        answers: dict[str, Verdict] = {}
        with trio.move_on_after(waiting_time_s()):
            while True:
                seen = self._versions()
                fresh = glimpse.versions == seen
                snapshot = glimpse.snapshot if fresh else await self._discovery.look()
                # No await from here to `take`: what was judged free is taken as judged.
                admission = self._admit(claim, snapshot, self._fitness(answers))
                if isinstance(admission, Admitted):
                    return snapshot, admission
                if isinstance(admission, Unsure):
                    answers.update(await self._ask(admission.names))
                    continue
                if admission != waiting:
                    self._tell_wait(claim, admission)
                waiting = admission
                await self._require_ending(waiting.holders, gone)
                if not await self._end_ready(waiting.holders, gone):
                    await self._wait_news(claim, seen)
        raise _waited_in_vain(claim.ref, began, waiting)

    async def wait_open(self, ref: ClaimRef) -> None:
        """Wait until a hook would move the claim's NICs.

        Raises:
            ClaimError: None would in the caller's time.
        """
        began = trio.current_time()
        with trio.move_on_after(waiting_time_s()):
            await self._closed.wait_value(lambda reason: not reason)
            return
        raise _waited_in_vain(ref, began, Waiting(reason=_closed_text(self._closed.get())))

    def _fitness(self, answers: Mapping[str, Verdict]) -> Fitness | None:
        return self._inquiry.fitness(answers) if self._inquiry is not None else None

    async def _ask(self, names: Iterable[str]) -> Mapping[str, Verdict]:
        return await self._inquiry.ask(names) if self._inquiry is not None else {}

    def _admit(self, claim: Claim, snapshot: Snapshot, fitness: Fitness | None) -> Admission:
        """Judge the claim, and take what it is admitted to.

        Raises:
            ClaimError: It is refused; two of its own devices may be what cannot go together.
        """
        admission = admit(claim, snapshot, self._ledger, fitness=fitness)
        if not isinstance(admission, Admitted):
            return admission
        moved = any(target.facts.type != VFIO_TYPE for target in admission.targets)
        if moved and self._closed.get():
            return Waiting(reason=_closed_text(self._closed.get()))
        unready = self._unwaited.unready(claim) if self._unwaited is not None else ""
        if unready:
            return Waiting(reason=unready)
        conflict = self._ledger.take(admission.holds)
        if conflict is None:
            return admission
        others = [hold for hold in conflict.holders if hold.holder != claim.ref]
        if not others:
            raise _at_odds(claim.ref, conflict)
        return Waiting(reason=f"of {conflict.wanted.device} less is free than its requests want")

    async def _wait_news(self, claim: Claim, seen: Versions) -> None:
        """Wait until something changed, or until it is time to ask the API server again.

        Of verdicts only the sick ones are news: others are confirmed all the time.
        """
        with trio.move_on_after(_ASK_AGAIN_S):
            async with trio.open_nursery() as nursery:

                async def wait(latest: Latest[Any], version: int) -> None:
                    await latest.wait_changed(version)
                    nursery.cancel_scope.cancel()

                async def wait_sick(inquiry: Inquiry) -> None:
                    names = _sick(claim, inquiry.state.get())
                    await inquiry.state.wait_value(lambda now: not _sick(claim, now) <= names)
                    nursery.cancel_scope.cancel()

                for latest, version in seen:
                    nursery.start_soon(wait, latest, version)
                if self._inquiry is not None:
                    nursery.start_soon(wait_sick, self._inquiry)

    def _tell_wait(self, claim: Claim, waiting: Waiting) -> None:
        _log.info("claim waits", claim=claim.ref, reason=waiting.reason)
        self._troubles.note(
            claim.ref.uid,
            Trouble(claim=str(claim.ref), text=waiting.reason, waiting=True, at=now_text()),
        )

    def _versions(self) -> Versions:
        watched: tuple[Latest[Any], ...] = (
            self._discovery.inventory,
            self._ledger.releases,
            self._records.changes,
            self._closed,
            *((self._unwaited.answers,) if self._unwaited is not None else ()),
        )
        return tuple((latest, latest.version) for latest in watched)

    async def _require_ending(self, holders: Iterable[Hold], gone: set[str]) -> None:
        """Find out which holders' claims have ended.

        Args:
            gone: UIDs of claims known to have ended; what is found out is added.

        Raises:
            ClaimError: A holder's claim lives: the scheduler gave one device to two claims.
        """
        for hold in holders:
            holder = hold.holder
            if isinstance(holder, PluginHolder):
                self._require_unused(hold.device, holder)
            elif holder.uid not in gone and holder.namespace != UNKNOWN:
                await self._require_gone(hold.device, holder, gone)

    def _require_unused(self, device: str, holder: PluginHolder) -> None:
        """Refuse at once what a container has; what nobody seems to have may be free soon."""
        if holder.is_in_use:
            self._ledger.refusals.add("dra", "container")
            raise ClaimError(
                device,
                f"is held by {holder}",
                mend="it is free when that container ends; kubelet tries again by itself",
            )

    async def _require_gone(self, device: str, holder: ClaimRef, gone: set[str]) -> None:
        lives: bool | None = None
        with trio.move_on_after(_ASK_S):
            lives = await self._lives(device, holder)
        if lives:
            self._ledger.refusals.add("dra", "claim")
            raise ClaimError(
                device,
                f"is held by claim {holder} ({holder.uid}), which is in use",
                mend=f"it is free when {_pods(self._records.get(holder.uid))} ends",
            )
        if lives is False:
            gone.add(holder.uid)

    async def _end_ready(self, holders: Iterable[Hold], gone: Collection[str]) -> bool:
        """End the claims that have no use for their holds and no NIC in a pod; whether any was."""
        ended = False
        for uid in dict.fromkeys(hold.holder.uid for hold in holders):
            if uid in gone and not _is_away(self._records.get(uid)):
                ended |= await self._end(uid)
        return ended

    async def _lives(self, device: str, holder: ClaimRef) -> bool | None:
        """Whether a claim still has a use for the device; ``None`` if nobody says."""
        record = self._records.get(holder.uid)
        if record is not None and (record.revoked or await self._pods_ended(record)):
            return False
        try:
            claim = await self._api.get_claim(holder, driver=self._driver)
        except ClaimError:
            return False
        except KubeError as error:
            return False if error.status == 404 else None
        except BerthError:
            return None
        return any(result.device == device for result in claim.results)

    async def _pods_ended(self, record: ClaimRecord) -> bool:
        """Whether every pod of the claim has ended, or is ending.

        The node's own credentials tell nothing of a claim that is gone, but of its pods they do.
        """
        pods = [consumer for consumer in record.consumers if consumer.is_pod]
        try:
            for pod in pods:
                if not await self._api.pod_is_ending(record.claim.namespace, pod.name, uid=pod.uid):
                    return False
        except BerthError as error:
            _log.debug("pods of a holder not asked about", claim=record.claim, reason=error)
            return False
        return bool(pods) and len(pods) == len(record.consumers)


def _sick(claim: Claim, state: HealthState) -> frozenset[str]:
    """Devices of the claim that are sick."""
    names = (result.device for result in claim.results)
    return frozenset(name for name in names if state.of(name).status is Status.UNHEALTHY)


def _at_odds(ref: ClaimRef, conflict: Conflict) -> ClaimError:
    """Two devices of one claim that cannot be given at the same time, whoever waits for what."""
    wanted = conflict.wanted
    names = dict.fromkeys((*(hold.device for hold in conflict.holders), wanted.device))
    if len(names) == 1:
        return ClaimError(
            f"claim {ref}", f"has {wanted.device} twice: two of its requests name one device"
        )
    return ClaimError(
        f"claim {ref}",
        f"has {' and '.join(names)}, which share {wanted.key}",
        rule="what shares hardware, such as an IOMMU group, is given once",
        mend="ask for one of them; `distinctAttribute` of iommuGroup in the claim's constraints "
        "has the scheduler take others",
    )


def _waited_in_vain(ref: ClaimRef, began: float, waiting: Waiting) -> ClaimError:
    return ClaimError(
        f"claim {ref}",
        f"waited {trio.current_time() - began:.0f} s: {waiting.reason}",
        mend=waiting.mend,
    )


def _closed_text(reason: str) -> str:
    return f"the runtime's NRI is not connected: {reason}"


def _is_away(record: ClaimRecord | None) -> bool:
    return record is not None and any(
        device.nic is not None and device.nic.is_away for device in record.devices
    )


def _pods(record: ClaimRecord | None) -> str:
    if record is None or not record.consumers:
        return "its pod"
    return ", ".join(f"pod {consumer.name}" for consumer in record.consumers)
