"""Whether a pod may have a claim's NICs that another may have too, or that do not name it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

import trio

from berth.errors import BerthError, ClaimError
from berth.model.pod import Sandbox
from berth.node.records.record import ClaimRecord
from berth.nri.presence import users
from berth.nri.sources import PreparedClaims, SharingPods
from berth.runtime.logs import get_log

ASK_PART: Final = 0.6
"""Part of a hook's time after which nobody is asked any more: the rest is for the NICs' way."""

LEARN_PART: Final = 0.4
"""The most of it that may go for the question whether a pod has a claim that others have too."""

LATE_QUESTIONS: Final = 3
"""Running pods that are asked about at once: a restart finds all of a node's, and kubelet refuses
everybody when it is asked too much."""

_log = get_log(__name__)


class Questions:
    """The time of one hook for all that it asks; begins when it is made.

    Args:
        limit_s: The hook's own.

    Attributes:
        end_at: When it is over, on trio's clock.
    """

    def __init__(self, limit_s: float) -> None:
        self.end_at = trio.current_time() + limit_s * ASK_PART
        self._learn_s = limit_s * LEARN_PART

    @property
    def learn_s(self) -> float:
        """How long it may take now to find out what a pod has."""
        return max(0.0, min(self._learn_s, self.end_at - trio.current_time()))


class Shares:
    """Asks for each pod.

    Args:
        claims: The node's claims.
        sharers: Who finds out which claims a pod has; ``None`` where nobody tells of them.
    """

    def __init__(self, claims: PreparedClaims, sharers: SharingPods | None) -> None:
        self._claims = claims
        self._sharers = sharers
        self._questions = trio.CapacityLimiter(LATE_QUESTIONS)

    def of_pod(self, sandbox: Sandbox) -> tuple[ClaimRecord, ...]:
        """Claims that the pod is known to have, though they do not name it."""
        return self._sharers.of_pod(sandbox) if self._sharers is not None else ()

    def asks_about(self, sandbox: Sandbox) -> bool:
        """Whether that is not known."""
        return self._sharers is not None and self._sharers.asks_about(sandbox)

    def keep(self, pod_uids: Collection[str]) -> None:
        """No other pods are there."""
        if self._sharers is not None:
            self._sharers.keep(pod_uids)

    def forget(self, sandbox: Sandbox) -> None:
        """The sandbox has ended."""
        if self._sharers is not None:
            self._sharers.forget(sandbox)

    async def learn(self, sandbox: Sandbox, questions: Questions) -> BerthError | None:
        """Find out which claims the pod has that do not name it, and refuse it another pod's.

        Returns:
            What nobody tells, of a pod that goes on all the same.

        Raises:
            BerthError: Nobody tells, or another pod has it.
        """
        if self._sharers is None:
            return None
        untold = await self._sharers.learn(sandbox, limit_s=questions.learn_s)
        for record in self._sharers.of_pod(sandbox):
            await self.require_own(record.uid, record, sandbox, questions)
        return untold

    async def doubts(
        self, sandbox: Sandbox, *, limit_s: float, lives: Callable[[], bool]
    ) -> dict[str, BerthError]:
        """The same for a pod that runs already, a few of them at a time.

        Args:
            lives: Whether the sandbox still lives when its turn comes; one that does not is not
                asked about.

        Returns:
            What is told of it: by its UID each of these claims that the pod must not have, and by
            an empty one that it is not known whether it has more.
        """
        told: dict[str, BerthError] = {}
        if self._sharers is None or not (self.asks_about(sandbox) or self.of_pod(sandbox)):
            return told
        async with self._questions:
            if not lives():
                return told
            questions = Questions(limit_s)
            untold: BerthError | None
            try:
                untold = await self._sharers.learn(sandbox, limit_s=questions.learn_s)
            except BerthError as error:
                untold = error
            if untold is not None:
                told[""] = untold
            for record in self._sharers.of_pod(sandbox):
                try:
                    await self.require_own(record.uid, record, sandbox, questions)
                except BerthError as error:
                    told[record.uid] = error
        return told

    async def require_own(
        self, uid: str, record: ClaimRecord | None, sandbox: Sandbox, questions: Questions
    ) -> ClaimRecord:
        """Refuse a pod that was promised a device which is not its own."""
        if record is not None and record.has_nics and users(record, sandbox):
            record = await self._reread(record, questions)
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

    async def _reread(self, record: ClaimRecord, questions: Questions) -> ClaimRecord | None:
        """The record as the API server has it; as it is when the server does not answer in time."""
        with trio.move_on_at(questions.end_at):
            try:
                return await self._claims.reread(record.claim.uid)
            except ClaimError:
                raise
            except BerthError as error:
                _log.debug("users of a claim not asked about", claim=record.claim, reason=error)
        return record
