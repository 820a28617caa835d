"""What is done with claims: prepared, brought into pods, ended, and made true after a restart."""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection, Iterable

import attrs

from berth.config.schema import Config
from berth.daemon.holdings import Holdings
from berth.metadata.store import MetadataStore
from berth.model.inventory import Inventory
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


@attrs.frozen(kw_only=True)
class Around:
    """What those who work on claims find around them.

    Attributes:
        config: The settings in force at start.
        inquiry: Tells how devices are.
        told: Told the devices of whose health a claim's status said something new.
        allocations: Tells which claims have devices here.
        settled: Called when claims may have ended that kubelet does not ask for.
        closed: Why no hook would move a NIC into a pod now; empty while one would.
        boot_id: Of this boot.
        pools: Gives the pools of this node; none while nobody knows which node it is.
    """

    config: Config
    held: Holdings
    inquiry: Inquiry
    told: Callable[[Iterable[str]], object]
    api: Gateway
    allocations: Allocations
    settled: Callable[[], object]
    closed: Latest[str]
    troubles: Troubles
    boot_id: str
    pools: Callable[[], Collection[str]]

    @property
    def driver(self) -> str:
        """Our driver's name."""
        return self.config.dra.driver

    @property
    def inventory(self) -> Latest[Inventory]:
        """What the node has."""
        return self.held.discovery.inventory


class ClaimWork:
    """Everybody who works on claims.

    Attributes:
        demands: What groups want to be waited for before a pod is bound.
        readiness: Asks devices whether they are ready.
        waits: Waits for them.
    """

    def __init__(self, around: Around) -> None:
        held = around.held
        self.cdi = held.cdi
        self.metadata = MetadataStore(around.driver, around.config.kubelet.root)
        self.handout = Handout(self.cdi, self.metadata)
        self.demands = Latest(Demands.of(around.config))
        self.readiness = ReadinessWatch(
            inventory=around.inventory, commands=held.stock.binders, demands=self.demands
        )
        self.status = _status(around, self.demands)
        self.waits = _waits(around, self.status, self.readiness, self.demands)
        home = Ways(held.bindings, held.nics)
        self.ending = Ending(
            records=held.records,
            ledger=held.ledger,
            home=home,
            remains=self.handout,
            status=self.status,
        )
        unwaited = Unwaited(self.readiness, inventory=around.inventory, demands=self.demands)
        reservation = _reservation(around, self.ending, unwaited)
        self.claims = _claims(around, reservation, self.ending, self.handout, self.status)
        self.arrivals = Arrivals(
            records=held.holders, nics=held.nics, notes=self.handout, status=self.status
        )
        self.skipped = _skipped(around, self.ending)
        self.recovery = _recovery(around, home, self.handout)


def _status(around: Around, demands: Latest[Demands]) -> ClaimStatus:
    """Who tells the API server how a claim's devices are."""
    return ClaimStatus(
        around.api,
        driver=around.driver,
        manager=f"berthd-{socket.gethostname()}"[:128],
        records=around.held.records,
        inquiry=around.inquiry,
        told=around.told,
        waits=lambda: bool(demands.get().groups),
    )


def _waits(
    around: Around, status: ClaimStatus, asks: ReadinessWatch, demands: Latest[Demands]
) -> Waits:
    """Who waits for devices before their pods are bound."""
    return Waits(
        driver=around.driver,
        allocations=around.allocations,
        status=status,
        asks=asks,
        inventory=around.inventory,
        inquiry=around.inquiry,
        records=around.held.records,
        demands=demands,
        troubles=around.troubles,
        kept=rest_file(Folder(around.config.node.state_dir)),
    )


def _reservation(around: Around, ending: Ending, unwaited: Unwaited) -> Reservation:
    """Who takes a claim's devices in the ledger."""
    return Reservation(
        around.driver,
        api=around.api,
        records=around.held.records,
        ledger=around.held.ledger,
        discovery=around.held.discovery,
        closed=around.closed,
        troubles=around.troubles,
        end=ending.end,
        inquiry=around.inquiry,
        unwaited=unwaited,
        pools=around.pools,
    )


def _claims(
    around: Around, reservation: Reservation, ending: Ending, papers: Handout, status: ClaimStatus
) -> Claims:
    """Who prepares and undoes claims."""
    policies = policies_of(around.config.nic.groups)
    return Claims(
        Settings(driver=around.driver, boot_id=around.boot_id, policies=policies),
        api=around.api,
        records=around.held.records,
        ledger=around.held.ledger,
        nics=around.held.nics,
        reservation=reservation,
        ending=ending,
        papers=papers,
        status=status,
        troubles=around.troubles,
        occupancy=around.held.occupancy,
        bindings=around.held.bindings,
    )


def _skipped(around: Around, ending: Ending) -> Skipped:
    """Who keeps the devices of claims for which kubelet does not call."""
    return Skipped(
        records=around.held.skipped,
        prepared=around.held.records,
        ledger=around.held.ledger,
        claims=around.allocations.claims,
        inventory=around.inventory,
        end=ending.end,
        settled=around.settled,
        driver=around.driver,
        boot_id=around.boot_id,
    )


def _recovery(around: Around, home: Ways, handout: Handout) -> Recovery:
    """Who takes up what the life before left."""
    return Recovery(
        driver=around.driver,
        boot_id=around.boot_id,
        records=around.held.records,
        ledger=around.held.ledger,
        nics=around.held.nics,
        home=home,
        handout=handout,
        holders=around.held.holders,
    )
