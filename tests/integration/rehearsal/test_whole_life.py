"""A pod gets its NIC and gives it back, with everything looked at from outside."""

from __future__ import annotations

from berth.model.device import NicMode
from berth.rehearsal import checks, podchecks
from berth.rehearsal.iproute import link_facts
from berth.rehearsal.standins import StandIn
from tests.integration.rehearsal.conftest import Stages
from tests.integration.rehearsal.players import schedule


async def test_pod_gets_its_nic_and_gives_it_back(stages: Stages) -> None:
    """Slice, prepare, attach, traffic, metadata, status, return and undoing, each verified."""

    stage = await stages(nics=2)
    links = [StandIn(name=f"nic{n}", group="spare", mode=NicMode.EXCLUSIVE) for n in (0, 1)]
    await checks.published(stage, links)
    before = {"nic0": await link_facts("nic0")}
    assert before["nic0"] is not None

    pod = await stage.pods.start(schedule(stage, "one"), stage.kubelet)
    assert await checks.prepared(stage, pod) == 2
    placed = await podchecks.attached(stage, pod)
    assert [one.standin for one in placed] == ["nic0"]
    assert "192.0.2.10/24 answers" in (await podchecks.traffic(pod, placed))[0]
    await podchecks.completed(stage, pod, placed)

    await stage.pods.stop(pod, stage.kubelet)
    await checks.returned({"nic0": before["nic0"]})
    await checks.undone(stage, pod)
