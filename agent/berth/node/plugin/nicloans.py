"""What is done with NICs that the device plugin gives: made ready before, brought home after.

A NIC that a CNI plugin moves is lent: it is read how it is, and nothing is done to it until it is
back. One that berth moves itself is planned by its group and staged, as a prepared claim's is; the
hook of the pod that turns out to have it does the rest.

The device plugin is told by nobody that a NIC is free, so kubelet may give one anew whose last
holder still counts here. What berth moves comes home first; of what is lent the newer holder takes
over how it was.

Source: network.md §9; §4.1 for what may be read when.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, Protocol

import attrs
import trio

from berth.config.nicgroup import Attach, NicGroup
from berth.errors import ClaimError
from berth.model.claim import DeviceResult
from berth.model.device import NicMode
from berth.model.inventory import Inventory
from berth.model.peripheral import ABSENT, Peripheral
from berth.nic.config.devicefacts import HostFacts, Target
from berth.nic.config.group import policies_of
from berth.nic.config.resolve import by_group
from berth.nic.config.values import NicConfig
from berth.nic.listing import KIND
from berth.nic.record import NicRecord, Stage
from berth.node.claims.drafting import is_scrubbed
from berth.node.claims.reservation import Eyes
from berth.node.holders.nicholders import children_of, nics_of
from berth.node.inventory.snapshot import Snapshot
from berth.node.plugin.deviceinfofiles import DeviceInfoFiles
from berth.node.records.given import Given, GivenDevice
from berth.node.records.shelf import Shelf
from berth.runtime.logs import get_log

HOMECOMING_S: Final = 2.0
"""How long an end waits for NICs to be home before it goes on without them."""

PATIENCE_S: Final = 6.0
"""How long an allocation waits for NICs to come home from their last holder: kubelet admits no
other pod meanwhile."""

_log = get_log(__name__)


class Moves(Protocol):
    """Who reads and moves NICs; see `berth.node.nics.nics.Nics`."""

    async def stage(self, record: Given, homes: Sequence[int]) -> Given:
        """Make the holder's links ready at home; its record's lock is held."""
        ...

    async def give_back(
        self, uid: str, *, sandbox_id: str = "", only: Collection[str] | None = None
    ) -> bool:
        """Bring a holder's NICs home; gives whether none of them is away any more."""
        ...


