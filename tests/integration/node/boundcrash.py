"""One life after the other of a node that binds a NIC, each in a process that may be killed.

Run as ``python -m tests.integration.node.boundcrash`` inside a scratch namespace.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import trio

from berth.cdi.store import CdiStore
from berth.metadata.store import MetadataStore
from berth.node.claims.ending import Ways
from berth.node.claims.handout import Handout
from berth.node.claims.recovery import Recovery
from berth.node.holders.nicholders import NicHolders
from berth.node.ledger import Ledger
from berth.node.nics.nics import Nics
from berth.node.records.records import Records
from berth.rehearsal.drivercore import DriverCore
from berth.runtime import files
from tests.integration.nic.beds import BOOT
from tests.integration.node.boundbeds import UID, bindings_of, drafted, machine_of, prepare
from tests.integration.node.fates import Fate, serve
from tests.integration.node.nodebeds import DRIVER


async def live(work: str, folder: Path) -> None:
    """Do one piece of work in this process."""
    records = Records(folder / "claims")
    nics = Nics(
        NicHolders(records),
        exists=lambda _: True,
        renumbered=lambda *_: None,
        names=folder / "names",
    )
    bindings = bindings_of(records, nics, machine_of(folder))
    if work == "recover":
        (folder / "cdi").mkdir(exist_ok=True)
        recovery = Recovery(
            driver=DRIVER,
            boot_id=BOOT,
            records=records,
            ledger=Ledger(),
            nics=nics,
            home=Ways(bindings, nics),
            handout=Handout(CdiStore(DRIVER, folder / "cdi"), MetadataStore(DRIVER, folder)),
        )
        await recovery.load()
        await recovery.finish()
        return
    await records.load()
    if work == "prepare":
        await prepare(records, nics, bindings, drafted())
        return
    record = records.get(UID)
    assert record is not None
    await records.put(attrs.evolve(record, revoked=True))
    await bindings.give_back(UID)


def live_by(words: dict[str, Any], fate: Fate) -> None:
    """Live one life by an order."""
    for place, name in ((files, "write_file"), (files, "remove_file"), (DriverCore, "write")):
        fate.count_calls(place, name)
    trio.run(live, words["work"], Path(words["folder"]))


if __name__ == "__main__":
    serve(live_by)
