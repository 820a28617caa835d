"""Looks after NICs for a while after their hook was answered: late carrier, duplicate addresses.

A NIC whose addresses could not be heard in the hook is announced when its carrier comes.

The pod's own link and address events are heard from the host's namespace, so nothing keeps the
pod's alive. While no NIC is looked after there is no socket and no wake-up; a NIC that had carrier
at once and whose addresses need no search is never looked after.

Source: network.md §4.4.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Final

import attrs
import trio

from berth.errors import BerthError, HostError
from berth.host.netlink.address import Address
from berth.host.netlink.events import (
    GROUP_IPV6_ADDRESS,
    GROUP_LINK,
    Changed,
    Event,
    EventSocket,
    Overflow,
)
from berth.host.netlink.link import Link
from berth.host.netlink.socket import Sender, send_now
from berth.nic.aftercare import Sight, look_after, waits_for_carrier, waits_for_search
from berth.nic.announce import waits_for_announcement
from berth.nic.record import NicRecord, Stage
from berth.node.holders.nicholders import NicHolder, NicHolders, nics_of
from berth.runtime.logs import get_log
from berth.runtime.threads import run_in_thread

CARRIER_S: Final = 60.0
"""How long after the attach a first carrier is announced."""

SEARCH_S: Final = 5.0
"""How long the kernel's search for duplicate addresses is watched."""

_POLLS_S: Final = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 28.5)
# Pauses between looks where the kernel does not let other namespaces' events be heard.

_log = get_log(__name__)


@attrs.frozen(kw_only=True)
class _Watch:
    """A NIC that is looked after.

    Attributes:
        carrier_until: On trio's clock; minus infinity when it had carrier and is announced.
        search_until: The same for the search for duplicates.
        sight: How it was seen last.
    """

    nic: NicRecord
    carrier_until: float
    search_until: float
    sight: Sight | None = None

    @property
    def ends_at(self) -> float:
        """When it is looked after no more."""
        return max(self.carrier_until, self.search_until)


