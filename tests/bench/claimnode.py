"""A node's part of claims with its real disk: records, CDI files and metadata lie in a folder."""

from __future__ import annotations

from pathlib import Path

from berth.cdi.store import CdiStore
from berth.metadata.store import MetadataStore
from berth.model.peripheral import Peripheral
from berth.node.claims.claims import Claims
from berth.node.claims.ending import Ending
from berth.node.claims.handout import Handout
from berth.node.claims.reservation import Reservation
from berth.node.ledger import Ledger
from berth.node.records.records import Records
from berth.node.views.troubles import Troubles
from berth.runtime.latest import Latest
from tests.unit.node.claimserver import ClaimServer
from tests.unit.node.conftest import Told
from tests.unit.node.hands import Disk, MemoryRecords, SpokenNics
from tests.unit.node.machine import DRIVER, SETTINGS, Eyes, look


class ClaimNode:
    """Claims on a peripheral; no NIC is among them, and the API server answers at once.

    Args:
        folder: Where everything is written.
        device: What the machine has.
    """

    def __init__(self, folder: Path, device: Peripheral) -> None:
        for name in ("cdi", "kubelet"):
            (folder / name).mkdir(parents=True)
        self.server = ClaimServer()
        self.records = Records(folder / "claims")
        self.nics = SpokenNics(MemoryRecords(Disk()))
        papers = Handout(
            CdiStore(DRIVER, folder / "cdi"), MetadataStore(DRIVER, folder / "kubelet")
        )
        ledger, told, troubles, eyes = Ledger(), Told(), Troubles(), Eyes()
        eyes.show(look(peripherals=(device,)))
        self.ending = Ending(
            records=self.records, ledger=ledger, home=self.nics, remains=papers, status=told
        )
        reservation = Reservation(
            DRIVER,
            api=self.server,
            records=self.records,
            ledger=ledger,
            discovery=eyes,
            closed=Latest(""),
            troubles=troubles,
            end=self.ending.end,
        )
        self.claims = Claims(
            SETTINGS,
            api=self.server,
            records=self.records,
            ledger=ledger,
            nics=self.nics,
            reservation=reservation,
            ending=self.ending,
            papers=papers,
            status=told,
            troubles=troubles,
        )
