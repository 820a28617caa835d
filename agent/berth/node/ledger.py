"""Who holds what: one compare-and-set in one place, behind every door.

A device has keys, which are physical things and not names: two devices that cannot be used at the
same time share a key. A holder takes all keys that it wants at once, or none.

A holder is a claim, or what kubelet's device plugin interface gave to a container.

Invariants: an exclusive key has at most one hold; a shared key has at most one hold per share and
never more slots than it offers; every hold stands in a record on disk before anybody is told.

Source: gpu-and-health.md §5.3, L1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import attrs

from berth.model.claim import ClaimRef
from berth.model.meter import Tally
from berth.model.resource import ContainerRef
from berth.runtime.latest import Latest

UNKNOWN: Final = "?"
"""Namespace of a claim of which only the UID is known: its record was lost."""


@attrs.frozen(kw_only=True)
class PluginHolder:
    """Ids that kubelet gave to a container through the device plugin.

    Attributes:
        uid: Our own name for it; the interface has none.
        since: When it was asked for, as text for people.
        container: Who has them; ``None`` until kubelet's PodResources told, since the plugin is
            asked for ids alone.
        missed: Kubelet's last list did not show it: it may be free soon.
    """

    uid: str
    resource: str
    ids: tuple[str, ...]
    since: str
    container: ContainerRef | None = None
    missed: bool = False

    @property
    def is_in_use(self) -> bool:
        """Whether a container is known to have it."""
        return self.container is not None and not self.missed

    def __str__(self) -> str:
        who = str(self.container) if self.container else "a pod that kubelet has not named yet"
        return f"{who}, through {self.resource} since {self.since}"


Holder: TypeAlias = "ClaimRef | PluginHolder"


@attrs.frozen(kw_only=True)
class Hold:
    """One holder's hold on one key.

    Attributes:
        key: What is held, such as ``pci:0000:41:00.0``.
        device: Its slice name, for messages.
        share: The share's UUID for a device with several holders; ``None`` holds it alone.
        slots: How many of the device's slots a share takes.
        limit: Slots that the device offers; meaningless without ``share``.
    """

    key: str
    device: str
    holder: Holder
    share: str | None = None
    slots: int = 1
    limit: int = 1


@attrs.frozen(kw_only=True)
class Conflict:
    """Why a hold was not given: the wish, and the holds that stand against it."""

    wanted: Hold
    holders: tuple[Hold, ...]


class Ledger:
    """Every hold of the node; changed on the trio thread alone, never across an ``await``.

    Attributes:
        releases: Counts what may let somebody in who waits: releases, and news of a holder.
        refusals: Counts whom a hold kept from a device: door, and who stood against it.
    """

    def __init__(self) -> None:
        self.refusals = Tally("door", "reason")
        self._holds: dict[str, list[Hold]] = {}
        self.releases: Latest[int] = Latest(0)

    def take(self, holds: Sequence[Hold]) -> Conflict | None:
        """Take all of ``holds``, or none.

        A hold that the same holder has already is no conflict and is not taken twice.

        Returns:
            The first conflict, or ``None`` when all are taken now.
        """
        conflict = self.conflict(holds)
        if conflict is None:
            for hold in self._missing(holds):
                self._holds.setdefault(hold.key, []).append(hold)
        return conflict

    def conflict(self, holds: Sequence[Hold]) -> Conflict | None:
        """What `take` would meet now; nothing is taken."""
        missing = self._missing(holds)
        for index, hold in enumerate(missing):
            against = self._against(hold, missing[:index])
            if against:
                return Conflict(wanted=hold, holders=against)
        return None

    def rekey(self, holder_uid: str, old: str, new: str) -> None:
        """A virtual link that a claim holds is known by another key now."""
        moved = [h for h in self._holds.get(old, ()) if h.holder.uid == holder_uid]
        self.release(holder_uid, old)
        self.restore(attrs.evolve(hold, key=new) for hold in moved)

    def renew(self, holds: Sequence[Hold]) -> None:
        """More is known of a holder: its holds are these now, on the same keys or fewer of them."""
        for uid in {hold.holder.uid for hold in holds}:
            for key, present in self._holds.items():
                self._holds[key] = [h for h in present if h.holder.uid != uid]
        self.restore(holds)
        self._holds = {key: present for key, present in self._holds.items() if present}
        self.releases.set(self.releases.get() + 1)

    def restore(self, holds: Iterable[Hold]) -> None:
        """Enter holds found on disk as they are: what stood before is not judged anew."""
        for hold in holds:
            present = self._holds.setdefault(hold.key, [])
            if hold not in present:
                present.append(hold)

    def release(self, holder_uid: str, key: str | None = None) -> None:
        """Drop the holder's holds (on ``key`` alone if given); unknown ones are no fault.

        Whoever waits for a release is woken only if there was one.
        """
        dropped = False
        for held_key in [key] if key is not None else list(self._holds):
            holds = self._holds.pop(held_key, [])
            kept = [h for h in holds if h.holder.uid != holder_uid]
            if kept:
                self._holds[held_key] = kept
            dropped |= len(kept) < len(holds)
        if dropped:
            self.releases.set(self.releases.get() + 1)

    def holders(self, key: str) -> tuple[Hold, ...]:
        """Who holds ``key`` now."""
        return tuple(self._holds.get(key, ()))

    def holds(self) -> tuple[Hold, ...]:
        """Every hold, by key."""
        return tuple(hold for key in sorted(self._holds) for hold in self._holds[key])

    def disputed(self) -> frozenset[str]:
        """Devices that a claim and a container have at the same time, though not as shares."""
        return frozenset(
            hold.device
            for holds in self._holds.values()
            for hold in holds
            for other in holds
            if isinstance(hold.holder, ClaimRef) and isinstance(other.holder, PluginHolder)
            if hold.share is None or other.share is None
        )

    def _missing(self, holds: Sequence[Hold]) -> list[Hold]:
        return [hold for hold in holds if hold not in self._holds.get(hold.key, ())]

    def _against(self, wanted: Hold, also: Sequence[Hold]) -> tuple[Hold, ...]:
        others = [
            *(h for h in self._holds.get(wanted.key, ()) if h.holder.uid != wanted.holder.uid),
            *(h for h in also if h.key == wanted.key),
        ]
        if wanted.share is None:
            return tuple(others)
        same = [h for h in others if h.share in (None, wanted.share)]
        if same:
            return tuple(same)
        own = [h for h in self._holds.get(wanted.key, ()) if h.holder.uid == wanted.holder.uid]
        taken = sum(h.slots for h in [*others, *own])
        return tuple(others) if taken + wanted.slots > wanted.limit else ()