class NicLoans:
    """Sees to NICs before and after the device plugin gives them.

    Args:
        given: What the device plugin gave.
        groups: The groups in force.
        boot_id: Of this boot.
        files: Tells CNI plugins of what is given.
    """

    def __init__(
        self,
        given: Shelf[Given],
        *,
        nics: Moves,
        eyes: Eyes,
        groups: Sequence[NicGroup],
        boot_id: str,
        files: DeviceInfoFiles,
    ) -> None:
        self._given = given
        self._files = files
        self._nics = nics
        self._eyes = eyes
        self._boot_id = boot_id
        self._snapshot: Snapshot | None = None
        self._told: set[str] = set()
        self.reload(groups)

    def reload(self, groups: Sequence[NicGroup]) -> None:
        """Give NICs by other groups from now on; what is given stays as it is."""
        self._groups = {group.name: group for group in groups}
        self._policies = policies_of(groups)

    async def look(self, resource: str, ids: Collection[str]) -> Inventory:
        """Look at the machine before NICs are given: a free one may be the node's uplink by now.

        What berth moved for an earlier holder of the ids comes home before, since kubelet gives
        away again only what it takes for free.

        Raises:
            ClaimError: A NIC is not home from its last holder.
            BerthError: The machine could not be read.
        """
        for one in self._given.all():
            if one.holder.resource == resource and not {*ids}.isdisjoint(one.holder.ids):
                await self._take_back(one, ids)
        self._snapshot = await self._eyes.look()
        return self._snapshot.inventory

    def draft(self, given: Given) -> Given:
        """What is about to be given, with what shall be done to its NICs; it looks at nothing.

        Raises:
            Faults: A group's defaults cannot be done for a NIC.
            ClaimError: A NIC has no link at home that could be moved.
        """
        devices = tuple(
            attrs.evolve(device, nic=device.nic or self._nic(device, given))
            for device in given.devices
        )
        planned = any(device.nic is not None for device in devices)
        return attrs.evolve(given, devices=devices, prepared=not planned)

    async def ready(self, given: Given, replaced: Iterable[Given] = ()) -> Given:
        """Make the NICs ready, and write down what is given.

        Args:
            given: As `draft` made it; its holds are taken.
            replaced: Whoever had a part of it before.

        Returns:
            What may be told kubelet now; it is on disk.

        Raises:
            BerthError: A NIC is not to be had, or the disk refused; what was begun is undone, or
                stands in the record.
        """
        async with self._given.lock(given.uid):
            if not given.prepared:
                given = _inherited(given, replaced, self._homes(given))
                given = await self._nics.stage(given, self._homes(given))
            await self._files.write(given)
            self._told.add(given.uid)
            given = attrs.evolve(given, prepared=True)
            await self._given.put(given)
        return given

    async def adopt(self, given: Given) -> Given:
        """What kubelet shows and no record tells of, with what shall be done to its NICs.

        One that is at home is planned, so that its pod's next sandbox has it. Of one that is not
        nobody knows how it was, and it is left where it is.
        """
        if not any(device.peripheral.kind == KIND for device in given.devices):
            return given
        self._snapshot = await self._eyes.look()
        homes = self._homes(given)
        for index, device in enumerate(given.devices):
            group = self._groups.get(device.peripheral.group)
            if homes[index] and group is not None and group.attach is Attach.NRI:
                given = given.with_nic(index, self._planned(device, given, group))
        return given

    async def end(self, uid: str) -> bool:
        """Bring home whatever of it is not; gives whether all is, so that it can be forgotten.

        Raises:
            HostError: The disk refused.
        """
        async with self._given.lock(uid):
            given = self._given.get(uid)
            if given is None:
                return True
            if not given.is_home:
                await self._given.put_or_note(attrs.evolve(given, revoked=True))
        if not given.is_home:
            with trio.move_on_after(HOMECOMING_S, shield=True):
                await self._nics.give_back(uid)
            given = self._given.get(uid) or given
        if given.is_home:
            await self._files.remove(given.without(self._of_others(given)))
            self._told.discard(uid)
        return given.is_home

    async def renew(self, given: Given) -> Given:
        """Plan anew what berth moves and was given in another boot: kubelet does not ask again.

        So is what could not be made ready then. What is not home yet is left for the next time.
        What is lent is read anew if it is at home: how it was in another boot counts no more.
        The files for CNI plugins are written anew too, once in this process's life.

        Raises:
            BerthError: As `draft` and `ready`.
        """
        if given.uid not in self._told and not given.revoked:
            await self._files.write(given)
            self._told.add(given.uid)
        moved = [nic for _, nic in nics_of(given) if nic.stage is not Stage.LENT]
        unread = [nic for _, nic in nics_of(given) if self._is_unread(nic)]
        reserved = any(nic.stage is Stage.RESERVED for nic in moved)
        is_stale = not given.prepared or reserved or bool(unread)
        if given.revoked or not is_stale or any(nic.is_touched for nic in moved):
            return given
        self._snapshot = await self._eyes.look()
        listings = self._snapshot.inventory.listing_by_name
        devices = tuple(
            attrs.evolve(device, peripheral=_as_now(device.peripheral, listings), nic=None)
            if device.nic in moved or (device.nic in unread and _is_here(device, listings))
            else device
            for device in given.devices
        )
        if devices == given.devices and given.prepared:
            return given
        again = self.draft(attrs.evolve(given, devices=devices, pod_uid=""))
        _log.info("NICs planned anew", was=given.holder)
        return await self.ready(again)

    async def _take_back(self, one: Given, ids: Collection[str]) -> None:
        """Bring home what berth moved for somebody whose ids kubelet gives anew."""
        away = {
            nic.identity: nic.device
            for index, nic in nics_of(one)
            if nic.is_touched and self._is_ours(nic) and one.devices[index].id in ids
        }
        if not away:
            return
        _log.info("NICs come home for their next holder", was=one.holder)
        with trio.move_on_after(PATIENCE_S):
            while not await self._nics.give_back(one.uid, only=away):
                version = self._given.changes.version
                await self._given.changes.wait_changed(version)
            return
        raise ClaimError(
            ", ".join(away.values()),
            f"is not home from {one.holder} yet",
            mend="`berth holds` tells why; a new pod gets it once it is home",
        )

    def _of_others(self, given: Given) -> frozenset[str]:
        """Which of its ids somebody else has as well: an older holder, or a newer one."""
        return frozenset(
            id_
            for one in self._given.all()
            if one.uid != given.uid and one.holder.resource == given.holder.resource
            for id_ in one.holder.ids
        )

    def _is_unread(self, nic: NicRecord) -> bool:
        """Whether it is not known how a lent NIC was in this boot, though it may be asked."""
        return nic.stage is Stage.LENT and nic.originals is None and nic.group in self._groups

    def _is_ours(self, nic: NicRecord) -> bool:
        """Whether a NIC has to be home before it is given anew: berth moved it, or will."""
        group = self._groups.get(nic.group)
        return nic.stage is not Stage.LENT or (group is not None and group.attach is Attach.NRI)

    def _nic(self, device: GivenDevice, given: Given) -> NicRecord | None:
        """What shall be done to one NIC; nothing to what is none, or is not moved."""
        listing = device.peripheral
        if listing.kind != KIND:
            return None
        group = self._groups.get(listing.group)
        if group is None:
            raise ClaimError(
                listing.name,
                f'is of group "{listing.group}", which is gone',
                mend="write the group into the configuration again until its pod has ended",
            )
        if group.attach is Attach.NRI:
            return self._planned(device, given, group)
        if group.mode is not NicMode.EXCLUSIVE:
            # Nothing of a parent, or of what vfio-pci has, leaves the host.
            return None
        home = self._snapshot.homes.get(listing.name) if self._snapshot is not None else None
        return NicRecord(
            identity=listing.identity,
            device=listing.name,
            group=listing.group,
            config=NicConfig(),
            boot_id=self._boot_id,
            parent_device=home.parent_device if home is not None else "",
            seat=home.seat if home is not None else None,
            stage=Stage.LENT,
        )

    def _planned(self, device: GivenDevice, given: Given, group: NicGroup) -> NicRecord:
        listing, snapshot = device.peripheral, self._snapshot
        home = snapshot.homes.get(listing.name) if snapshot is not None else None
        facts = snapshot.facts.get(listing.name) if snapshot is not None else None
        if home is None or facts is None or snapshot is None:
            raise ClaimError(
                listing.name,
                "has no link at home that could be moved into a pod",
                mend="`berth devices` shows where it is",
            )
        result = DeviceResult(
            request=given.holder.resource, pool="", device=listing.name, share_id=device.share
        )
        config = by_group(
            Target(result=result, facts=facts),
            policy=self._policies[group.name],
            host=HostFacts(
                hardware_addrs=snapshot.hardware_addrs,
                children=children_of(one for one in self._given.all() if one.uid != given.uid),
            ),
            uid=given.uid,
        )
        return NicRecord(
            identity=listing.identity,
            device=listing.name,
            group=listing.group,
            config=config,
            boot_id=self._boot_id,
            parent_device=home.parent_device,
            parent_index=home.index if config.mode.is_child else 0,
            seat=home.seat,
            scrub=is_scrubbed(config, facts.kind, group.scrub),
        )

    def _homes(self, given: Given) -> tuple[int, ...]:
        homes = self._snapshot.homes if self._snapshot is not None else {}
        found = (homes.get(device.peripheral.name) for device in given.devices)
        return tuple(home.index if home is not None else 0 for home in found)


