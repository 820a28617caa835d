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

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Final

import trio

from berth.errors import BerthError
from berth.model.pod import Adjustment, Container, ContainerState, Sandbox
from berth.node.claims.handout import marked_claims
from berth.node.claims.status import now_text
from berth.node.holders.nicholders import NicHolder
from berth.node.plugin.running import Running
from berth.node.views.troubles import Trouble, Troubles
from berth.nri.handlers import Turn
from berth.nri.isolation import Isolation
from berth.nri.livingpods import LivingPods
from berth.nri.presence import is_lacking, reference
from berth.nri.shares import Questions, Shares
from berth.nri.sources import Arrivals, PreparedClaims, ResourcePods, SharingPods
from berth.nri.versions import leaks_failed_sandboxes
from berth.runtime.logs import get_log
from berth.runtime.threads import Decision

RESERVE_S: Final = 0.1
"""Kept of a hook's time for files and records after the move."""

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
        self._shares = Shares(claims, sharers)
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
        self._shares.keep({sandbox.uid for sandbox in living})
        # Of two sandboxes of one pod, the one that has the NICs keeps them.
        self._late = [
            sandbox
            for sandbox in living
            if self._lacking(sandbox, elsewhere=self._older.keys())
            or self._shares.asks_about(sandbox)
        ]
        self._start_late()

    async def run_pod_sandbox(self, sandbox: Sandbox, turn: Turn) -> None:
        """Bring the pod's NICs into its new sandbox.

        Raises:
            BerthError: They are not there, and the sandbox must not go on. On runtimes that leave
                a refused sandbox running it goes on, and its containers are refused instead.
        """
        ends_at = trio.current_time() + turn.limit_s - RESERVE_S
        questions = Questions(turn.limit_s)
        try:
            if self._resources is not None:
                await self._resources.learn(sandbox)
            untold = await self._shares.learn(sandbox, questions)
            self._isolation.require_reach(sandbox, self._of_pod(sandbox))
            uids = self._lacking(sandbox)
            if uids:
                limit_s = ends_at - trio.current_time()
                await self._attach(uids, sandbox, limit_s=limit_s, decision=turn.decision)
            self._note_rest(sandbox, untold)
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
        self._shares.forget(sandbox)
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
        return _lacking_of(self._of_pod(sandbox), sandbox, elsewhere=elsewhere)

    def _of_pod(self, sandbox: Sandbox) -> tuple[NicHolder, ...]:
        """Everything that has NICs for the pod."""
        return (*self._own_of_pod(sandbox), *self._shares.of_pod(sandbox))

    def _own_of_pod(self, sandbox: Sandbox) -> tuple[NicHolder, ...]:
        """What is the pod's by its name."""
        asked = self._resources.of_pod(sandbox.uid) if self._resources is not None else ()
        return (*self._claims.of_pod(sandbox.uid), *asked)

    def _has_nics(self, sandbox: Sandbox, container: Container) -> bool:
        marked = self._claims.by_marker(sorted(marked_claims(iter(container.env))))
        records = (*self._of_pod(sandbox), *marked)
        return any(record is not None and record.has_nics for record in records)

    async def _require_nics(self, sandbox: Sandbox, container: Container, turn: Turn) -> None:
        ends_at = trio.current_time() + turn.limit_s - RESERVE_S
        questions = Questions(turn.limit_s)
        try:
            if self._resources is not None:
                await self._resources.mark(sandbox, [container])
            untold = await self._shares.learn(sandbox, questions)
            wanted: dict[str, NicHolder] = {one.uid: one for one in self._of_pod(sandbox)}
            marked = sorted(marked_claims(iter(container.env)))
            for uid, record in zip(marked, self._claims.by_marker(marked), strict=True):
                own = await self._shares.require_own(uid, record, sandbox, questions)
                wanted[own.uid] = own
            asked = self._resources.asked_by(container) if self._resources is not None else ()
            self._isolation.require_reach(sandbox, (*wanted.values(), *asked))
            uids = [uid for uid, record in wanted.items() if record.has_nics]
            if uids and await self._arrivals.missing(uids, await reference(sandbox)):
                limit_s = ends_at - trio.current_time()
                await self._attach(uids, sandbox, limit_s=limit_s, decision=turn.decision)
            self._note_rest(sandbox, untold)
        except BerthError as error:
            self._note(sandbox, error)
            raise

    def _note_rest(self, sandbox: Sandbox, untold: BerthError | None) -> None:
        """Take note of what is left of a pod's troubles now that it goes on."""
        if untold is not None:
            self._note(sandbox, untold)
        else:
            self._troubles.forget(sandbox.uid)

    def _note(self, sandbox: Sandbox, error: BerthError) -> None:
        self._troubles.note(sandbox.uid, Trouble(pod=str(sandbox), text=str(error), at=now_text()))

    async def _attach(
        self, uids: Collection[str], sandbox: Sandbox, *, limit_s: float, decision: Decision
    ) -> None:
        place = await reference(sandbox)
        await self._arrivals.attach(uids, place, limit_s=limit_s, decision=decision)

    def _start_late(self) -> None:
        while self._late and self._nursery is not None:
            self._nursery.start_soon(self._attach_late, self._late.pop())
        if self._nursery is not None:
            self._nursery.start_soon(self._living.mark_late)

    async def _attach_late(self, sandbox: Sandbox) -> None:
        """Complete a pod that started while we were away, unless it has been stopped since.

        Its own NICs come first, whatever is found out about those that others may have too.
        """
        own = self._own_of_pod(sandbox)
        if not await self._complete_late(sandbox, own):
            return
        doubts = await self._shares.doubts(
            sandbox, limit_s=LATE_ATTACH_S, lives=lambda: sandbox.id in self._older
        )
        for error in doubts.values():
            self._note(sandbox, error)
            _log.warning(
                "pod runs, perhaps without a NIC that others share",
                pod=sandbox,
                reason=error,
            )
        settled = {*doubts, *(record.uid for record in own)}
        rest = [record for record in self._of_pod(sandbox) if record.uid not in settled]
        if await self._complete_late(sandbox, rest) and not doubts:
            self._troubles.forget(sandbox.uid)

    async def _complete_late(self, sandbox: Sandbox, holders: Sequence[NicHolder]) -> bool:
        """Bring a pod that runs what it lacks of these; whether it lives and lacks none of them."""
        if sandbox.id not in self._older:
            return False
        uids = _lacking_of(holders, sandbox, elsewhere=self._older.keys())
        if not uids:
            return True
        has_begun = bool(self._older[sandbox.id])
        try:
            self._isolation.require_reach(sandbox, holders)
            await self._attach(uids, sandbox, limit_s=LATE_ATTACH_S, decision=Decision())
        except BerthError as error:
            self._note(sandbox, error)
            _log.warning(
                "pod runs without its NICs, its next container is refused",
                pod=sandbox,
                reason=error,
            )
            return False
        if has_begun:
            _log.warning("pod had started without its NICs, attached now", pod=sandbox)
        else:
            # The runtime made no container of it, or kubelet asked for none yet.
            _log.info("sandbox was made without the pod's NICs, attached now", pod=sandbox)
        return True

    async def _end_older(self, sandbox: Sandbox, ended: trio.Event) -> None:
        try:
            if await self._is_ending(sandbox):
                await self._arrivals.detach(sandbox.id)
                self._older.pop(sandbox.id, None)
        except BerthError as error:
            _log.warning("end of an older pod not settled", pod=sandbox, reason=error)
        finally:
            ended.set()


def _lacking_of(
    holders: Iterable[NicHolder], sandbox: Sandbox, *, elsewhere: Collection[str]
) -> list[str]:
    return [record.uid for record in holders if is_lacking(record, sandbox.id, elsewhere)]
