"""An API server with claims and pods in memory behind `KubeApi`, with faults to order."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import trio

from berth.errors import ClaimError, KubeError
from berth.kube.status import DeviceStatus
from berth.model.claim import Claim, ClaimRef
from berth.model.pod import PodClaims
from tests.unit.dra.fakeapi import FakeApi


@attrs.frozen(kw_only=True)
class Applied:
    """One status that was written."""

    ref: ClaimRef
    devices: tuple[DeviceStatus, ...]
    at: float

    @property
    def words(self) -> dict[str, tuple[str, str]]:
        """Status and reason of each condition of the first device."""
        return {c.type: (c.status.value, c.reason) for c in self.devices[0].conditions}


class ClaimServer(FakeApi):
    """Claims by UID and pods that end.

    Attributes:
        claims: What there is; a claim of the same name and another UID is another claim.
        ended: UIDs of pods that are ending, or gone.
        pods: What pods use, by UID.
        applied: Every status that was taken.
        answers: Errors for the next calls, by method, the first first; ``None`` lets one through.
        hangs: Methods that never answer.
        gate: Every call waits for it, once it has begun.
        asked: What was read: claims and pods, by namespace and name.
    """

    def __init__(self, *claims: Claim) -> None:
        super().__init__()
        self.claims = {claim.ref.uid: claim for claim in claims}
        self.ended: set[str] = set()
        self.pods: dict[str, PodClaims] = {}
        self.applied: list[Applied] = []
        self.answers: dict[str, list[KubeError | None]] = {}
        self.hangs: set[str] = set()
        self.gate = trio.Event()
        self.gate.set()
        self.asked: list[str] = []

    async def get_claim(self, ref: ClaimRef, *, driver: str) -> Claim:
        """Give the claim, as the real one does."""
        self.asked.append(str(ref))
        await self._answer("get_claim")
        if ref.uid in self.claims:
            return self.claims[ref.uid]
        if any(str(claim.ref) == str(ref) for claim in self.claims.values()):
            raise ClaimError(f"claim {ref}", "is another one now")
        raise KubeError(f"claim {ref}", f"no claims of {driver}", status=404)

    async def pod_is_ending(self, namespace: str, name: str, *, uid: str) -> bool:
        """Tell whether a pod was said to end."""
        self.asked.append(f"{namespace}/{name}")
        await self._answer("pod_is_ending")
        return uid in self.ended

    async def pod_claims(self, namespace: str, name: str, *, uid: str) -> PodClaims | None:
        """Tell a pod's claims, of those that were said to be there."""
        self.asked.append(f"{namespace}/{name}")
        await self._answer("pod_claims")
        return self.pods.get(uid)

    async def apply_claim_status(
        self, ref: ClaimRef, devices: Sequence[DeviceStatus], *, driver: str, manager: str
    ) -> None:
        """Take it."""
        await self._answer("apply_claim_status")
        assert (driver, manager) == ("berth.dev", "berthd-node")
        self.applied.append(Applied(ref=ref, devices=tuple(devices), at=trio.current_time()))

    async def read_claim_status(self, ref: ClaimRef, *, driver: str) -> tuple[DeviceStatus, ...]:
        """Give what was written last."""
        assert driver == "berth.dev"
        self.asked.append(str(ref))
        await self._answer("read_claim_status")
        told = [one.devices for one in self.applied if one.ref == ref]
        return told[-1] if told else ()

    async def _answer(self, method: str) -> None:
        await trio.lowlevel.checkpoint()
        await self.gate.wait()
        if method in self.hangs:
            await trio.sleep_forever()
        queue = self.answers.get(method, [])
        error = queue.pop(0) if queue else None
        if error is not None:
            raise error


def refused(status: int, *, found: str = "refused", reason: str = "", field: str = "") -> KubeError:
    """An error of the server."""
    return KubeError(
        "API server", found, status=status, reason=reason, fields=(field,) if field else ()
    )
