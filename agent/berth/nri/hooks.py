"""What each pod and container event does, decided from prepared claims alone.

A pod is known by its UID, or by the marker that its claims put into its containers' environment.
No event prepares or frees anything: a sandbox that stops sends its NICs home, the claim stays.

A container is made only if every NIC of its pod is in the pod's namespace, looked up there; so a
pod that started while we were away, or whose hook failed, never runs silently without its device.

Source: NC §5, §6, §8, §10; network.md §4.3, §4.4.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final

import trio

from berth.errors import BerthError, ClaimError
from berth.model.pod import Adjustment, Container, ContainerState, Sandbox
from berth.nic.execute import inode_of
from berth.nic.record import SandboxRef
from berth.node.claims import Claims
from berth.node.claimstatus import now_text
from berth.node.handout import marked_claims
from berth.node.record import ClaimRecord
from berth.node.views.troubles import Trouble, Troubles
from berth.nri.handlers import Turn
from berth.nri.versions import leaks_failed_sandboxes
from berth.runtime.logs import get_log
from berth.runtime.threads import Decision, run_in_thread

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
        vm_handlers: Runtime handlers that run pods in virtual machines, which no link can enter.
        troubles: Where refusals are remembered for the operator.
        is_ending: Whether a pod is being deleted; asked only for sandboxes from before a restart
            of the runtime, whose stop it will not tell.
    """

    def __init__(
        self,
        claims: Claims,
        *,
        vm_handlers: Collection[str] = (),
        troubles: Troubles,
        is_ending: Callable[[Sandbox], Awaitable[bool]],
    ) -> None:
        self._claims = claims
        self._vm_handlers = frozenset(vm_handlers)
        self._troubles = troubles
        self._is_ending = is_ending
        self._failed: dict[str, str] = {}
        self._older: dict[str, set[str]] = {}
        self._nursery: trio.Nursery | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Hold the tasks that no hook waits for, until cancelled."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            task_status.started()
            await trio.sleep_forever()

    async def synchronize(
        self, sandboxes: Sequence[Sandbox], containers: Sequence[Container]
    ) -> None:
        """Learn what runs; pods that started without us get their NICs by a task of their own."""
        self._older = {sandbox.id: set() for sandbox in sandboxes if sandbox.netns_path}
        for container in containers:
            if container.state in _RUNNING and container.sandbox_id in self._older:
                self._older[container.sandbox_id].add(container.id)
        for sandbox in sandboxes:
            if sandbox.netns_path and self._nursery is not None and self._wants(sandbox):
                self._nursery.start_soon(self._attach_late, sandbox)

    async def run_pod_sandbox(self, sandbox: Sandbox, turn: Turn) -> None:
        """Bring the pod's NICs into its new sandbox.

        Raises:
            BerthError: They are not there, and the sandbox must not go on; on runtimes that leave
                a refused sandbox running, its containers are refused instead.
        """
        self._failed.pop(sandbox.id, None)
        if not self._wants(sandbox):
            return
        try:
            await self._attach(sandbox, turn)
        except BerthError as error:
            self._note(sandbox, error)
            if not leaks_failed_sandboxes(turn.runtime):
                raise
            self._failed[sandbox.id] = str(error)
            _log.warning(
                "pod's NICs not attached, its containers will be refused",
                pod=sandbox,
                reason=error,
            )

    async def stop_pod_sandbox(self, sandbox: Sandbox) -> None:
        """Bring home what is in the sandbox, while its namespace lives."""
        self._forget(sandbox)
        await self._claims.detach(sandbox.id)

    async def remove_pod_sandbox(self, sandbox: Sandbox) -> None:
        """The same for a sandbox whose stop was not told; what is in another is not touched."""
        self._forget(sandbox)
        await self._claims.detach(sandbox.id)

    async def create_container(
        self, sandbox: Sandbox, container: Container, turn: Turn
    ) -> Adjustment | None:
        """Let the container be made only with its pod's NICs in place.

        Raises:
            BerthError: One is missing and could not be attached, or the claim is another pod's.
        """
        try:
            await self._require_nics(sandbox, container, turn)
        except BerthError as error:
            self._note(sandbox, error)
            raise
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
        """The last container of an older sandbox is the sign of its end, if its pod is ending."""
        running = self._older.get(sandbox.id)
        if running is None:
            return
        running.discard(container.id)
        if not running and self._nursery is not None:
            self._nursery.start_soon(self._end_older, sandbox)

    async def remove_container(self, sandbox: Sandbox, container: Container) -> None:
        """Nothing: what ended was told by the stop."""

    def _wants(self, sandbox: Sandbox) -> bool:
        """Whether the pod has a NIC of ours that is not in this sandbox."""
        return any(
            device.nic is not None
            and (device.nic.sandbox is None or device.nic.sandbox.id != sandbox.id)
            for record in self._claims.of_pod(sandbox.uid)
            for device in record.devices
        )

    async def _require_nics(self, sandbox: Sandbox, container: Container, turn: Turn) -> None:
        marked = sorted(marked_claims(iter(container.env)))
        records = self._claims.by_marker(marked)
        for uid, record in zip(marked, records, strict=True):
            self._require_own(uid, record, sandbox)
        wanted = {r.claim.uid: r for r in (*self._claims.of_pod(sandbox.uid), *records) if r}
        wanted = {uid: r for uid, r in wanted.items() if any(d.nic for d in r.devices)}
        if not wanted:
            return
        failed = self._failed.get(sandbox.id)
        if failed is not None:
            raise ClaimError(f"pod {sandbox}", failed)
        reference = await _reference(sandbox)
        if await self._claims.missing(wanted, reference):
            await self._attach(sandbox, turn)

    def _require_own(self, uid: str, record: ClaimRecord | None, sandbox: Sandbox) -> None:
        """Refuse a container that was promised a device which is not its pod's."""
        if record is None or not record.prepared or record.revoked:
            raise ClaimError(
                f"pod {sandbox}",
                f"uses claim {uid}, which is not prepared on this node any more",
                mend="delete the pod; its successor gets a device of its own",
            )
        if not record.serves_pod(sandbox.uid) and any(c.is_pod for c in record.consumers):
            pods = ", ".join(c.name for c in record.consumers if c.is_pod)
            raise ClaimError(
                f"claim {record.claim}",
                f"is used by pod {pods}",
                rule="its NIC can be in one pod only",
                mend="give each pod a claim of its own, by a ResourceClaimTemplate",
            )

    def _note(self, sandbox: Sandbox, error: BerthError) -> None:
        self._troubles.note(sandbox.uid, Trouble(pod=str(sandbox), text=str(error), at=now_text()))

    async def _attach(self, sandbox: Sandbox, turn: Turn) -> None:
        if sandbox.runtime_handler in self._vm_handlers:
            raise ClaimError(
                f"pod {sandbox}",
                f"runs in a virtual machine (runtime handler {sandbox.runtime_handler})",
                rule="a link cannot be moved into it",
            )
        reference = await _reference(sandbox)
        await self._claims.attach(
            sandbox.uid,
            reference,
            limit_s=turn.limit_s - RESERVE_S,
            decision=turn.decision,
        )
        self._troubles.forget(sandbox.uid)

    async def _attach_late(self, sandbox: Sandbox) -> None:
        """Complete a pod that started while we were away."""
        try:
            reference = await _reference(sandbox)
            await self._claims.attach(
                sandbox.uid, reference, limit_s=LATE_ATTACH_S, decision=Decision()
            )
        except BerthError as error:
            _log.warning(
                "pod runs without its NICs, its next container is refused",
                pod=sandbox,
                reason=error,
            )
        else:
            _log.warning("pod had started without its NICs, attached now", pod=sandbox)

    async def _end_older(self, sandbox: Sandbox) -> None:
        try:
            if await self._is_ending(sandbox):
                await self._claims.detach(sandbox.id)
        except BerthError as error:
            _log.warning("end of an older pod not settled", pod=sandbox, reason=error)

    def _forget(self, sandbox: Sandbox) -> None:
        self._failed.pop(sandbox.id, None)
        self._older.pop(sandbox.id, None)
        self._troubles.forget(sandbox.uid)


async def _reference(sandbox: Sandbox) -> SandboxRef:
    """The sandbox as records know it.

    Raises:
        ClaimError: The pod uses the host's network, so there is nowhere to move a NIC to.
        HostError: Its namespace is gone.
    """
    if sandbox.netns_path is None:
        raise ClaimError(
            f"pod {sandbox}",
            "uses the host's network",
            rule="a NIC is moved into a pod's own network namespace",
            mend="drop hostNetwork, or the claim",
        )
    inode = await run_in_thread("nics", inode_of, sandbox.netns_path)
    return SandboxRef(
        id=sandbox.id,
        pod_uid=sandbox.uid,
        pod=str(sandbox),
        netns_path=sandbox.netns_path,
        netns_inode=inode,
    )
