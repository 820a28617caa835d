"""Kubelet as one thing: drivers registered, claims prepared, slices deleted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import trio

from berth.errors import BerthError, RemoteProtocolError
from berth.model.claim import ClaimRef, PreparedDevice
from berth.rehearsal.kubelet.calls import call_driver, devices_of
from berth.rehearsal.kubelet.health import TOKENS, HealthWatch
from berth.rehearsal.kubelet.notes import Act, Note, Report
from berth.rehearsal.kubelet.registry import PluginRegistry
from berth.runtime.asyncthread import AsyncioThread
from berth.runtime.backoff import BackOff
from berth.runtime.latest import Latest

ABSENCE_S: Final = 30.0
"""After which the slices of a driver without a connected instance are deleted, in seconds."""

WIPE_BACK_OFF: Final = BackOff(first_s=1.0, most_s=300.0, spread=0.0)
"""Pauses between tries to delete slices."""

Wipe = Callable[[str | None], Awaitable[None]]
"""Deletes the node's slices: those of one driver, or of all for ``None``; may raise BerthError."""


class Kubelet:
    """One life of kubelet.

    Args:
        thread: The loop on which grpcio runs.
        root: Kubelet's root directory.
        wipe: Deletes slices, as kubelet's own credentials may.
        report: Told of everything that is done.
        health: Versions of the health service that it knows; none before 1.36, unless asked to.

    Attributes:
        health: What it is told of devices, and what pods say of them.
    """

    def __init__(
        self,
        thread: AsyncioThread,
        *,
        root: Path,
        wipe: Wipe,
        report: Report = lambda _: None,
        health: Iterable[str] = TOKENS,
    ) -> None:
        self.health = HealthWatch(tuple(health), report=report)
        self._wipe = wipe
        self._report = report
        self._registry = PluginRegistry(
            thread,
            root / "plugins_registry",
            report=report,
            tell_changed=self._look_at,
            attend=self.health.watch,
        )
        self._present: dict[str, Latest[bool]] = {}
        self._watched: set[str] = set()
        self._nursery: trio.Nursery | None = None
        self._prepared: dict[str, ClaimRef] = {}
        self._ending: set[str] = set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Be kubelet until cancelled; ``started()`` at once, drivers register within a second."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self._delete_slices, None)
            nursery.start_soon(self._registry.run)
            task_status.started()

    async def wait_driver(self, driver: str, *, present: bool = True) -> None:
        """Wait until a driver is registered and connected, or until it is not."""
        await self._presence(driver).wait_value(lambda value: value is present)

    def drivers(self) -> Mapping[str, bool]:
        """The registered drivers, and whether each is connected."""
        names = sorted({item.driver for item in self._registry.instances})
        return {name: self._presence(name).get() for name in names}

    async def prepare(
        self, driver: str, claims: Sequence[ClaimRef]
    ) -> Mapping[str, tuple[PreparedDevice, ...]]:
        """Prepare a pod's claims with one call; gives the devices by the claims' UIDs.

        Raises:
            BerthError: It failed, in the words of kubelet's event.
        """
        for claim in claims:
            known = self._prepared.get(str(claim), claim)
            if str(claim) in self._ending or known.uid != claim.uid:
                raise RemoteProtocolError(
                    "prepare dynamic resources", f"an old claim {claim} is not unprepared yet"
                )
        entries = await self._call(driver, "NodePrepareResources", claims)
        self._prepared |= {str(claim): claim for claim in claims}
        self._report(Note(act=Act.PREPARED, subject=driver, detail=_names(claims)))
        return {uid: devices_of(entry) for uid, entry in entries.items()}

    async def unprepare(self, driver: str, claims: Sequence[ClaimRef]) -> None:
        """Unprepare claims with one call.

        Raises:
            BerthError: It failed, in the words of kubelet's log.
        """
        names = {str(claim) for claim in claims}
        self._ending |= names
        try:
            await self._call(driver, "NodeUnprepareResources", claims)
        finally:
            self._ending -= names
        for claim in claims:
            if self._prepared.get(str(claim)) == claim:
                del self._prepared[str(claim)]
        self._report(Note(act=Act.UNPREPARED, subject=driver, detail=_names(claims)))

    async def _call(
        self, driver: str, method: str, claims: Sequence[ClaimRef]
    ) -> Mapping[str, Any]:
        try:
            instances = self._registry.of_driver(driver)
            if not instances:
                raise RemoteProtocolError(
                    "prepare dynamic resources", f"DRA driver {driver} is not registered"
                )
            return await call_driver(instances[-1].channel, instances[-1].token, method, claims)
        except BerthError as error:
            self._report(Note(act=Act.CALL_FAILED, subject=driver, detail=str(error)))
            raise

    def _presence(self, driver: str) -> Latest[bool]:
        return self._present.setdefault(driver, Latest(False))

    def _look_at(self, driver: str) -> None:
        """Note whether a driver is there; a driver seen for the first time is watched from now."""
        if driver not in self._watched and self._nursery is not None:
            self._watched.add(driver)
            self._nursery.start_soon(self._watch_absence, driver)
        self._presence(driver).set(any(item.connected for item in self._registry.of_driver(driver)))

    async def _watch_absence(self, driver: str) -> None:
        """Delete a driver's slices each time it was away for `ABSENCE_S`."""
        while True:
            await self.wait_driver(driver, present=False)
            with trio.move_on_after(ABSENCE_S) as waiting:
                await self.wait_driver(driver)
            if waiting.cancelled_caught:
                await self._delete_slices(driver)
                await self.wait_driver(driver)

    async def _delete_slices(self, driver: str | None) -> None:
        back_off = WIPE_BACK_OFF
        while True:
            try:
                await self._wipe(driver)
            except BerthError as error:
                back_off, delay_s = back_off.next_delay()
                self._report(Note(act=Act.WIPE_FAILED, subject=driver or "", detail=str(error)))
            else:
                self._report(Note(act=Act.WIPED, subject=driver or ""))
                return
            await trio.sleep(delay_s)


def _names(claims: Sequence[ClaimRef]) -> str:
    return ", ".join(map(str, claims))
