"""Whether a pod may have a holder's NICs now; asked under the holder's lock, before they move."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from berth.errors import ClaimError
from berth.nic import homecoming
from berth.nic.record import SandboxRef, Stage
from berth.node.holders.nicholders import NicHolder, nics_of
from berth.runtime.threads import run_in_thread

_USABLE: Final = frozenset({Stage.STAGED, Stage.HOME, Stage.ATTACHING, Stage.ATTACHED})


async def require_left(records: Sequence[NicHolder], sandbox: SandboxRef) -> None:
    """Refuse what another pod has that lives: only the lock tells who came first.

    What is the pod's by name, and the other's no more, goes on to its new pod all the same.

    Raises:
        ClaimError: Nothing was begun.
    """
    for record in records:
        for _, nic in nics_of(record):
            there = nic.sandbox
            if there is None or not nic.is_away or there.pod_uid == sandbox.pod_uid:
                continue
            if record.serves_pod(sandbox.pod_uid) and not record.serves_pod(there.pod_uid):
                continue
            if await run_in_thread("nics", homecoming.is_alive, there):
                raise ClaimError(
                    nic.device,
                    f"is used by pod {there.pod}",
                    rule="a NIC can be in one pod only",
                    mend="give each pod a claim of its own, by a ResourceClaimTemplate",
                )


def require_usable(wanted: Sequence[str], records: Sequence[NicHolder]) -> None:
    """Refuse holders that were undone while we waited for their locks, and NICs that are not home.

    Raises:
        ClaimError: Nothing was begun.
    """
    gone = set(wanted) - {r.uid for r in records if r.prepared and not r.revoked}
    if gone:
        raise ClaimError(f"claim {', '.join(sorted(gone))}", "is not prepared any more")
    for record in records:
        for _, nic in nics_of(record):
            if nic.stage not in _USABLE:
                raise ClaimError(
                    nic.device,
                    f"cannot be attached now: {nic.fault or nic.stage.value}",
                    mend="kubelet asks again by itself",
                )
