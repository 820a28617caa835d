"""One life of the daemon's NIC side after the other, each in a process that may be killed.

Run as ``python -m tests.integration.node.crashdriver`` inside a scratch namespace. It reads an
order per line and answers by a line. For each order it forks: it has no thread and no event loop of
its own, so a fork costs some milliseconds where a fresh interpreter costs half a second, and the
child is a whole process that SIGKILL ends between two instructions.

What can be interrupted is counted: each netlink message, each file written or removed, each setting
under ``/proc/sys``. "Before event n" for every n, and after the last, is every state that a crash
can leave, since between two events nothing outside the process changes.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
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
from berth.node.allotments import Allotments, given_shelf
from berth.node.handout import Handout
from berth.node.ledger import Ledger
from berth.node.nicholders import NicHolders
from berth.node.nics import Nics
from berth.node.pluginfiles import PluginFiles
from berth.node.record import ClaimRecord
from berth.node.records import Records
from berth.node.recovery import Recovery
from berth.runtime import files
from berth.runtime.latest import Latest
from berth.runtime.threads import Decision
from tests.integration.nic.beds import BOOT
from tests.integration.nic.senders import Message

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


class Fate:
    """Counts events, and ends the process before the one that was chosen.

    Attributes:
        count: Events so far.
        changes: Numbers of those that change something outside the process.
    """

    def __init__(self, kill_at: int) -> None:
        self._kill_at = kill_at
        self.count = 0
        self.changes: list[int] = []

    def event(self, *, changes: bool = True) -> None:
        """Something is about to happen."""
        self.count += 1
        if changes:
            self.changes.append(self.count)
        if self.count == self._kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def send(self, sock: socket.socket, data: bytes, /) -> None:
        """Send one netlink message."""
        self.event(changes=not Message(sock, data).reads)
        send_now(sock, data)

    def count_calls(self, module: Any, name: str) -> None:
        """Have a function of a module be an event."""
        call = getattr(module, name)

        def counted(*args: Any, **kwargs: Any) -> Any:
            self.event()
            return call(*args, **kwargs)

        setattr(module, name, counted)


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
            send=fate.send,
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


def run_child(order: Order, answer: int) -> None:
    """Live, tell how many events that took, and end without any clearing up."""
    fate = Fate(order.kill_at)
    for module, name in (
        (files, "write_file"),
        (files, "remove_file"),
        (settings, "_write"),
    ):
        fate.count_calls(module, name)
    trio.run(live, order, fate)
    told = {"count": fate.count, "changes": fate.changes}
    os.write(answer, json.dumps(told).encode())
    os._exit(0)


def carry_out(order: Order) -> dict[str, Any]:
    """Give what became of one order: its events, or that it was killed."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            run_child(order, writer)
        finally:
            os._exit(1)
    os.close(writer)
    with os.fdopen(reader, "rb") as told:
        words = told.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status == -signal.SIGKILL and order.kill_at:
        return {"killed": True}
    if status != 0:
        return {"failed": status}
    return dict(json.loads(words))


def main() -> None:
    """Carry out orders until there are none."""
    for line in sys.stdin:
        answer = carry_out(Order(**json.loads(line)))
        print(json.dumps(answer), flush=True)  # noqa: T201 - the answer's way


if __name__ == "__main__":
    main()
