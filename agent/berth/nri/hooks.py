"""What each pod and container event does, decided from records alone.

A pod has its NICs by claims, which name it; of those that name another, or a PodGroup, kubelet is
asked whether the pod has them too (`berth.node.claims.sharers`). Or it asked for them as resources,
and kubelet is asked which they are (`berth.node.plugin.resourcepods`). It is known by its UID, or
by the markers that are put into its containers' environment. No event prepares or frees anything: a
sandbox that stops sends its NICs home, and they stay its pod's.

A container is made only if every NIC of its pod is in the pod's namespace, looked up there; so a
pod that started while we were away, or whose hook failed, never runs silently without its device.
What is missing then is attached there and then, since a runtime tries a container again in the
same sandbox.

Source: NC §5, §6, §8, §10; network.md §4.3, §4.4.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final

import trio

from berth.errors import BerthError, ClaimError
from berth.model.pod import Adjustment, Container, ContainerState, Sandbox
from berth.node.claims.handout import marked_claims
from berth.node.claims.status import now_text
from berth.node.holders.nicholders import NicHolder
from berth.node.plugin.running import Running
from berth.node.records.record import ClaimRecord
from berth.node.views.troubles import Trouble, Troubles
from berth.nri.handlers import Turn
from berth.nri.isolation import Isolation
from berth.nri.livingpods import LivingPods
from berth.nri.presence import is_lacking, reference, users
from berth.nri.sources import Arrivals, PreparedClaims, ResourcePods, SharingPods
from berth.nri.versions import leaks_failed_sandboxes
from berth.runtime.logs import get_log
from berth.runtime.threads import Decision

RESERVE_S: Final = 0.1
"""Kept of a hook's time for files and records after the move."""

ASK_PART: Final = 0.5
"""Part of a hook's time in which the API server may be asked who uses a claim."""

LEARN_PART: Final = 0.4
"""Part of a hook's time in which it may be asked whether a pod has a claim that others have too."""

LATE_ATTACH_S: Final = 20.0
"""Time for a pod that started while we were away: nobody's hook waits for it."""

_RUNNING: Final = frozenset({ContainerState.CREATED, ContainerState.RUNNING, ContainerState.PAUSED})
_log = get_log(__name__)


