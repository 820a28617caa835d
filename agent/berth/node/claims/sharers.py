"""Which pods have a claim that does not name them: kubelet prepares one once for all its pods.

It prepares the claim with the first pod and says nothing of those that come later; a claim that is
reserved for a PodGroup names none of them at all. The marker in a container's environment tells of
containers that refer to the claim, but a pod may have it without any. So while such a claim has a
NIC here, the pods of its namespace are asked about when their sandboxes are made. Kubelet is asked
first: it is on the node, and has seen to the pod's claims before. The API server is asked for what
kubelet does not tell.

Where neither tells, a pod is refused that may be of a group, since it might start without its NIC.
So kubelet's answer has to suffice for every pod that has nothing to do with the group. A claim that
names pods lets a pod go on then, and the operator is told: before 1.37 kubelet does not tell, and a
pod that has the claim was seen by the API server a moment ago. It is asked about again with each of
its containers. What a pod has never changes. A claim that was made for one pod is seldom named by
another, and most claims are such: of those kubelet alone is asked, and its silence is no trouble.

Source: ``pkg/kubelet/cm/dra/manager.go`` and ``k8s.io/dynamic-resource-allocation/resourceclaim``
of 1.37.2; KC §10.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Final, Protocol

import attrs
import trio

from berth.errors import BerthError, ClaimError, HostError
from berth.model.pod import PodClaims, Sandbox
from berth.node.records.record import ClaimRecord
from berth.runtime.logs import get_log

KUBELET_S: Final = 0.3
"""How long kubelet may take: the pod's hook waits for it."""

BUSY: Final = "RESOURCE_EXHAUSTED"
"""Kubelet's code for whoever asks while it is asked too much: it is asked again in that time."""

BUSY_PAUSE_S: Final = 0.05
"""A pause before that: 100 questions a second are answered, and ten at once, whoever asks."""

SOURCE: Final = "kubernetes.io/config.source"
"""Annotation that kubelet itself writes on each pod: where it has the pod from."""

_log = get_log(__name__)


class Kubelet(Protocol):
    """The node's kubelet; see `berth.dra.kubeletpods.KubeletPods`."""

    async def claims_of(self, sandbox: Sandbox) -> PodClaims | None:
        """The claims of the sandbox's pod."""
        ...


class Server(Protocol):
    """The API server."""

    async def pod_claims(self, namespace: str, name: str, *, uid: str) -> PodClaims | None:
        """The claims of a pod."""
        ...


@attrs.frozen(kw_only=True)
class _Told:
    """What was told of a pod when one of its sandboxes was made."""

    sandbox_id: str
    claims: PodClaims


