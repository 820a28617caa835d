"""The next pod comes before the last one has let go of its NIC (case 21)."""

from __future__ import annotations

import pytest
import trio

from berth.errors import RemoteProtocolError
from berth.rehearsal import checks, podchecks
from berth.rehearsal.apiserver.resources import CLAIMS
from berth.rehearsal.iproute import link_facts
from berth.rehearsal.pods import Pod
from tests.integration.rehearsal.conftest import Stages
from tests.integration.rehearsal.players import schedule, schedule_by_template, start_pod

ROUNDS = 10


@pytest.mark.slow
async def test_successor_waits_for_the_return_and_starts_at_once(stages: Stages) -> None:
    """Ten times in a row: it runs within 2 s of the old sandbox's end, and keeps its NIC."""

    stage = await stages()
    before = await link_facts("nic0")
    assert before is not None
    old = await stage.pods.start(schedule_by_template(stage, "pod0"), stage.kubelet)

    for number in range(1, ROUNDS + 1):
        stage.cluster.delete(old.name)
        pod = stage.pods.found(schedule_by_template(stage, f"pod{number}"))
        ended = 0.0
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stage.pods.prepare, pod, stage.kubelet)
            await trio.sleep(0.2)
            assert not pod.prepared
            await stage.pods.stop_sandbox(old)
            ended = trio.current_time()
        await stage.pods.run_sandbox(pod)
        await stage.pods.run_containers(pod)
        assert trio.current_time() - ended < 5
        await stage.pods.unprepare(old, stage.kubelet)
        await podchecks.attached(stage, pod)
        await stage.pods.remove(old)
        old = pod

    await stage.pods.stop(old, stage.kubelet)
    await checks.returned({"nic0": before})


async def test_holder_that_lives_on_is_refused_by_name(stages: Stages) -> None:
    """A device given to two living claims is a fault of somebody else, told at once."""

    stage = await stages(nics=2)
    holder = await start_pod(stage, "holder")
    ref = next(iter(holder.claims.values()))
    allocation = stage.cluster.claim(ref)["status"]["allocation"]
    second: Pod = stage.pods.found(schedule(stage, "second"))
    reserved = stage.cluster.claim(second.claims["nic"])["status"]["reservedFor"]
    # An allocation never changes, so it goes before another one comes.
    for status in (
        {"allocation": None, "reservedFor": None},
        {"allocation": allocation, "reservedFor": reserved},
    ):
        stage.api.patch(CLAIMS, "second", {"status": status}, "default")

    began = trio.current_time()
    with pytest.raises(RemoteProtocolError, match="default/holder"):
        await stage.pods.prepare(second, stage.kubelet)

    assert trio.current_time() - began < 5
    await podchecks.attached(stage, holder)
