"""Links that are at home under another name than their own, until theirs is free.

While a NIC was away its name may have gone to another link. It is offered again all the same, since
a name is no identity, and renamed when the name is free: after the holder's end too, and after a
restart of the daemon, so what is owed has files of its own.

While nothing is owed there is no socket and nothing is read.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import attrs
import trio

from berth.errors import BerthError
from berth.host.netlink.events import GROUP_LINK, EventSocket
from berth.host.netlink.socket import Sender, send_now
from berth.nic import homecoming
from berth.nic.record import NicRecord, Stage
from berth.node.holders.nicholders import NicHolder, NicHolders, nics_of
from berth.node.records.document import nic_from_bytes, to_bytes
from berth.runtime.files import Folder
from berth.runtime.logs import get_log
from berth.runtime.threads import run_in_thread

COALESCE_S: Final = 0.2
"""Link events within this time are one look."""

_SUFFIX: Final = ".json"
_log = get_log(__name__)


class HomeNames:
    """The names that are owed to links at home.

    Args:
        records: Who holds what: a held link is renamed only where it is at home and put back.
        folder: Where they are kept over a restart; ``None`` keeps them in memory.
        send: The seam of crash tests.

    Attributes:
        quiet: Held while a link at home is renamed, or read for a holder.
    """

    def __init__(
        self, records: NicHolders, folder: Path | None = None, *, send: Sender = send_now
    ) -> None:
        self._records = records
        self._folder = Folder(folder) if folder is not None else None
        self._send = send
        self._owed: dict[str, NicRecord] = {}
        self._any = trio.Event()
        self.quiet = trio.Lock()

    def own_name(self, identity: str) -> str:
        """The name that a link has by rights; empty when it has it."""
        nic = self._owed.get(identity)
        return nic.originals.name if nic is not None and nic.originals is not None else ""

    def all(self) -> tuple[NicRecord, ...]:
        """Every link that is owed its name."""
        return tuple(self._owed.values())

    async def note(self, nic: NicRecord) -> None:
        """Remember, or forget, that a link is home under another name."""
        if nic.home_name:
            await self._owe(nic)
        else:
            await self._forget(nic.identity)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Give links their names back as these become free, until cancelled."""
        await self._load()
        task_status.started()
        while True:
            await self._any.wait()
            try:
                with EventSocket([GROUP_LINK]) as events:
                    await self._follow(events)
            except BerthError as error:
                _log.warning("link events not heard, trying again", reason=error)
                await trio.sleep(60.0)

    async def _follow(self, events: EventSocket) -> None:
        while self._owed:
            for nic in self.all():
                await self._try(nic)
            if self._owed:
                await events.receive()
                await trio.sleep(COALESCE_S)
                # Whatever came meanwhile is in the look that follows.
                events.receive_nowait()

    async def _try(self, nic: NicRecord) -> None:
        holder = self._holder(nic.identity)
        if holder is None:
            async with self.quiet:
                if self._holder(nic.identity) is None:
                    await self._rename(nic)
        elif _at_home(holder, nic.identity):
            async with self._records.locked((holder.uid,)) as records:
                for record in records:
                    await self._rename_held(record, nic.identity)

    async def _rename_held(self, record: NicHolder, identity: str) -> None:
        """Rename a link whose pod has ended and whose holder has not."""
        for index, nic in _at_home(record, identity).items():
            home_name = await self._rename(nic)
            if home_name is not None:
                renamed = attrs.evolve(nic, home_name=home_name)
                await self._records.put_or_note(record.with_nic(index, renamed))

    async def _rename(self, nic: NicRecord) -> str | None:
        """Give a link its name if that is free; gives its `NicRecord.home_name`, if known."""
        with trio.CancelScope(shield=True):
            result = await run_in_thread("nics", homecoming.take_name, nic, send=self._send)
            back = result.record
            if back.stage is Stage.LOST:
                await self._forget(nic.identity)
            elif back.stage is Stage.HOME and not back.home_name:
                _log.info("NIC has its own name again", device=nic.device, name=_name(nic))
                await self._forget(nic.identity)
        return back.home_name if back.stage is Stage.HOME else None

    def _holder(self, identity: str) -> NicHolder | None:
        """Who holds the link, if there is one."""
        for record in self._records.all():
            if any(nic.identity == identity for _, nic in nics_of(record)):
                return record
        return None

    async def _owe(self, nic: NicRecord) -> None:
        nic = attrs.evolve(nic, sandbox=None, network=None, fault="")
        if self._owed.get(nic.identity) == nic:
            return
        self._owed[nic.identity] = nic
        self._any.set()
        with _told("what name a link is owed is not kept over a restart"):
            if self._folder is not None:
                await self._folder.make()
                await self._folder.write(_file(nic.identity), to_bytes(nic))

    async def _forget(self, identity: str) -> None:
        if self._owed.pop(identity, None) is None:
            return
        if not self._owed:
            self._any = trio.Event()
        with _told("what name a link is owed is not forgotten"):
            if self._folder is not None:
                await self._folder.remove(_file(identity))

    async def _load(self) -> None:
        if self._folder is None:
            return
        with _told("what names links are owed is not known"):
            for name in await self._folder.names(suffix=_SUFFIX):
                content = await self._folder.read(name)
                with _told("what name a link is owed is not known"):
                    nic = nic_from_bytes(content or b"", where=str(self._folder.path / name))
                    self._owed.setdefault(nic.identity, nic)
                    self._any.set()


@contextlib.contextmanager
def _told(what: str) -> Iterator[None]:
    """Log what the disk refuses: a name is no reason to stop."""
    try:
        yield
    except BerthError as error:
        _log.warning(what, reason=error)


def _at_home(record: NicHolder, identity: str) -> Mapping[int, NicRecord]:
    """NICs of a holder that are the link and at home, by device index."""
    return {
        index: nic
        for index, nic in nics_of(record)
        if nic.identity == identity and nic.stage is Stage.HOME
    }


def _name(nic: NicRecord) -> str:
    return nic.originals.name if nic.originals is not None else ""


def _file(identity: str) -> str:
    # An identity has colons and slashes in it.
    return f"{hashlib.sha256(identity.encode()).hexdigest()[:16]}{_SUFFIX}"