class Announcer:
    """Completes what could not be completed in the hook's time.

    Args:
        noticed: Called with the holder's UID when its record says something new.
        send: The seam of crash tests.
    """

    def __init__(
        self, records: NicHolders, *, noticed: Callable[[str], None], send: Sender = send_now
    ) -> None:
        self._records = records
        self._noticed = noticed
        self._send = send
        self._watches: dict[tuple[str, int], _Watch] = {}
        self._any = trio.Event()
        self._waiting = trio.CancelScope()

    def watch(self, uid: str, index: int, nic: NicRecord) -> None:
        """Look after an attached NIC if there is a reason to; never blocks."""
        now = trio.current_time()
        watch = _Watch(
            nic=nic,
            carrier_until=now + CARRIER_S if _waits(nic) else -math.inf,
            search_until=now + SEARCH_S if waits_for_search(nic) else -math.inf,
        )
        if watch.ends_at > now:
            self._watches[uid, index] = watch
            self._any.set()
            self._waiting.cancel()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Look after NICs until cancelled."""
        task_status.started()
        while True:
            await self._any.wait()
            self._any = trio.Event()
            try:
                with EventSocket([GROUP_LINK, GROUP_IPV6_ADDRESS], all_nsids=True) as events:
                    await self._follow(events)
            except HostError as error:
                _log.warning("pods' events not heard, looking now and then", reason=error)
                await self._poll()

    async def _follow(self, events: EventSocket) -> None:
        due: Iterable[tuple[str, int]] = tuple(self._watches)
        while True:
            for key in due:
                await self._look(key)
            if not self._watches:
                return
            due = await self._wait_due(events)

    async def _wait_due(self, events: EventSocket) -> tuple[tuple[str, int], ...]:
        """Wait until some NIC is worth a look, and give which."""
        due: tuple[tuple[str, int], ...] = ()
        while not due:
            due = tuple(key for key, watch in self._watches.items() if watch.sight is None)
            if due:
                break
            received: tuple[Event, ...] = ()
            ends_at = min(watch.ends_at for watch in self._watches.values())
            # Ended early by `watch`, too.
            with trio.CancelScope(deadline=ends_at) as self._waiting:
                received = await events.receive()
            now = trio.current_time()
            due = tuple(
                key
                for key, watch in self._watches.items()
                if watch.ends_at <= now or any(_speaks_of(event, watch) for event in received)
            )
        return due

    async def _poll(self) -> None:
        for pause_s in _POLLS_S:
            for key in tuple(self._watches):
                await self._look(key)
            if not self._watches:
                return
            await trio.sleep(pause_s)
        for watch in self._watches.values():
            _tell_untold(watch)
        self._watches.clear()

    async def _look(self, key: tuple[str, int]) -> None:
        """Look at one NIC, write down what is new of it, and see whether that was all."""
        watch = self._watches[key]
        try:
            sight = await run_in_thread("nics", look_after, watch.nic, send=self._send)
        except BerthError as error:
            _log.debug("NIC not looked after", device=watch.nic.device, reason=error)
            sight = None
        if sight is None:
            self._drop(key, watch)
            return
        await self._tell(key, watch.nic, sight)
        now = trio.current_time()
        nic = attrs.evolve(
            watch.nic,
            carrier=sight.carrier,
            announced=watch.nic.announced or sight.announced,
        )
        seen = attrs.evolve(
            watch,
            nic=nic,
            carrier_until=_carrier_until(watch, nic, now),
            search_until=watch.search_until if sight.tentative else -math.inf,
            sight=sight,
        )
        if seen.ends_at <= now:
            _tell_untold(seen)
            self._drop(key, watch)
        elif self._watches.get(key) is watch:
            self._watches[key] = seen

    def _drop(self, key: tuple[str, int], watch: _Watch) -> None:
        """Look after a NIC no more, unless it was attached anew meanwhile."""
        if self._watches.get(key) is watch:
            del self._watches[key]

    async def _tell(self, key: tuple[str, int], nic: NicRecord, sight: Sight) -> None:
        """Write down what the record does not say yet."""
        uid, _ = key
        async with self._records.locked((uid,)) as records:
            for record in records:
                # It may have lost others since, that were given anew, and have fewer devices.
                found = ((i, one) for i, one in nics_of(record) if one.is_same(nic))
                index, now = next(found, (0, None))
                if now is None or now.stage is not Stage.ATTACHED or now.sandbox != nic.sandbox:
                    continue
                new = attrs.evolve(
                    now,
                    carrier=sight.carrier,
                    announced=now.announced or sight.announced,
                    duplicates=sight.duplicates,
                )
                if new == now:
                    continue
                with trio.CancelScope(shield=True):
                    await self._records.put_or_note(record.with_nic(index, new))
                self._noticed(uid)
                _tell(record, now, new)


def _tell(record: NicHolder, before: NicRecord, after: NicRecord) -> None:
    fields = {"device": after.device, **record.told_as}
    if after.duplicates and after.duplicates != before.duplicates:
        _log.warning(
            "addresses of a NIC are another station's", ips=",".join(after.duplicates), **fields
        )
    if after.carrier and not before.carrier:
        _log.info("NIC has carrier", **fields)
    if after.announced and not before.announced:
        _log.info("addresses of a NIC are announced", **fields)


def _tell_untold(watch: _Watch) -> None:
    if watch.sight is not None and watch.sight.untold:
        _log.warning(
            "addresses of a NIC not announced, neighbors may look for them elsewhere",
            device=watch.nic.device,
            reason=watch.sight.untold,
        )


def _waits(nic: NicRecord) -> bool:
    return waits_for_carrier(nic) or waits_for_announcement(nic)


def _carrier_until(watch: _Watch, nic: NicRecord, now: float) -> float:
    """Until when a NIC as it is now is waited for; one that was seen without carrier, anew."""
    if not _waits(nic):
        return -math.inf
    return now + CARRIER_S if watch.carrier_until == -math.inf else watch.carrier_until


def _speaks_of(event: Event, watch: _Watch) -> bool:
    """Whether an event is of the watched NIC, in its pod."""
    sight = watch.sight
    if isinstance(event, Overflow) or sight is None:
        return True
    if not isinstance(event, Changed) or event.nsid != sight.nsid:
        return False
    if isinstance(event.value, Link | Address):
        return event.value.index == sight.index
    return False
