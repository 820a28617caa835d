"""Claims whose pods wait for their devices: NICs that are asked, and what is told of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import trio

from berth.config.bind import BindWhen, NicBind
from berth.kube.status import DeviceStatus
from berth.model.allocation import AllocatedClaim, AllocatedDevice
from berth.model.claim import ClaimRef, Consumer
from berth.model.inventory import Inventory
from berth.model.readiness import Answer
from berth.node.claims.allocations import Allocations
from berth.node.claims.status import ClaimStatus
from berth.node.claims.waits import Waits
from berth.node.views.troubles import Troubles
from berth.readiness.demands import Demands
from berth.runtime.latest import Latest
from tests.unit.memoryfile import MemoryFile
from tests.unit.node.claimserver import ClaimServer
from tests.unit.node.hands import Disk, MemoryRecords
from tests.unit.node.machine import FAST, OTHER, look
from tests.unit.node.verdicts import WELL, Judge

READY: Final = "berth.dev/ready"
FAILED: Final = "berth.dev/failed"
UP: Final = Answer(ready=True, reason="LinkUp")
DOWN: Final = Answer(ready=False, reason="NoCarrier", message="ens1 has no carrier")
LINK_UP: Final = NicBind(when=BindWhen.LINK_UP, within_s=60, rest_s=300)
DEMANDS: Final = Demands(groups={("nic", "fast"): LINK_UP})
START_S: Final = 1_700_000_000
"""The time of the node's clock when a test begins: 2023-11-14T22:13:20Z."""


class Asks:
    """Gives answers as it is told to.

    Attributes:
        wanted: Whose readiness somebody waits for.
    """

    def __init__(self) -> None:
        self.answers: Latest[Mapping[str, Answer]] = Latest({})
        self.wanted: dict[str, frozenset[str]] = {}

    def want(self, who: str, names: Iterable[str]) -> None:
        """Take note of it."""
        self.wanted[who] = frozenset(names)

    def tell(self, **answers: Answer) -> None:
        """Let these be the answers, by name with underscores."""
        told = {name.replace("_", "-"): answer for name, answer in answers.items()}
        self.answers.set({**self.answers.get(), **told})


class Scene:
    """One node, its claims as the server has them, and what is told of them."""

    def __init__(
        self, demands: Demands = DEMANDS, *, rests: Mapping[str, float] | None = None
    ) -> None:
        self.kept: MemoryFile[Mapping[str, float]] = MemoryFile(rests)
        self.server = ClaimServer()
        self.asks = Asks()
        self.judge = Judge()
        self.judge.tell({FAST: WELL, OTHER: WELL})
        self.inventory: Latest[Inventory] = Latest(look().inventory)
        self.demands = Latest(demands)
        self.troubles = Troubles()
        self.allocations = Allocations(self.server)
        self.status = ClaimStatus(self.server, driver="berth.dev", manager="berthd-node")
        self.records = MemoryRecords(Disk())
        self._began_s = trio.current_time()
        self.waits = Waits(
            driver="berth.dev",
            allocations=self.allocations,
            status=self.status,
            asks=self.asks,
            inventory=self.inventory,
            inquiry=self.judge.inquiry(),
            records=self.records,
            demands=self.demands,
            troubles=self.troubles,
            kept=self.kept,
            clock=self.now_s,
        )

    def now_s(self) -> float:
        """The node's clock."""
        return START_S + trio.current_time() - self._began_s

    def hear(self, *claims: AllocatedClaim) -> None:
        """Let these be the claims with devices here."""
        self.allocations.claims.set({claim.ref.uid: claim for claim in claims})

    def told(self, uid: str = "uid-a") -> dict[str, dict[str, tuple[str, str]]]:
        """Status and reason of the conditions that a claim was told last, by device."""
        entries = [one.devices for one in self.server.applied if one.ref.uid == uid]
        return {one.device: words(one) for one in entries[-1]} if entries else {}

    @property
    def trouble(self) -> str:
        """What is known of why a claim waits."""
        return "; ".join(one.text for one in self.troubles.all())


def awaited(
    name: str = "a", *devices: str, allocated_at: str = "2023-11-14T22:13:20Z"
) -> AllocatedClaim:
    """A claim that was given NICs which are waited for, one unless they are named."""
    return AllocatedClaim(
        ref=ClaimRef(namespace="default", name=name, uid=f"uid-{name}"),
        devices=tuple(
            AllocatedDevice(
                request="nic",
                pool="node/nic",
                device=device,
                binding_conditions=(READY,),
                failure_conditions=(FAILED,),
            )
            for device in devices or (FAST,)
        ),
        consumers=(Consumer(resource="pods", name=f"pod-{name}", uid=f"uid-of-pod-{name}"),),
        allocated_at=allocated_at,
    )


def words(entry: DeviceStatus) -> dict[str, tuple[str, str]]:
    """Status and reason of each condition of a device."""
    return {c.type: (c.status.value, c.reason) for c in entry.conditions}
