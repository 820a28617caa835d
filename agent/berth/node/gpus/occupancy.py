"""Whether somebody computes on a GPU that is about to be given, whom no hold explains.

A process of the host, or of a pod that got its GPU by another way, is seen by the driver alone. The
driver's silence is no reason to refuse: who is well is not asked here.

Source: gpu-and-health.md L14.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from berth.errors import ClaimError
from berth.model.peripheral import Peripheral
from berth.node.ledger import Ledger


class Asks(Protocol):
    """Who asks the driver; see `berth.node.gpus.gpus.Gpus`."""

    async def processes(self, address: str) -> tuple[int, ...]:
        """Which processes compute on a GPU."""
        ...


class Occupancy:
    """Refuses GPUs that are occupied.

    Args:
        gpus: ``None`` where GPUs are off.
    """

    def __init__(self, gpus: Asks | None, ledger: Ledger) -> None:
        self._gpus = gpus
        self._ledger = ledger

    async def require_free(self, devices: Iterable[Peripheral], *, holder_uid: str) -> None:
        """Refuse a whole GPU on which a process computes.

        Args:
            devices: What ``holder_uid`` has in the ledger already.

        Raises:
            ClaimError: There is one, and nobody else holds that GPU.
        """
        for one in devices:
            if self._gpus is None or one.type != "gpu" or self._is_explained(one, holder_uid):
                continue
            pids = await self._gpus.processes(one.path)
            if pids:
                raise ClaimError(
                    one.name,
                    f"is in use by process {', '.join(map(str, pids))}, which nobody holds it for",
                    rule='[gpu] occupancy is "check"',
                    mend="end it; `berth gpu holders` tells what it is",
                )

    def _is_explained(self, one: Peripheral, holder_uid: str) -> bool:
        holds = (hold for key in one.keys for hold in self._ledger.holders(key))
        return any(hold.holder.uid != holder_uid for hold in holds)
