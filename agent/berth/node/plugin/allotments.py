"""The device plugin's side of the node: what is listed, what is given, and what that holds.

An allocation is asked for by ids alone, and kubelet keeps its own books of them. So an id that
kubelet gives anew was free to it, and the newer holder takes the older one's place; an id that a
claim has is refused, since that is what this door cannot know. What is given is on disk before the
answer, and ends by evidence alone (`berth.node.plugin.bookkeeping`).

Source: gpu-and-health.md §5.1, §5.2, L1 to L4, L9.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Protocol

import attrs
import trio

from berth.errors import BerthError, ClaimError
from berth.model.claim import ClaimRef
from berth.model.edits import Edits, joined
from berth.model.inventory import Inventory
from berth.model.peripheral import VFIO_GPU
from berth.model.resource import Grant
from berth.nic.deviceinfo import environment
from berth.node.claims.status import now_text
from berth.node.gpus.occupancy import Occupancy
from berth.node.health.inquiry import Inquiry
from berth.node.ledger import Conflict, Ledger, PluginHolder
from berth.node.plugin import units
from berth.node.plugin.catalogue import Catalogue, Files
from berth.node.plugin.running import mark
from berth.node.records.document import given_from_bytes, to_bytes
from berth.node.records.given import Given, GivenDevice
from berth.node.records.shelf import Shelf
from berth.runtime.latest import Latest
from berth.runtime.logs import get_log
from berth.vfio.wayin import addresses_entry

_log = get_log(__name__)


def given_shelf(folder: Path) -> Shelf[Given]:
    """The records of what the device plugin gave."""
    return Shelf(
        folder,
        uid_of=lambda given: given.holder.uid,
        to_bytes=to_bytes,
        from_bytes=lambda content, where: given_from_bytes(content, where=where),
    )


class Loans(Protocol):
    """Who sees to NICs before and after they are given: `berth.node.plugin.nicloans.NicLoans`."""

    async def look(self, resource: str, ids: Collection[str]) -> Inventory:
        """Look at the machine anew."""
        ...

    def draft(self, given: Given) -> Given:
        """Say what shall be done to its NICs."""
        ...

    async def ready(self, given: Given, replaced: Iterable[Given] = ()) -> Given:
        """Make its NICs ready, and write it down."""
        ...

    async def renew(self, given: Given) -> Given:
        """Make ready anew what another boot has changed."""
        ...

    async def adopt(self, given: Given) -> Given:
        """Say what shall be done to NICs of which kubelet tells and no record does."""
        ...

    async def end(self, uid: str) -> bool:
        """Bring its NICs home; gives whether all are."""
        ...


class Allotments:
    """Lists resources, and gives devices to containers that ask for them.

    Args:
        given: What was given before.
        inventory: What the node has.
        files: CDI files of what is listed.
        boot_id: Of this boot.
        new_uid: Names for what is given.
        occupancy: Refuses what somebody uses whom no hold explains.
        loans: Sees to NICs; ``None`` where the device plugin gives none.
        inquiry: Tells how devices are; ``None`` where nobody judges them.

    Attributes:
        resources: Every resource with its units; one that became empty stays, with none.
        requests: Counts the allocations, for whoever then asks kubelet who has them.
    """

    def __init__(
        self,
        given: Shelf[Given],
        *,
        ledger: Ledger,
        inventory: Latest[Inventory],
        files: Files,
        boot_id: str,
        new_uid: Callable[[], str] = lambda: uuid.uuid4().hex,
        occupancy: Occupancy | None = None,
        loans: Loans | None = None,
        inquiry: Inquiry | None = None,
    ) -> None:
        self._catalogue = Catalogue(
            ledger=ledger, inventory=inventory, files=files, inquiry=inquiry
        )
        self.resources = self._catalogue.resources
        self.requests: Latest[int] = Latest(0)
        self._given = given
        self._ledger = ledger
        self._inventory = inventory
        self._files = files
        self._boot_id = boot_id
        self._new_uid = new_uid
        self._occupancy = occupancy
        self._loans = loans
        self._inquiry = inquiry
        self._giving = trio.Lock()

    async def load(self) -> None:
        """Read what was given and enter its holds; nothing may be offered before.

        Raises:
            StateError: A record is of a newer program.
            HostError: The state folder cannot be used.
        """
        for sentence in await self._given.load():
            _log.warning("record of the device plugin set aside", reason=sentence)
        for one in self._given.all():
            known = one if one.boot_id == self._boot_id else one.after_reboot(self._boot_id)
            if not known.prepared:
                # Kubelet was never told of it.
                known = attrs.evolve(known, revoked=True)
            if known != one:
                await self._given.put_or_note(known)
            self._ledger.restore(known.holds)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep the resources at what inventory and verdicts say, until cancelled."""
        await self._catalogue.run(task_status=task_status)

    async def allocate(self, resource: str, ids: Sequence[str]) -> Grant:
        """Give devices to a container.

        Raises:
            ClaimError: An id is not known or cannot be used now, is sick or says nothing, two are
                of one device, a claim has one, or somebody uses one whom no hold explains.
            BerthError: The disk refused, or a NIC could not be made ready; nothing is given.
        """
        async with self._giving:
            chosen = await self._choose(resource, ids)
            new = Given(
                holder=PluginHolder(
                    uid=self._new_uid(), resource=resource, ids=tuple(ids), since=now_text()
                ),
                devices=chosen,
                boot_id=self._boot_id,
            )
            new = self._loans.draft(new) if self._loans is not None else new
            replaced = self._take(new)
            try:
                await self._require_unoccupied(new, replaced)
                await self._make_ready(new, replaced)
            except BaseException:
                with trio.CancelScope(shield=True):
                    if await self._is_undone(new):
                        self._ledger.release(new.uid)
                        self._put_back(replaced)
                raise
            for old in replaced:
                await self._shrink(old.uid, frozenset(ids))
        self.requests.set(self.requests.get() + 1)
        _log.info("devices given", resource=resource, ids=",".join(ids))
        return self._grant(resource, chosen)

    async def bind(self, given: Given) -> None:
        """More is known of who has something: written if the container is new, else only noted.

        Raises:
            HostError: The disk refused.
        """
        async with self._giving, self._given.lock(given.uid):
            if self._is_still(given):
                # Where its NICs are may have become known since kubelet was asked.
                known = self._given.get(given.uid) or given
                now = attrs.evolve(known, holder=given.holder, bound=given.bound)
                self._ledger.renew(now.holds)
                await self._given.put(now)

    async def free(self, given: Given) -> None:
        """Nobody has it any more; while a NIC of it is not home it stays held, to be tried again.

        Raises:
            HostError: The disk refused; it stays held.
        """
        async with self._giving:
            if not self._is_still(given):
                return
            if self._loans is not None and not await self._loans.end(given.uid):
                return
            await self._given.delete(given.uid)
            self._ledger.release(given.uid)
        _log.info("devices free again", resource=given.holder.resource, was=given.holder)

    async def renew(self) -> None:
        """Make true anew what was given in another life or boot; what fails is tried again."""
        for one in self._given.all() if self._loans is not None else ():
            async with self._giving:
                try:
                    await self._renew(one)
                except BerthError as error:
                    _log.warning("NICs not planned anew", was=one.holder, reason=error)

    async def _renew(self, one: Given) -> None:
        known = self._given.get(one.uid)
        if known is None or self._loans is None:
            return
        now = await self._loans.renew(known)
        if now.holds != known.holds:
            self._ledger.renew(now.holds)

    async def rebuild(self, given: Given) -> None:
        """Kubelet shows what no record of ours tells of: it counts as held from now on.

        Whatever refuses, it is held under this one name: each further list would give it another,
        and nobody would free what has no record. What cannot be planned now is by `renew`, and
        what the disk does not take kubelet shows again after a restart.
        """
        async with self._giving:
            self._ledger.restore(given.holds)
            try:
                if self._loans is not None and not self._is_claimed(given):
                    given = await self._loans.adopt(given)
            except BerthError as error:
                _log.warning("NICs not planned yet", was=given.holder, reason=error)
                given = attrs.evolve(given, prepared=False)
            await self._given.put_or_note(given)

    async def _choose(self, resource: str, ids: Sequence[str]) -> tuple[GivenDevice, ...]:
        """What stands behind the ids, as it is now; a device of which nobody knows is asked."""
        fitness = None
        if self._inquiry is not None:
            known = units.named(self._inventory.get(), resource, ids)
            fitness = await self._inquiry.require([one.name for one in known])
        return units.find(await self._see(resource, ids), resource, ids, fitness=fitness)

    async def _see(self, resource: str, ids: Collection[str]) -> Inventory:
        """What the machine has; looked at anew where the node itself may need a device by now."""
        inventory = self._inventory.get()
        if self._loans is None:
            return inventory
        guarded = any(one.guarded for one in units.named(inventory, resource, ids))
        return await self._loans.look(resource, ids) if guarded else inventory

    async def _make_ready(self, new: Given, replaced: Sequence[Given]) -> None:
        if self._loans is not None:
            await self._loans.ready(new, replaced)
        else:
            await self._given.put(new)

    async def _is_undone(self, new: Given) -> bool:
        """Undo what could not be given; else it stays, to be freed as soon as its NICs are home."""
        try:
            if self._loans is not None and not await self._loans.end(new.uid):
                return False
            await self._given.delete(new.uid)
        except BerthError as error:
            _log.warning("allocation not wholly undone", resource=new.holder.resource, reason=error)
            return self._given.get(new.uid) is None
        return True

    async def _require_unoccupied(self, new: Given, replaced: Iterable[Given]) -> None:
        """Refuse what somebody uses; a holder that is replaced may be ending yet."""
        if self._occupancy is None:
            return
        before = {device.peripheral.name for old in replaced for device in old.devices}
        fresh = (one.peripheral for one in new.devices if one.peripheral.name not in before)
        await self._occupancy.require_free(fresh, holder_uid=new.holder.uid)

    def _is_still(self, given: Given) -> bool:
        """Whether nobody was given a part of it while kubelet was asked."""
        known = self._given.get(given.holder.uid)
        return known is not None and known.holder.ids == given.holder.ids

    def _is_claimed(self, given: Given) -> bool:
        """Whether a claim has a part of it too; then nothing more is done to that."""
        others = (one for hold in given.holds for one in self._ledger.holders(hold.key))
        return any(isinstance(one.holder, ClaimRef) for one in others)

    async def _shrink(self, uid: str, ids: frozenset[str]) -> None:
        """Let a former holder have these ids no more."""
        try:
            async with self._given.lock(uid):
                known = self._given.get(uid)
                rest = known.without(ids) if known is not None else None
                if rest is not None and rest.devices:
                    await self._given.put(rest)
                else:
                    await self._given.delete(uid)
        except BerthError as error:
            # What the lists do not show is freed by the next ones.
            _log.warning("record of a former holder stays for now", reason=error)

    def _take(self, new: Given) -> tuple[Given, ...]:
        """Take the holds of ``new``, from older holders of this door where they have them."""
        replaced: dict[str, Given] = {}
        try:
            while (conflict := self._ledger.conflict(new.holds)) is not None:
                for old in self._others(conflict):
                    replaced.setdefault(old.holder.uid, old)
                    self._ledger.release(old.holder.uid)
                    self._ledger.restore(old.without(frozenset(new.holder.ids)).holds)
        except ClaimError:
            self._put_back(replaced.values())
            raise
        self._ledger.take(new.holds)
        return tuple(replaced.values())

    def _put_back(self, replaced: Iterable[Given]) -> None:
        for old in replaced:
            self._ledger.renew(old.holds)

    def _others(self, conflict: Conflict) -> tuple[Given, ...]:
        """Older holders of this door that stand against a hold.

        Raises:
            ClaimError: One of them is a claim, or has what shares a key with another id.
        """
        found = []
        for hold in conflict.holders:
            holder = hold.holder
            if isinstance(holder, ClaimRef):
                self._ledger.refusals.add("plugin", "claim")
                raise ClaimError(
                    conflict.wanted.device,
                    f"is held by claim {holder} ({holder.uid})",
                    mend="it is free when the claim's pod ends; kubelet lists it as unhealthy",
                )
            old = self._given.get(holder.uid)
            names = {device.peripheral.name for device in old.devices} if old is not None else ()
            if old is None or conflict.wanted.device not in names:
                self._ledger.refusals.add("plugin", "hardware")
                raise ClaimError(conflict.wanted.device, f"shares its hardware with {holder}")
            found.append(old)
        return tuple(found)

    def _grant(self, resource: str, chosen: Sequence[GivenDevice]) -> Grant:
        """What the container gets, and the mark by which it is known again."""
        parts = [
            edits
            for device in chosen
            if not device.peripheral.is_by_cdi
            for edits in (device.peripheral.common, device.peripheral.edits)
        ]
        infos = [device.peripheral.info for device in chosen]
        told = environment(resource, [info for info in infos if info is not None])
        # Its path is where it is on the PCI bus.
        functions = [one.path for d in chosen if (one := d.peripheral).type == VFIO_GPU]
        told = (*told, addresses_entry(resource, functions)) if functions else told
        marked = Edits(env=(*told, mark(resource, [device.id for device in chosen])))
        return Grant(
            edits=joined((*parts, marked)),
            cdi_ids=tuple(
                self._files.id(device.peripheral, device.id)
                for device in chosen
                if device.peripheral.is_by_cdi
            ),
        )