class PodHooks:
    """Answers the runtime's events.

    Args:
        claims: The node's claims.
        resources: Pods that asked for resources; ``None`` where there are none.
        sharers: Pods that have claims which do not name them; ``None`` where nobody tells of them.
        arrivals: Brings NICs into sandboxes.
        isolation: What pods in virtual machines can have; ``None`` where none runs in one.
        troubles: Where refusals are remembered for the operator.
        is_ending: Whether a pod is being deleted; asked only for sandboxes from before a restart
            of the runtime, whose stop it will not tell.
        running: Who keeps the containers that the device plugin gave something.
    """

    def __init__(
        self,
        claims: PreparedClaims,
        *,
        arrivals: Arrivals,
        isolation: Isolation | None = None,
        troubles: Troubles,
        is_ending: Callable[[Sandbox], Awaitable[bool]],
        running: Running | None = None,
        resources: ResourcePods | None = None,
        sharers: SharingPods | None = None,
    ) -> None:
        self._claims = claims
        self._resources = resources
        self._sharers = sharers
        self._arrivals = arrivals
        self._isolation = isolation or Isolation(tuple)
        self._troubles = troubles
        self._is_ending = is_ending
        self._running = running or Running()
        self._older: dict[str, set[str]] = {}
        self._late: list[Sandbox] = []
        self._living = LivingPods(
            resources, note=self._note, there=lambda: self._older, attach=self._attach_late
        )
        self._nursery: trio.Nursery | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Hold the tasks that no hook waits for, until cancelled."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            try:
                task_status.started()
                self._start_late()
                await trio.sleep_forever()
            finally:
                self._nursery = None

    async def synchronize(
        self, sandboxes: Sequence[Sandbox], containers: Sequence[Container]
    ) -> None:
        """Learn what runs; pods that started without us get their NICs by a task of their own."""
        self._running.synchronize(sandboxes, containers)
        living = [sandbox for sandbox in sandboxes if sandbox.netns_path]
        self._older = {sandbox.id: set() for sandbox in living}
        for container in containers:
            if container.state in _RUNNING and container.sandbox_id in self._older:
                self._older[container.sandbox_id].add(container.id)
        await self._living.mark(living, containers)
        if self._sharers is not None:
            self._sharers.keep({sandbox.uid for sandbox in living})
        # Of two sandboxes of one pod, the one that has the NICs keeps them.
        self._late = [
            sandbox
            for sandbox in living
            if self._lacking(sandbox, elsewhere=self._older.keys())
            or (self._sharers is not None and self._sharers.asks_about(sandbox))
        ]
        self._start_late()

    async def run_pod_sandbox(self, sandbox: Sandbox, turn: Turn) -> None:
        """Bring the pod's NICs into its new sandbox.

        Raises:
            BerthError: They are not there, and the sandbox must not go on. On runtimes that leave
                a refused sandbox running it goes on, and its containers are refused instead.
        """
        ends_at = trio.current_time() + turn.limit_s - RESERVE_S
        try:
            if self._resources is not None:
                await self._resources.learn(sandbox)
            await self._learn_shared(sandbox, limit_s=turn.limit_s)
            self._isolation.require_reach(sandbox, self._of_pod(sandbox))
            uids = self._lacking(sandbox)
            if uids:
                limit_s = ends_at - trio.current_time()
                await self._attach(uids, sandbox, limit_s=limit_s, decision=turn.decision)
            else:
                self._troubles.forget(sandbox.uid)
        except BerthError as error:
            self._note(sandbox, error)
            if not leaks_failed_sandboxes(turn.runtime):
                raise
            _log.warning(
                "pod's NICs not attached, its containers are refused until they are",
                pod=sandbox,
                reason=error,
            )

    async def stop_pod_sandbox(self, sandbox: Sandbox) -> None:
        """Bring home what is in the sandbox, while its namespace lives."""
        self._older.pop(sandbox.id, None)
        self._running.sandbox_ended(sandbox.id)
        if self._sharers is not None:
            self._sharers.forget(sandbox.uid)
        await self._arrivals.detach(sandbox.id)

    async def remove_pod_sandbox(self, sandbox: Sandbox) -> None:
        """The same for a sandbox whose stop was not told; what is in another is not touched."""
        await self.stop_pod_sandbox(sandbox)

    async def create_container(
        self, sandbox: Sandbox, container: Container, turn: Turn
    ) -> Adjustment | None:
        """Let the container be made only with its pod's NICs in place.

        Raises:
            BerthError: One is missing and could not be attached, or the claim is another pod's.
        """
        await self._require_nics(sandbox, container, turn)
        self._running.made(sandbox, container)
        if sandbox.id in self._older:
            self._older[sandbox.id].add(container.id)
        return None

    async def start_container(self, sandbox: Sandbox, container: Container, turn: Turn) -> None:
        """Look again right before the start: the container may have been made while we were away.

        Raises:
            BerthError: As for `create_container`.
        """
        await self._require_nics(sandbox, container, turn)

    async def stop_container(self, sandbox: Sandbox, container: Container) -> None:
        """The last container of an older sandbox is the sign of its end, if its pod is ending.

        The runtime takes the namespace away once it has our answer. So that waits for the NICs to
        be home; when it is late they come home all the same.
        """
        self._running.ended(container)
        running = self._older.get(sandbox.id)
        if running is None:
            return
        running.discard(container.id)
        if running or self._nursery is None or not self._has_nics(sandbox, container):
            return
        ended = trio.Event()
        self._nursery.start_soon(self._end_older, sandbox, ended)
        await ended.wait()

    async def remove_container(
        self,
        sandbox: Sandbox,  # noqa: ARG002 - the form of `Hooks`
        container: Container,
    ) -> None:
        """What ended was told by the stop; one that never started has none."""
        self._running.ended(container)

    def _lacking(self, sandbox: Sandbox, *, elsewhere: Collection[str] = ()) -> list[str]:
        """Whoever has a NIC for the pod that is not in this sandbox, or not told of there.

        Args:
            elsewhere: Sandboxes in which NICs stay.
        """
        holders = self._of_pod(sandbox)
        return [record.uid for record in holders if is_lacking(record, sandbox.id, elsewhere)]

    def _of_pod(self, sandbox: Sandbox) -> tuple[NicHolder, ...]:
        """Everything that has NICs for the pod."""
        asked = self._resources.of_pod(sandbox.uid) if self._resources is not None else ()
        shared = self._sharers.of_pod(sandbox) if self._sharers is not None else ()
        return (*self._claims.of_pod(sandbox.uid), *shared, *asked)

    async def _learn_shared(self, sandbox: Sandbox, *, limit_s: float) -> None:
        """Find out which claims the pod has that do not name it, and refuse it another pod's.

        Raises:
            BerthError: Nobody tells, or another pod has it.
        """
        if self._sharers is None:
            return
        await self._sharers.learn(sandbox, limit_s=limit_s * LEARN_PART)
        for record in self._sharers.of_pod(sandbox):
            await self._require_own(record.uid, record, sandbox, limit_s=limit_s)

    def _has_nics(self, sandbox: Sandbox, container: Container) -> bool:
        marked = self._claims.by_marker(sorted(marked_claims(iter(container.env))))
        records = (*self._of_pod(sandbox), *marked)
        return any(record is not None and record.has_nics for record in records)

    async def _require_nics(self, sandbox: Sandbox, container: Container, turn: Turn) -> None:
        ends_at = trio.current_time() + turn.limit_s - RESERVE_S
        try:
            if self._resources is not None:
                await self._resources.mark(sandbox, [container])
            await self._learn_shared(sandbox, limit_s=turn.limit_s)
            wanted: dict[str, NicHolder] = {one.uid: one for one in self._of_pod(sandbox)}
            marked = sorted(marked_claims(iter(container.env)))
            for uid, record in zip(marked, self._claims.by_marker(marked), strict=True):
                own = await self._require_own(uid, record, sandbox, limit_s=turn.limit_s)
                wanted[own.uid] = own
            asked = self._resources.asked_by(container) if self._resources is not None else ()
            self._isolation.require_reach(sandbox, (*wanted.values(), *asked))
            uids = [uid for uid, record in wanted.items() if record.has_nics]
            if uids and await self._arrivals.missing(uids, await reference(sandbox)):
                limit_s = ends_at - trio.current_time()
                await self._attach(uids, sandbox, limit_s=limit_s, decision=turn.decision)
        except BerthError as error:
            self._note(sandbox, error)
            raise

    async def _require_own(
        self, uid: str, record: ClaimRecord | None, sandbox: Sandbox, *, limit_s: float
    ) -> ClaimRecord:
        """Refuse a container that was promised a device which is not its pod's."""
        if record is not None and record.has_nics and users(record, sandbox):
            record = await self._reread(record, limit_s=limit_s)
        if record is None or not record.prepared or record.revoked:
            raise ClaimError(
                f"pod {sandbox}",
                f"uses claim {uid}, which is not prepared on this node any more",
                mend="delete the pod; its successor gets a device of its own",
            )
        others = users(record, sandbox) if record.has_nics else []
        if others:
            raise ClaimError(
                f"claim {record.claim}",
                f"is used by pod {', '.join(others)}",
                rule="its NIC can be in one pod only",
                mend="give each pod a claim of its own, by a ResourceClaimTemplate",
            )
        if self._sharers is not None and self._sharers.is_foreign(sandbox, record):
            raise ClaimError(
                f"claim {record.claim}",
                f"is reserved for a PodGroup, and pod {sandbox} does not have it",
                mend="name it among the pod's spec.resourceClaims",
            )
        return record

    async def _reread(self, record: ClaimRecord, *, limit_s: float) -> ClaimRecord | None:
        """The record as the API server has it; as it is when the server does not answer in time."""
        with trio.move_on_after(limit_s * ASK_PART):
            try:
                return await self._claims.reread(record.claim.uid)
            except ClaimError:
                raise
            except BerthError as error:
                _log.debug("users of a claim not asked about", claim=record.claim, reason=error)
        return record

    def _note(self, sandbox: Sandbox, error: BerthError) -> None:
        self._troubles.note(sandbox.uid, Trouble(pod=str(sandbox), text=str(error), at=now_text()))

    async def _attach(
        self, uids: Collection[str], sandbox: Sandbox, *, limit_s: float, decision: Decision
    ) -> None:
        place = await reference(sandbox)
        await self._arrivals.attach(uids, place, limit_s=limit_s, decision=decision)
        self._troubles.forget(sandbox.uid)

    def _start_late(self) -> None:
        while self._late and self._nursery is not None:
            self._nursery.start_soon(self._attach_late, self._late.pop())
        if self._nursery is not None:
            self._nursery.start_soon(self._living.mark_late)

    async def _attach_late(self, sandbox: Sandbox) -> None:
        """Complete a pod that started while we were away, unless it has been stopped since."""
        try:
            await self._learn_shared(sandbox, limit_s=LATE_ATTACH_S)
        except BerthError as error:
            self._note(sandbox, error)
            _log.warning(
                "pod runs, perhaps without a NIC that others share: its next container is refused",
                pod=sandbox,
                reason=error,
            )
        uids = self._lacking(sandbox, elsewhere=self._older.keys())
        if not uids or sandbox.id not in self._older:
            return
        try:
            self._isolation.require_reach(sandbox, self._of_pod(sandbox))
            await self._attach(uids, sandbox, limit_s=LATE_ATTACH_S, decision=Decision())
        except BerthError as error:
            self._note(sandbox, error)
            _log.warning(
                "pod runs without its NICs, its next container is refused",
                pod=sandbox,
                reason=error,
            )
        else:
            _log.warning("pod had started without its NICs, attached now", pod=sandbox)

    async def _end_older(self, sandbox: Sandbox, ended: trio.Event) -> None:
        try:
            if await self._is_ending(sandbox):
                await self._arrivals.detach(sandbox.id)
                self._older.pop(sandbox.id, None)
        except BerthError as error:
            _log.warning("end of an older pod not settled", pod=sandbox, reason=error)
        finally:
            ended.set()
