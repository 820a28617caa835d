"""The machine is rebooted with prepared claims, or their files are lost (case 4)."""

from __future__ import annotations

from pathlib import Path

from berth.model.edits import Edits
from berth.rehearsal import checks, podchecks
from berth.rehearsal.cdispecs import resolve
from berth.rehearsal.iproute import link_facts
from berth.rehearsal.stage import Stage
from tests.integration.rehearsal.conftest import Stages, mac
from tests.integration.rehearsal.players import cdi_ids, start_pod, until

CDI = Path("/run/cdi")


def our_cdi_files() -> list[Path]:
    """CDI files of our driver."""
    return sorted(CDI.glob("berth.dev-*"))


async def reboot(stage: Stage) -> None:
    """Cut the power, plug the NIC in again as its driver makes it, and boot."""
    await stage.cut_power()
    assert our_cdi_files() == []
    await stage.world.add_nic("nic0", mac=mac(0))
    await stage.boot()


def missing(edits: Edits) -> list[str]:
    """Files that are to be mounted and are not there."""
    return [one.host_path for one in edits.mounts if not Path(one.host_path).is_file()]


async def test_claim_prepared_again_after_a_reboot_is_the_same(stages: Stages) -> None:
    """Kubelet gets equal CDI names, every file is there before the answer, and the pod its NIC."""

    stage = await stages()
    pod = await start_pod(stage, "one")
    before = cdi_ids(pod)
    await reboot(stage)

    again = stage.pods.found(pod.name)
    await stage.pods.prepare(again, stage.kubelet)

    assert cdi_ids(again) == before
    edits = resolve([name for names in before.values() for name in names])
    assert missing(edits) == []
    await stage.pods.run_sandbox(again)
    await stage.pods.run_containers(again)
    placed = await podchecks.attached(stage, again)
    await podchecks.traffic(again, placed)
    await podchecks.completed(stage, again, placed)


async def test_lost_cdi_file_is_back_after_a_restart(stages: Stages) -> None:
    """Kubelet does not ask again in the same boot: with the start each is as it was.

    One was deleted, one was written over by somebody else.
    """

    stage = await stages()
    pod = await start_pod(stage, "one")
    lost = our_cdi_files()
    texts = [path.read_bytes() for path in lost]
    assert len(lost) == 2
    await stage.berthd.kill()
    lost[0].unlink()
    lost[1].write_bytes(texts[1].replace(b"containerEdits", b"containerEdit5"))

    await stage.berthd.start()
    await until(lambda: [path.read_bytes() for path in our_cdi_files()] == texts)

    await podchecks.attached(stage, pod)


async def test_unprepare_alone_after_a_reboot_leaves_nothing(stages: Stages) -> None:
    """A pod that was deleted meanwhile is undone, although nothing of its boot exists any more."""

    stage = await stages()
    pod = await start_pod(stage, "one")
    await reboot(stage)

    await stage.pods.unprepare(pod, stage.kubelet)

    await checks.undone(stage, pod)
    facts = await link_facts("nic0")
    assert facts is not None
    assert facts.mac == mac(0)