def _inherited(given: Given, replaced: Iterable[Given], homes: Sequence[int]) -> Given:
    """What is lent, as it was before the last holder, whose CNI plugin may have changed it.

    A link that is not at home and of which nobody knows how it was is handed out all the same:
    there is nothing to put back.
    """
    before = {
        nic.identity: nic for old in replaced for _, nic in nics_of(old) if nic.stage is Stage.LENT
    }
    devices = list(given.devices)
    for index, nic in nics_of(given):
        if nic.stage is Stage.LENT and nic.originals is None:
            known = before.get(nic.identity, nic)
            lendable = known.originals is not None or homes[index]
            devices[index] = attrs.evolve(devices[index], nic=known if lendable else None)
    return attrs.evolve(given, devices=tuple(devices))


def _is_here(device: GivenDevice, now: Mapping[str, Peripheral]) -> bool:
    """Whether the machine has a NIC, wherever its link is; at boot a driver may come late."""
    found = now.get(device.peripheral.name)
    return found is not None and found.unhealthy != ABSENT


def _as_now(listing: Peripheral, now: Mapping[str, Peripheral]) -> Peripheral:
    """A NIC as it was given, by the identity that it has now."""
    found = now.get(listing.name)
    if found is None:
        return listing
    return attrs.evolve(listing, identity=found.identity, keys=found.keys, edits=found.edits)
