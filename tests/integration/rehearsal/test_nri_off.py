"""The runtime has NRI switched off, or its socket comes later (case 16)."""

from __future__ import annotations

import socket

import pytest
import trio

from berth.rehearsal.runtime import NRI_SOCKET
from berth.rehearsal.stage import Stage
from tests.integration.rehearsal.conftest import Stages
from tests.integration.rehearsal.players import ask, start_pod, until


async def reason_of(stage: Stage, link: str) -> str:
    """Why a NIC is not offered, as ``berth devices`` tells it; empty for one that is."""
    entries = (await ask(stage, "devices"))["devices"]
    entry = next(entry for entry in entries if entry["ifname"] == link)
    return "" if entry["offered"] else f"{entry['reason']}: {entry['detail']}"


def leave_dead_socket() -> None:
    """Leave a socket file on which nobody listens."""
    NRI_SOCKET.parent.mkdir(exist_ok=True)
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(NRI_SOCKET))
    dead.close()


@pytest.mark.parametrize("dead", [False, True])
async def test_nics_are_offered_once_nri_is_there(stages: Stages, *, dead: bool) -> None:
    """Without NRI a NIC is not offered and the reason is told; with it, without a restart."""

    stage = await stages(with_nri=False, start=False)
    if dead:
        leave_dead_socket()
    await stage.berthd.start()
    await stage.berthd.wait_ready()
    await stage.kubelet.wait_driver("berth.dev")

    async def told() -> bool:
        reason = await reason_of(stage, "nic0")
        return "NRI is not connected" in reason and str(NRI_SOCKET) in reason

    await until(told)
    status = await ask(stage, "status")
    assert str(NRI_SOCKET) in str(status)
    assert stage.cluster.devices() == {}

    await stage.start_runtime()
    with trio.fail_after(10):
        await stage.runtime.wait_plugins()
        await until(lambda: len(stage.cluster.devices()) == 1)
    assert await reason_of(stage, "nic0") == ""
    await start_pod(stage, "one")
    warnings = [line for line in stage.berthd.log_text().splitlines() if "no runtime yet" in line]
    assert len(warnings) == 1


async def test_nics_leave_the_slices_when_nri_stays_away(stages: Stages) -> None:
    """Free NICs are withdrawn; one in a pod stays told, stays in its pod, and comes home."""

    stage = await stages(nics=2)
    pod = await start_pod(stage, "one")
    await stage.runtime.go_down()

    await until(lambda: set(stage.cluster.devices()) == {"nic-spare-nic0"}, limit_s=20)

    await stage.start_runtime()
    await until(lambda: len(stage.cluster.devices()) == 2)
    await stage.pods.stop(pod, stage.kubelet)


async def test_a_short_absence_of_nri_changes_no_slice(stages: Stages) -> None:
    """A runtime that restarts is back in a moment: nothing is written for that."""

    stage = await stages(nics=2)
    writes = len([seen for seen in stage.api.seen if seen.is_write])

    await stage.runtime.go_down()
    await stage.start_runtime()
    with trio.fail_after(5):
        await stage.runtime.wait_plugins()
    await trio.sleep(1.0)

    assert len([seen for seen in stage.api.seen if seen.is_write]) == writes
