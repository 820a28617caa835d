"""A node whose parts do by word what the real ones do with kernel and disk."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Final

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from berth.model.claim import Claim, ClaimRef, PreparedClaim
from berth.nic.record import SandboxRef, Stage
from berth.node.claims.arrivals import Arrivals
from berth.node.claims.claims import Claims
from berth.node.claims.ending import Ending
from berth.node.claims.reservation import Reservation
from berth.node.claims.unwaited import Unwaited
from berth.node.holders.nicholders import NicHolders
from berth.node.ledger import Ledger
from berth.node.records.record import ClaimRecord
from berth.node.views.troubles import Troubles
from berth.runtime.latest import Latest
from berth.runtime.threads import Decision
from tests.unit.node.claimserver import ClaimServer
from tests.unit.node.hands import Disk, MemoryPapers, MemoryRecords, SpokenNics
from tests.unit.node.machine import DRIVER, SETTINGS, Eyes

LIMIT_S: Final = 40.0
"""What kubelet's call gives a prepare."""


class Told:
    """What a claim's status was told, by the claim's UID, newest last."""

    def __init__(self) -> None:
        self.records: dict[str, list[ClaimRecord]] = {}
        self.forgotten: list[str] = []

    def tell(self, record: ClaimRecord) -> None:
        """Remember it."""
        self.records.setdefault(record.claim.uid, []).append(record)

    def forget(self, uid: str) -> None:
        """Remember that too."""
        self.forgotten.append(uid)


class Node:
    """All parts together.

    Args:
        unwaited: Tells what a prepare waits for; ``None`` for nothing.

    Attributes:
        closed: Why no hook would move a NIC now.
    """

    def __init__(self, *, unwaited: Unwaited | None = None) -> None:
        self.server = ClaimServer()
        self.disk = Disk()
        self.records = MemoryRecords(self.disk)
        self.papers = MemoryPapers(self.disk)
        self.ledger = Ledger()
        self.nics = SpokenNics(self.records)
        self.eyes = Eyes()
        self.closed = Latest("")
        self.told = Told()
        self.troubles = Troubles()
        self.ending = Ending(
            records=self.records,
            ledger=self.ledger,
            home=self.nics,
            remains=self.papers,
            status=self.told,
        )
        self.reservation = Reservation(
            DRIVER,
            api=self.server,
            records=self.records,
            ledger=self.ledger,
            discovery=self.eyes,
            closed=self.closed,
            troubles=self.troubles,
            end=self.ending.end,
            unwaited=unwaited,
        )
        self.claims = Claims(
            SETTINGS,
            api=self.server,
            records=self.records,
            ledger=self.ledger,
            nics=self.nics,
            reservation=self.reservation,
            ending=self.ending,
            papers=self.papers,
            status=self.told,
            troubles=self.troubles,
        )

        self.arrivals = Arrivals(
            records=NicHolders(self.records), nics=self.nics, notes=self.papers, status=self.told
        )

    def add(self, *claims: Claim) -> None:
        """Have the API server allocate claims."""
        self.server.claims.update({claim.ref.uid: claim for claim in claims})

    async def prepare(self, claim: Claim, *, limit_s: float = LIMIT_S) -> PreparedClaim:
        """Prepare a claim as kubelet's call does."""
        self.server.claims.setdefault(claim.ref.uid, claim)
        with trio.fail_after(limit_s):
            return await self.claims.prepare(claim.ref)

    async def attach(self, claim: Claim, sandbox: SandboxRef) -> None:
        """Attach a claim's NICs as a hook does."""
        await self.arrivals.attach((claim.ref.uid,), sandbox, limit_s=1.4, decision=Decision())

    def record(self, claim: Claim) -> ClaimRecord:
        """The claim's record."""
        found = self.records.get(claim.ref.uid)
        assert found is not None
        return found

    def stages(self, ref: ClaimRef) -> list[Stage]:
        """Where the claim's NICs are."""
        record = self.records.get(ref.uid)
        devices = record.devices if record is not None else ()
        return [device.nic.stage for device in devices if device.nic is not None]

    def traces(self) -> Mapping[str, object]:
        """Everything that claims have left; what is empty is left out."""
        found = {
            "records": self.records.all(),
            "stored": self.records.stored,
            "files": self.papers.files,
            "holds": self.ledger.holds(),
        }
        return {name: value for name, value in found.items() if value}


@pytest.fixture
async def node(nursery: trio.Nursery) -> AsyncIterator[Node]:
    """A node whose background tasks run."""
    made = Node()
    await nursery.start(made.nics.run)
    await nursery.start(made.ending.run)
    await wait_all_tasks_blocked()
    yield made
    nursery.cancel_scope.cancel()


def sandbox_of(pod: str, number: int = 1) -> SandboxRef:
    """A sandbox of a pod."""
    return SandboxRef(
        id=f"sandbox-{pod}-{number}",
        pod_uid=f"uid-of-pod-{pod}",
        pod=f"default/{pod}",
        netns_path=f"/run/netns/{pod}-{number}",
        netns_inode=number,
    )
