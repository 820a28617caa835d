"""Health streams as kubelet reads them, and the statuses of pods that follow from them.

One stream for each driver, to the plugin that registered last, in the newest version that it
offers. It is asked for again 5 s after it ended; not if the plugin does not know the call.

Source: KC §6.2, §6.3 (kubelet 1.37.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any, Final, TypeAlias

import trio

from berth.pb import dra_health_v1_pb2, dra_health_v1alpha1_pb2
from berth.rehearsal.kubelet.healthinfo import DeviceHealth, HealthInfo
from berth.rehearsal.kubelet.notes import Act, Note, Report
from berth.rehearsal.kubelet.registry import Instance
from berth.runtime.latest import Latest
from berth.runtime.methods import RpcError, Status

RETRY_S: Final = 5.0
"""Pause before a stream that ended is asked for again, in seconds."""

TOKENS: Final[Mapping[str, ModuleType]] = {
    "v1.DRAResourceHealth": dra_health_v1_pb2,
    "v1alpha1.DRAResourceHealth": dra_health_v1alpha1_pb2,
}
"""Versions that kubelet 1.37 knows, the one that it prefers first."""

Statuses: TypeAlias = "Mapping[tuple[str, str, str], DeviceHealth]"
"""By driver, pool and device."""


class HealthWatch:
    """The streams of one life.

    Args:
        tokens: Versions that are known; none where the gate is off.
        report: Told of what is done.
    """

    def __init__(self, tokens: tuple[str, ...], *, report: Report) -> None:
        self.statuses: Latest[Statuses] = Latest({})
        """What pods that have a device say of it: made anew when it changed, or by `look`."""
        self._tokens = tokens
        self._report = report
        self._info = HealthInfo()
        self._reading: dict[str, trio.CancelScope] = {}

    async def watch(self, instance: Instance) -> None:
        """Read the stream of a plugin, again and again, until cancelled or a newer one comes."""
        token = next((token for token in self._tokens if token in instance.tokens), "")
        if not token:
            return
        before = self._reading.get(instance.driver)
        if before is not None:
            before.cancel()
        with trio.CancelScope() as scope:
            self._reading[instance.driver] = scope
            again = True
            while again:
                again = await self._read(instance, token)
                await trio.sleep(RETRY_S)

    def look(self, driver: str, pool: str, device: str) -> DeviceHealth:
        """Make the status of a pod that has the device, as its next turn would, and give it."""
        told = self._info.of(driver, pool, device, trio.current_time())
        self.statuses.set({**self.statuses.get(), (driver, pool, device): told})
        return told

    async def _read(self, instance: Instance, token: str) -> bool:
        """Read one stream to its end, and say whether to ask for another."""
        pb, driver = TOKENS[token], instance.driver
        reason = "the plugin has ended it"
        try:
            async with instance.channel.stream(
                f"/{token}/NodeWatchResources",
                pb.NodeWatchResourcesRequest(),
                pb.NodeWatchResourcesResponse,
            ) as replies:
                async for reply in replies:
                    self._take(driver, reply.devices)
        except RpcError as error:
            reason = f"code = {error.code.name} desc = {error.found}"
            if error.code is Status.UNIMPLEMENTED:
                return False
        finally:
            self._info.forget(driver)
        self._report(Note(act=Act.HEALTH_ENDED, subject=driver, detail=reason))
        return True

    def _take(self, driver: str, reports: Iterable[Any]) -> None:
        for pool, device in self._info.take(driver, reports, trio.current_time()):
            told = self.look(driver, pool, device)
            detail = f"{pool}/{device} {told}"
            self._report(Note(act=Act.HEALTH_TOLD, subject=driver, detail=detail))
