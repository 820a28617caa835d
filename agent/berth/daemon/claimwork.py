"""What is done with claims: prepared, brought into pods, ended, and made true after a restart."""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection, Iterable

from berth.config.schema import Config
from berth.daemon.holdings import Holdings
from berth.metadata.store import MetadataStore
from berth.nic.config.group import policies_of
from berth.node.claims.allocations import Allocations
from berth.node.claims.arrivals import Arrivals
from berth.node.claims.claims import Claims
from berth.node.claims.drafting import Settings
from berth.node.claims.ending import Ending, Ways
from berth.node.claims.handout import Handout
from berth.node.claims.recovery import Recovery
from berth.node.claims.reservation import Reservation
from berth.node.claims.resting import rest_file
from berth.node.claims.skipped import Skipped
from berth.node.claims.status import ClaimStatus
from berth.node.claims.unwaited import Unwaited
from berth.node.claims.waits import Waits
from berth.node.gateway import Gateway
from berth.node.health.inquiry import Inquiry
from berth.node.views import Troubles
from berth.node.watches.readiness import ReadinessWatch
from berth.readiness.demands import Demands
from berth.runtime.files import Folder
from berth.runtime.latest import Latest


class ClaimWork:
    """Everybody who works on claims.

    Args:
        inquiry: Tells how devices are.
        told: Told the devices of whose health a claim's status said something new.
        allocations: Tells which claims have devices here.
        settled: Called when claims may have ended that kubelet does not ask for.
        closed: Why no hook would move a NIC into a pod now; empty while one would.
        boot_id: Of this boot.
        pools: Gives the pools of this node; none while nobody knows which node it is.

    Attributes:
        demands: What groups want to be waited for before a pod is bound.
        readiness: Asks devices whether they are ready.
        waits: Waits for them.
    """

    def __init__(
        self,
        config: Config,
        held: Holdings,
        *,
        inquiry: Inquiry,
        told: Callable[[Iterable[str]], object],
        api: Gateway,
        allocations: Allocations,
        settled: Callable[[], object],
        closed: Latest[str],
        troubles: Troubles,
        boot_id: str,
        pools: Callable[[], Collection[str]],
    ) -> None:
        driver = config.dra.driver
        self.cdi = held.cdi
        self.metadata = MetadataStore(driver, config.kubelet.root)
        self.handout = Handout(self.cdi, self.metadata)
        self.demands = Latest(Demands.of(config))
        self.status = ClaimStatus(
            api,
            driver=driver,
            manager=f"berthd-{socket.gethostname()}"[:128],
            records=held.records,
            inquiry=inquiry,
            told=told,
            waits=lambda: bool(self.demands.get().groups),
        )
        self.readiness = ReadinessWatch(
            inventory=held.discovery.inventory,
            commands=held.stock.binders,
            demands=self.demands,
        )
        self.waits = Waits(
            driver=driver,
            allocations=allocations,
            status=self.status,
            asks=self.readiness,
            inventory=held.discovery.inventory,
            inquiry=inquiry,
            records=held.records,
            demands=self.demands,
            troubles=troubles,
            kept=rest_file(Folder(config.node.state_dir)),
        )
        home = Ways(held.bindings, held.nics)
        self.ending = Ending(
            records=held.records,
            ledger=held.ledger,
            home=home,
            remains=self.handout,
            status=self.status,
        )
        self.claims = Claims(
            Settings(driver=driver, boot_id=boot_id, policies=policies_of(config.nic.groups)),
            api=api,
            records=held.records,
            ledger=held.ledger,
            nics=held.nics,
            reservation=Reservation(
                driver,
                api=api,
                records=held.records,
                ledger=held.ledger,
                discovery=held.discovery,
                closed=closed,
                troubles=troubles,
                end=self.ending.end,
                inquiry=inquiry,
                unwaited=Unwaited(
                    self.readiness, inventory=held.discovery.inventory, demands=self.demands
                ),
                pools=pools,
            ),
            ending=self.ending,
            papers=self.handout,
            status=self.status,
            troubles=troubles,
            occupancy=held.occupancy,
            bindings=held.bindings,
        )
        self.arrivals = Arrivals(
            records=held.holders, nics=held.nics, notes=self.handout, status=self.status
        )
        self.skipped = Skipped(
            records=held.skipped,
            prepared=held.records,
            ledger=held.ledger,
            claims=allocations.claims,
            inventory=held.discovery.inventory,
            end=self.ending.end,
            settled=settled,
            driver=driver,
            boot_id=boot_id,
        )
        self.recovery = self._recovery(held, home, driver=driver, boot_id=boot_id)

    def _recovery(self, held: Holdings, home: Ways, *, driver: str, boot_id: str) -> Recovery:
        """Who takes up what the life before left."""
        return Recovery(
            driver=driver,
            boot_id=boot_id,
            records=held.records,
            ledger=held.ledger,
            nics=held.nics,
            home=home,
            handout=self.handout,
            holders=held.holders,
        )