class Sharers:
    """Knows the pods.

    Args:
        records: Gives every claim's record.
    """

    def __init__(
        self, records: Callable[[], Iterable[ClaimRecord]], *, kubelet: Kubelet, server: Server
    ) -> None:
        self._records = records
        self._kubelet = kubelet
        self._server = server
        self._pods: dict[str, _Told] = {}
        self._is_silent = False

    def of_pod(self, sandbox: Sandbox) -> tuple[ClaimRecord, ...]:
        """Claims with NICs that the pod is known to have, though they do not name it."""
        return tuple(one for one in self._shared(sandbox) if self._has(sandbox, one))

    def asks_about(self, sandbox: Sandbox) -> bool:
        """Whether it is not known of a claim if the pod has it."""
        return bool(self._undecided(sandbox))

    def is_foreign(self, sandbox: Sandbox, record: ClaimRecord) -> bool:
        """Whether a claim of a group has a NIC and is not the pod's, as far as was learnt.

        Whoever writes a pod can write the marker into its environment too.
        """
        if not record.has_nics or not _groups(record) or record.serves_pod(sandbox.uid):
            return False
        return all(one.uid != record.uid for one in self.of_pod(sandbox))

    async def learn(self, sandbox: Sandbox, *, limit_s: float) -> ClaimError | None:
        """Find out what the pod has, if claims that do not name it may be among it.

        Returns:
            What is not known of a pod that goes on all the same; it is asked about again.

        Raises:
            ClaimError: Nobody says it in that time, and one is of a group.
        """
        reasons: list[str] = []
        with trio.move_on_after(limit_s) as limit:
            if self.asks_about(sandbox):
                await self._hear(sandbox, self._ask_kubelet, reasons)
            if not all(map(_is_made_for_one, self._undecided(sandbox))):
                await self._hear(sandbox, self._ask_server, reasons)
        if limit.cancelled_caught:
            reasons.append("the API server did not tell in time")
        undecided = self._undecided(sandbox)
        grouped = [one for one in undecided if _groups(one)]
        if grouped:
            raise _untold(
                sandbox,
                grouped,
                f"whose NIC is for a pod of a PodGroup, and nobody says whether it has: "
                f"{'; '.join(reasons)}",
                mend="kubelet tries again by itself; ",
            )
        if undecided:
            self._complain(sandbox, reasons)
        named = [one for one in undecided if not _is_made_for_one(one)]
        if named:
            return _untold(
                sandbox,
                named,
                f"which names another, and nobody says whether it has: {'; '.join(reasons)}",
                rule="it starts all the same, without that NIC",
            )
        return None

    def forget(self, sandbox: Sandbox) -> None:
        """A sandbox has ended; what was told with the pod's next one stays."""
        told = self._pods.get(sandbox.uid)
        if told is not None and told.sandbox_id == sandbox.id:
            del self._pods[sandbox.uid]

    def keep(self, pod_uids: Collection[str]) -> None:
        """No other pods are there."""
        self._pods = {uid: pod for uid, pod in self._pods.items() if uid in pod_uids}

    def _complain(self, sandbox: Sandbox, reasons: Iterable[str]) -> None:
        """Warn of silence, once until somebody tells again: all pods of a namespace meet it."""
        log = _log.debug if self._is_silent else _log.warning
        log("not told which claims a pod has", pod=sandbox, reason="; ".join(reasons))
        self._is_silent = True

    async def _hear(
        self,
        sandbox: Sandbox,
        ask: Callable[[Sandbox], Awaitable[PodClaims]],
        reasons: list[str],
    ) -> None:
        try:
            pod = await ask(sandbox)
        except BerthError as error:
            reasons.append(str(error))
            return
        self._pods[sandbox.uid] = _Told(sandbox_id=sandbox.id, claims=pod)
        self._is_silent = False
        if self.asks_about(sandbox):
            names = ", ".join(sorted(pod.unresolved))
            reasons.append(f"which claim its template for {names} made is not told")

    async def _ask_kubelet(self, sandbox: Sandbox) -> PodClaims:
        reason = ""
        with trio.move_on_after(KUBELET_S):
            while True:
                try:
                    pod = await self._kubelet.claims_of(sandbox)
                except HostError as error:
                    if error.rule != BUSY:
                        raise
                    reason = f": {error.found}"
                    await trio.sleep(BUSY_PAUSE_S)
                    continue
                if pod is None:
                    raise HostError("kubelet", f"does not know the pod of UID {sandbox.uid}")
                return pod
        raise HostError("kubelet", f"did not tell of the pod within {KUBELET_S:g} s{reason}")

    async def _ask_server(self, sandbox: Sandbox) -> PodClaims:
        """What the API server tells; a pod that is not there is going, or is a static one."""
        pod = await self._server.pod_claims(sandbox.namespace, sandbox.name, uid=sandbox.uid)
        return pod if pod is not None else PodClaims()

    def _undecided(self, sandbox: Sandbox) -> tuple[ClaimRecord, ...]:
        # A pod that kubelet has from a file can have no claims, and may be the API server itself.
        if sandbox.annotations.get(SOURCE, "api") != "api":
            return ()
        return tuple(one for one in self._shared(sandbox) if self._has(sandbox, one) is None)

    def _has(self, sandbox: Sandbox, record: ClaimRecord) -> bool | None:
        """Whether the pod has a claim, as far as is known; one that had its NIC last does."""
        last = (nic.sandbox for nic in record.nics if nic is not None)
        if any(ref is not None and ref.pod_uid == sandbox.uid for ref in last):
            return True
        told = self._pods.get(sandbox.uid)
        return has_claim(told.claims, record) if told is not None else None

    def _shared(self, sandbox: Sandbox) -> Iterable[ClaimRecord]:
        """Claims with NICs in the pod's namespace that do not name the pod."""
        for record in self._records():
            if (
                record.prepared
                and not record.revoked
                and record.has_nics
                and record.claim.namespace == sandbox.namespace
                and not record.serves_pod(sandbox.uid)
            ):
                yield record


def _untold(
    sandbox: Sandbox, records: Iterable[ClaimRecord], found: str, *, rule: str = "", mend: str = ""
) -> ClaimError:
    claims = ", ".join(str(one.claim) for one in records)
    return ClaimError(
        f"pod {sandbox}",
        f"may have claim {claims}, {found}",
        rule=rule,
        mend=f"{mend}with its gate PodsAPI (on since 1.37) kubelet tells on the node, else our "
        "credentials need `get` of pods",
    )


def has_claim(pod: PodClaims, record: ClaimRecord) -> bool | None:
    """Whether a pod has a claim; ``None`` while that cannot be told.

    Of pods that do not own it, only those of the group have a claim that was made from a template.
    """
    if record.claim.name in pod.names:
        return True
    return None if pod.unresolved and pod.group in _groups(record) else False


def _is_made_for_one(record: ClaimRecord) -> bool:
    """Whether the claim was made from a template for one pod; others may name it all the same.

    It is seldom done and such claims are many, so of a pod that kubelet does not tell of nobody
    else is asked.
    """
    return record.pod_claim_name is not None and not _groups(record)


def _groups(record: ClaimRecord) -> frozenset[str]:
    """Names of the groups that the claim is reserved for."""
    return frozenset(consumer.name for consumer in record.consumers if not consumer.is_pod)
