"""A record on the disk is unusable when the daemon starts (case 6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import trio

from berth.rehearsal import podchecks
from berth.rehearsal.pods import Pod
from berth.rehearsal.stage import Stage
from tests.integration.rehearsal.conftest import Stages
from tests.integration.rehearsal.players import ask, schedule, start_pod, until

CDI = Path("/run/cdi")


def _put_a_folder_there(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES: Mapping[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "other": lambda path: path.write_text('{"version": 1}', encoding="utf-8"),
    "garbage": lambda path: path.write_bytes(bytes(range(256)) * 16),
    "folder": _put_a_folder_there,
}


@pytest.mark.slow
async def test_unusable_records_are_kept_aside_and_nothing_is_handed_out_twice(
    stages: Stages,
) -> None:
    """Each is named with its new name; its NIC counts as held until the claim is undone."""

    stage = await stages(nics=len(DAMAGES))
    pods = {name: stage.pods.found(schedule(stage, name)) for name in DAMAGES}
    for pod in pods.values():
        await stage.pods.prepare(pod, stage.kubelet)
    held = await held_devices(stage)
    assert len(held) == len(DAMAGES)
    files = {name: record_of(stage, pod) for name, pod in pods.items()}
    await stage.berthd.kill()
    for name, path in files.items():
        DAMAGES[name](path)

    await stage.start()

    log = stage.berthd.log_text()
    for path in files.values():
        assert not path.is_file()
        (kept,) = (other for other in path.parent.iterdir() if path.stem in other.name)
        assert str(path) in log
        assert kept.name in log
    assert await held_devices(stage) == held
    for pod in pods.values():
        await stage.pods.unprepare(pod, stage.kubelet)
        stage.cluster.delete(pod.name)
    assert await held_devices(stage) == set()
    await podchecks.attached(stage, await start_pod(stage, "next"))


async def test_pod_whose_record_is_lost_keeps_its_nic_and_ends(stages: Stages) -> None:
    """What a pod has is offered to nobody, and its end is not held up by what is not known of it.

    A veth pair is nowhere to be seen meanwhile; hardware stays in sysfs, and counts as held.
    """

    stage = await stages()
    pod = await start_pod(stage, "one")
    path = record_of(stage, pod)
    await stage.berthd.kill()
    path.write_bytes(b"")

    await stage.start()

    await until(lambda: not stage.cluster.devices())
    assert "net1" in await pod_links(pod)
    with trio.fail_after(5):
        await stage.pods.stop(pod, stage.kubelet)
    assert await held_devices(stage) == set()
    assert cdi_files_of(path.stem) == []


def record_of(stage: Stage, pod: Pod) -> Path:
    """The file of the record of a pod's one claim."""
    (ref,) = pod.claims.values()
    return stage.world.state / "claims" / f"{ref.uid}.json"


def cdi_files_of(uid: str) -> list[Path]:
    """CDI files of a claim."""
    return [path for path in CDI.iterdir() if uid in path.name]


async def held_devices(stage: Stage) -> set[str]:
    """Names of the devices that count as held."""
    return {str(hold["device"]) for hold in (await ask(stage, "holds"))["holds"]}


async def pod_links(pod: Pod) -> str:
    """What ``ip`` tells of the links in a pod."""
    path = pod.running.netns_path
    done = await trio.run_process(
        ["nsenter", f"--net={path}", "ip", "-o", "link"], capture_stdout=True
    )
    return done.stdout.decode()
