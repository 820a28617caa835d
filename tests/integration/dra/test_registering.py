"""The stand-in for kubelet against plugins that misbehave while they register."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from berth.pb import pluginregistration_pb2 as pb
from berth.rehearsal.kubelet import Act, Kubelet, Note
from berth.runtime.asyncthread import AsyncioThread
from berth.runtime.grpcbridge import GrpcServer
from berth.runtime.methods import Call, Method, RpcError, Service, Status

LIMIT_S = 20.0
INFO = pb.PluginInfo(type="DRAPlugin", name="d.test", supported_versions=["v1.DRAPlugin"])


class Script:
    """A plugin whose answers come from lists, the last of each for ever."""

    def __init__(self, infos: list[pb.PluginInfo | float], refusals: list[bool]) -> None:
        self.infos = infos
        self.refusals = refusals
        self.told: list[pb.RegistrationStatus] = []

    async def get_info(self, _request: pb.InfoRequest, _call: Call) -> pb.PluginInfo:
        """Answer, or be slow for so many seconds."""
        info = self.infos.pop(0) if len(self.infos) > 1 else self.infos[0]
        if isinstance(info, float):
            await trio.sleep(info)
            return INFO
        await trio.lowlevel.checkpoint()
        return info

    async def notify(
        self, request: pb.RegistrationStatus, _call: Call
    ) -> pb.RegistrationStatusResponse:
        """Take note, or refuse to."""
        await trio.lowlevel.checkpoint()
        self.told.append(request)
        if self.refusals.pop(0) if len(self.refusals) > 1 else self.refusals[0]:
            raise RpcError("notify", "I refuse", code=Status.UNKNOWN)
        return pb.RegistrationStatusResponse()

    def service(self) -> Service:
        """The method table."""
        return Service(
            name="pluginregistration.Registration",
            methods=(
                Method(
                    name="GetInfo",
                    request=pb.InfoRequest,
                    reply=pb.PluginInfo,
                    handler=self.get_info,
                ),
                Method(
                    name="NotifyRegistrationStatus",
                    request=pb.RegistrationStatus,
                    reply=pb.RegistrationStatusResponse,
                    handler=self.notify,
                ),
            ),
        )


@asynccontextmanager
async def playing(
    thread: AsyncioThread, root: Path, script: Script, report: Callable[[Note], None]
) -> AsyncIterator[Kubelet]:
    """Serve a script on a registration socket, and let kubelet find it."""

    async def wipe(_driver: str | None) -> None:
        await trio.lowlevel.checkpoint()

    registry = root / "plugins_registry"
    registry.mkdir()
    server = GrpcServer(thread, path=registry / "d-reg.sock", services=[script.service()])
    kubelet = Kubelet(thread, root=root, wipe=wipe, report=report)
    async with trio.open_nursery() as nursery:
        await nursery.start(server.run)
        await nursery.start(kubelet.run)
        yield kubelet
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("infos", "refusals", "reason"),
    [
        ([pb.PluginInfo(type="Odd", name="d"), INFO], [False], "plugin type: Odd"),
        pytest.param([3.0, INFO], [False], "no answer in time", marks=pytest.mark.slow),
        ([INFO], [True, False], "I refuse"),
    ],
)
async def test_failed_registration_is_repeated_until_it_works(
    thread: AsyncioThread,
    folder: Path,
    infos: list[pb.PluginInfo | float],
    refusals: list[bool],
    reason: str,
) -> None:
    """A wrong type, a slow GetInfo and a refused notification undo one try, not the next."""

    notes: list[Note] = []
    script = Script(infos, refusals)
    with trio.fail_after(LIMIT_S):
        async with playing(thread, folder, script, notes.append) as kubelet:
            await kubelet.wait_driver("d.test")

    refused = [note.detail for note in notes if note.act is Act.REFUSED]
    assert len(refused) == 1
    assert reason in refused[0]
    assert script.told[-1] == pb.RegistrationStatus(plugin_registered=True)
    assert [note.act for note in notes].count(Act.REGISTERED) == 1


@pytest.mark.slow
async def test_removed_socket_unregisters_and_a_new_one_registers(
    thread: AsyncioThread, folder: Path
) -> None:
    """A registration socket that vanishes takes its driver with it."""

    notes: list[Note] = []
    script = Script([INFO], [False])
    with trio.fail_after(LIMIT_S):
        async with playing(thread, folder, script, notes.append) as kubelet:
            await kubelet.wait_driver("d.test")
            (folder / "plugins_registry" / "d-reg.sock").rename(folder / "away.sock")
            await kubelet.wait_driver("d.test", present=False)
            # Its connection ends first, then it is forgotten.
            await wait_all_tasks_blocked(0.05)
            assert kubelet.drivers() == {}
            (folder / "away.sock").rename(folder / "plugins_registry" / "d-reg.sock")
            await kubelet.wait_driver("d.test")
            assert kubelet.drivers() == {"d.test": True}
