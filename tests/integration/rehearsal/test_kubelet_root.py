"""Kubelet's root directory is not the usual one, or is not there (case 2)."""

from __future__ import annotations

import trio

from berth.rehearsal import podchecks
from berth.rehearsal.world import ROOT
from tests.integration.rehearsal.conftest import Stages
from tests.integration.rehearsal.players import ask, start_pod, until

OTHER = ROOT / "data" / "kubelet"


async def test_everything_lies_below_another_root(stages: Stages) -> None:
    """Sockets, metadata and registration follow ``[kubelet] root``; the usual one stays empty."""

    stage = await stages(kubelet_root=OTHER, held=False)

    pod = await start_pod(stage, "one")

    assert stage.kubelet.drivers() == {"berth.dev": True}
    assert (OTHER / "plugins_registry" / "berth.dev-reg.sock").is_socket()
    assert (OTHER / "plugins" / "berth.dev" / "dra.sock").is_socket()
    placed = await podchecks.attached(stage, pod)
    await podchecks.completed(stage, pod, placed)
    uid = next(iter(pod.claims.values())).uid
    assert (OTHER / "plugins/berth.dev/dra-device-metadata" / uid / "nic/metadata.json").is_file()
    assert list(stage.world.kubelet.iterdir()) == []


async def test_missing_root_is_named_and_waited_for(stages: Stages) -> None:
    """The folder is kubelet's to make: it is named with its setting, and registration follows."""

    stage = await stages(kubelet_root=OTHER, held=False, with_kubelet=False, start=False)
    await stage.berthd.start()
    await stage.berthd.wait_ready()

    async def told() -> bool:
        return f"not registered, {OTHER} is missing" in str(await ask(stage, "status"))

    await until(told)
    assert not OTHER.exists()
    warnings = [line for line in stage.berthd.log_text().splitlines() if str(OTHER) in line]
    assert len(warnings) == 1
    assert "[kubelet] root" in warnings[0]

    OTHER.mkdir(parents=True)
    await stage.start_kubelet()
    with trio.fail_after(15):
        await stage.kubelet.wait_driver("berth.dev")
    assert stage.berthd.alive
    await until(lambda: len(stage.cluster.devices()) == 1)
    await start_pod(stage, "one")
