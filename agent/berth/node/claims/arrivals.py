"""What a hook does with whoever has NICs: they go into the pod's sandbox and come home from it.

An arrival is complete when its record says so and containers can read of it; until then the NIC
counts as missing. What cannot be completed is taken back.

Source: network.md §4.3, §5.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import attrs
import trio

from berth.errors import BerthError
from berth.nic.record import SandboxRef
from berth.node.claims.ending import Returns
from berth.node.claims.status import StatusSink
from berth.node.holders.nicholders import NicHolder, NicHolders, nics_of
from berth.node.records.record import ClaimRecord
from berth.runtime.logs import get_log
from berth.runtime.threads import Decision

_log = get_log(__name__)


class Moves(Returns, Protocol):
    """Who moves NICs; see `berth.node.nics.nics.Nics` for what each method promises."""

    async def stage(self, record: ClaimRecord, homes: Sequence[int]) -> ClaimRecord:
        """Make the claim's links ready at home; the claim's lock is held."""
        ...

    async def attach(
        self, uids: Iterable[str], sandbox: SandboxRef, *, limit_s: float, decision: Decision
    ) -> tuple[NicHolder, ...]:
        """Bring every NIC of these holders into the sandbox, or none."""
        ...

    async def verify(self, record: NicHolder, sandbox: SandboxRef) -> tuple[str, ...]:
        """Devices of the holder whose link is not in the sandbox now."""
        ...


class Notes(Protocol):
    """Who writes what containers read of their NICs."""

    async def write_metadata(self, record: ClaimRecord) -> None:
        """Write it as the record says."""
        ...


class Arrivals:
    """Brings NICs into sandboxes and home, of claims and of what was asked for as a resource.

    Only claims have files that containers read, and a status.
    """

    def __init__(
        self, *, records: NicHolders, nics: Moves, notes: Notes, status: StatusSink
    ) -> None:
        self._records = records
        self._nics = nics
        self._notes = notes
        self._status = status

    async def attach(
        self, uids: Iterable[str], sandbox: SandboxRef, *, limit_s: float, decision: Decision
    ) -> None:
        """Bring the holders' NICs into a sandbox, and complete what containers read of them.

        Raises:
            ClaimError: A NIC could not be attached; none of them is there.
            HostError: Nothing could be written; none is there either.
        """
        wanted = tuple(uids)
        try:
            attached = await self._nics.attach(wanted, sandbox, limit_s=limit_s, decision=decision)
        except BerthError:
            self.tell_status(*wanted)
            raise
        fault: BerthError | None = None
        with trio.CancelScope(shield=True):
            try:
                for record in attached:
                    await self._complete(record)
            except BerthError as error:
                fault = error
            if fault is not None:
                for uid in wanted:
                    await self._nics.give_back(uid, sandbox_id=sandbox.id)
        if fault is not None:
            raise fault

    async def detach(self, sandbox_id: str) -> None:
        """Bring home whatever is in the sandbox; late events of an old one find nothing."""
        for uid in self._in_sandbox(sandbox_id):
            await self._nics.give_back(uid, sandbox_id=sandbox_id)
            self.tell_status(uid)

    async def missing(self, uids: Iterable[str], sandbox: SandboxRef) -> tuple[str, ...]:
        """Devices of the holders that are not in the sandbox now, or not told of in files yet.

        A NIC that comes late is in the pod a moment before that is recorded, and another moment
        before its containers could read of it.
        """
        missing: list[str] = []
        for uid in uids:
            record = self._records.get(uid)
            if record is not None:
                missing.extend(await self._nics.verify(record, sandbox))
            record = self._records.get(uid)
            if record is not None:
                missing.extend(
                    nic.device
                    for index, nic in nics_of(record)
                    if not record.devices[index].is_told
                )
        return tuple(dict.fromkeys(missing))

    def tell_status(self, *uids: str) -> None:
        """Tell the API server what the records of these claims say now; never blocks."""
        for uid in uids:
            record = self._records.get(uid)
            if isinstance(record, ClaimRecord) and not record.revoked:
                self._status.tell(record)

    async def _complete(self, record: NicHolder) -> None:
        """Tell containers how the NICs look, if that differs from what they were told."""
        current = await self._told(record) if isinstance(record, ClaimRecord) else record
        if current is not None:
            _tell(current)

    async def _told(self, record: ClaimRecord) -> ClaimRecord | None:
        """The claim's record once its files are written; ``None`` if it has been undone since."""
        async with self._records.lock(record.uid):
            current = self._records.get(record.uid)
            if not isinstance(current, ClaimRecord):
                return None
            devices = tuple(
                attrs.evolve(device, told=device.nic.network) if device.nic is not None else device
                for device in current.devices
            )
            if devices != current.devices:
                current = attrs.evolve(current, devices=devices, generation=current.generation + 1)
                await self._notes.write_metadata(current)
                await self._records.put(current)
        self._status.tell(current)
        return current

    def _in_sandbox(self, sandbox_id: str) -> tuple[str, ...]:
        return tuple(
            record.uid
            for record in self._records.all()
            if any(
                nic.sandbox is not None and nic.sandbox.id == sandbox_id
                for _, nic in nics_of(record)
            )
        )


def _tell(record: NicHolder) -> None:
    for _, nic in nics_of(record):
        if nic.network is not None:
            _log.info(
                "NIC attached",
                device=nic.device,
                **record.told_as,
                pod=nic.sandbox.pod if nic.sandbox else "",
                name=nic.network.interface_name,
                ips=",".join(nic.network.ips) or "-",
            )
