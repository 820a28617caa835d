"""Kubelet's registration: what it is told, and what is made of its answers."""

import logging
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from berth.dra.registration import PATIENCE_S, Places, Registration
from berth.pb import pluginregistration_pb2 as pb
from berth.runtime.methods import Call, Method

PLACES = Places(root=Path("/data/kubelet"), driver="berth.dev")


def registration() -> Registration:
    """Give a registration of the usual driver."""
    return Registration(PLACES, tokens=("v1.DRAPlugin", "v1beta1.DRAPlugin"))


async def tell(it: Registration, *, registered: bool, error: str = "") -> None:
    """Say what kubelet says."""
    method = it.service().find("NotifyRegistrationStatus")
    assert isinstance(method, Method)
    request = pb.RegistrationStatus(plugin_registered=registered, error=error)
    reply = await method.handler(request, Call(method="NotifyRegistrationStatus"))
    assert reply == pb.RegistrationStatusResponse()


def test_places_follow_the_configured_root() -> None:
    """Case 2: every socket of DRA moves with kubelet's root."""

    assert str(PLACES.dra_socket) == "/data/kubelet/plugins/berth.dev/dra.sock"
    assert str(PLACES.registration_socket) == ("/data/kubelet/plugins_registry/berth.dev-reg.sock")


async def test_get_info_tells_name_endpoint_and_versions_in_order() -> None:
    """The answer is ready beforehand, so it is never late."""

    service = registration().service()
    method = service.find("GetInfo")
    assert isinstance(method, Method)
    info = await method.handler(pb.InfoRequest(), Call(method="GetInfo"))

    assert service.name == "pluginregistration.Registration"
    assert info == pb.PluginInfo(
        type="DRAPlugin",
        name="berth.dev",
        endpoint="/data/kubelet/plugins/berth.dev/dra.sock",
        supported_versions=["v1.DRAPlugin", "v1beta1.DRAPlugin"],
    )


async def test_notify_is_never_refused_and_keeps_the_last_word(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A refusal would undo the registration; what kubelet says is kept and logged instead."""

    it = registration()
    assert str(it.state.get()) == "not registered, watching /data/kubelet/plugins_registry"

    await tell(it, registered=False, error="no supported version")
    assert str(it.state.get()) == "not registered, kubelet says: no supported version"

    await tell(it, registered=True)
    await tell(it, registered=True)
    assert str(it.state.get()) == "registered"
    assert (it.state.get().times, it.state.get().refusals) == (2, 1)
    assert [r.levelno for r in caplog.records if r.levelno >= logging.WARNING] == [logging.WARNING]


@pytest.mark.parametrize("comes", [True, False])
async def test_remind_tells_the_operator_when_kubelet_does_not_come(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, comes: bool
) -> None:
    """After a minute without kubelet one warning names the folder and the setting."""

    it, come = registration(), trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(it.remind, come.wait)
        await trio.sleep(PATIENCE_S - 1)
        assert caplog.records == []
        if comes:
            come.set()

    texts = [str(getattr(record, "berth_fields", {})) for record in caplog.records]
    assert [("/data/kubelet/plugins_registry" in t, "[kubelet] root" in t) for t in texts] == (
        [] if comes else [(True, True)]
    )


async def test_notify_with_a_text_without_end_keeps_both_ends_of_it() -> None:
    """It is shown with every status, whose answer has a limit."""

    it = registration()
    await tell(it, registered=False, error=f"first {'x' * 3_000_000} last")
    reason = it.state.get().reason

    assert reason.startswith("kubelet says: first xxx")
    assert reason.endswith("xxx last")
    assert len(reason) < 2100
