"""One life of the daemon's NIC side after the other, each in a process that may be killed.

Run as ``python -m tests.integration.node.crashdriver`` inside a scratch namespace.

What can be interrupted is counted: each netlink message, each file written or removed, each setting
under ``/proc/sys``.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import attrs
import trio

from berth.cdi.store import CdiStore
from berth.host.netlink.socket import send_now
from berth.metadata.store import MetadataStore
from berth.model.inventory import Inventory
from berth.nic import settings
from berth.nic.record import SandboxRef
from berth.node.claims.handout import Handout
from berth.node.claims.recovery import Recovery
from berth.node.holders.nicholders import NicHolders
from berth.node.ledger import Ledger
from berth.node.nics.nics import Nics
from berth.node.plugin.allotments import Allotments, given_shelf
from berth.node.plugin.cdifiles import PluginFiles
from berth.node.records.record import ClaimRecord
from berth.node.records.records import Records
from berth.runtime import files
from berth.runtime.latest import Latest
from berth.runtime.threads import Decision
from tests.integration.nic.beds import BOOT
from tests.integration.nic.senders import Message
from tests.integration.node.fates import Fate, serve

DRIVER = "berth.dev"


@attrs.frozen(kw_only=True)
class Order:
    """What one life does.

    Attributes:
        work: ``stage``, ``attach``, ``return``, ``unprepare`` or ``recover``.
        kill_at: The event before which it dies; 0 lets it live.
        homes: For ``stage``: each device's link at home.
    """

    work: str
    state: str
    uid: str
    sandbox: dict[str, Any] | None = None
    homes: tuple[int, ...] = ()
    kill_at: int = 0


def send(fate: Fate, sock: socket.socket, data: bytes) -> None:
    """Send one netlink message, which is an event."""
    fate.event(changes=not Message(sock, data).reads)
    send_now(sock, data)


class Life:
    """The parts that a daemon wires, as far as NICs are concerned."""

    def __init__(self, order: Order, fate: Fate) -> None:
        state = Path(order.state)
        self.order = order
        self.records = Records(state / "claims")
        self.given = given_shelf(state / "ledger")
        self.holders = NicHolders(self.records, self.given)
        self.nics = Nics(
            self.holders,
            exists=lambda _identity: True,
            renumbered=lambda *_words: None,
            names=state / "names",
            send=lambda sock, data: send(fate, sock, data),
        )
        ledger = Ledger()
        self.allotments = Allotments(
            self.given,
            ledger=ledger,
            inventory=Latest(Inventory()),
            files=PluginFiles(CdiStore(DRIVER, state / "cdi")),
            boot_id=BOOT,
        )
        self.recovery = Recovery(
            driver=DRIVER,
            boot_id=BOOT,
            records=self.records,
            holders=self.holders,
            ledger=ledger,
            nics=self.nics,
            home=self.nics,
            handout=Handout(CdiStore(DRIVER, state / "cdi"), MetadataStore(DRIVER, state)),
        )

    async def stage(self) -> None:
        """What prepare, or an allocation, does to the links."""
        record = self.holders.get(self.order.uid)
        assert record is not None
        async with self.holders.lock(self.order.uid):
            if isinstance(record, ClaimRecord):
                staged = await self.nics.stage(record, self.order.homes)
                await self.holders.put(attrs.evolve(staged, prepared=True, generation=1))
            else:
                given = await self.nics.stage(record, self.order.homes)
                await self.holders.put(attrs.evolve(given, prepared=True))

    async def attach(self) -> None:
        """What the hook does."""
        assert self.order.sandbox is not None
        await self.nics.attach(
            [self.order.uid],
            SandboxRef(**self.order.sandbox),
            limit_s=60.0,
            decision=Decision(),
        )

    async def give_back(self) -> None:
        """What the end of the sandbox does."""
        await self.nics.give_back(self.order.uid)

    async def unprepare(self) -> None:
        """What kubelet's last call does, or its last list."""
        record = self.holders.get(self.order.uid)
        assert record is not None
        await self.holders.put(attrs.evolve(record, revoked=True))
        await self.nics.give_back(self.order.uid)

    async def recover(self) -> None:
        """What a start does."""
        await self.recovery.load()
        await self.allotments.load()
        await self.recovery.finish()


async def live(order: Order, fate: Fate) -> None:
    """Do one order in this process."""
    life = Life(order, fate)
    if order.work != "recover":
        await life.records.load()
        # As it is: what was not answered is undone by a start alone.
        await life.given.load()
    works: dict[str, Callable[[], Awaitable[None]]] = {
        "stage": life.stage,
        "attach": life.attach,
        "return": life.give_back,
        "unprepare": life.unprepare,
        "recover": life.recover,
    }
    await works[order.work]()


def live_by(words: dict[str, Any], fate: Fate) -> None:
    """Live one life by an order."""
    for module, name in ((files, "write_file"), (files, "remove_file"), (settings, "_write")):
        fate.count_calls(module, name)
    trio.run(live, Order(**words), fate)


if __name__ == "__main__":
    serve(live_by)
