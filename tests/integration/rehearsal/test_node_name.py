"""The node is called otherwise than the daemon was told, or than it was before (case 9)."""

from __future__ import annotations

from berth.rehearsal import checks, podchecks
from berth.rehearsal.iproute import link_facts
from berth.rehearsal.stage import Stage
from berth.rehearsal.world import NODE
from tests.integration.rehearsal.conftest import Stages
from tests.integration.rehearsal.players import ask, start_pod, until

OTHER = "worker-7.lab"


def call_node(stage: Stage, name: str) -> None:
    """Write another ``[node] name`` into the configuration."""
    text = stage.config.read_text(encoding="utf-8")
    named = text.replace(f'name = "{NODE}"', f'name = "{name}"', 1)
    assert named != text
    stage.config.write_text(named, encoding="utf-8")


async def test_node_that_does_not_exist_gets_no_slice(stages: Stages) -> None:
    """It is said once with the name and where it comes from, and status tells it."""

    stage = await stages(start=False)
    call_node(stage, OTHER)
    await stage.start()

    async def told() -> bool:
        return any(OTHER in trouble for trouble in (await ask(stage, "status"))["troubles"])

    await until(told)

    assert stage.cluster.devices() == {}
    lines = [line for line in stage.berthd.log_text().splitlines() if OTHER in line]
    assert len(lines) == 1, lines
    assert "[node] name" in lines[0]


async def test_claim_of_before_a_rename_is_undone_after_it(stages: Stages) -> None:
    """A pod that was prepared under the old name keeps its NIC, and gives it back as it was."""

    stage = await stages()
    before = await link_facts("nic0")
    assert before is not None
    pod = await start_pod(stage, "one")
    await stage.berthd.kill()
    call_node(stage, OTHER)
    await stage.start()

    await podchecks.attached(stage, pod)
    await stage.pods.stop(pod, stage.kubelet)

    await checks.undone(stage, pod)
    await checks.returned({"nic0": before})
