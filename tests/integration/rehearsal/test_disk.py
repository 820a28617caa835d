"""The disk is full or read-only, for the records or for the CDI files (case 7)."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from berth.errors import RemoteProtocolError
from berth.rehearsal import checks, podchecks
from berth.rehearsal.iproute import link_facts
from berth.rehearsal.mounts import MS_BIND, MS_RDONLY, MS_REMOUNT, mount
from berth.rehearsal.stage import Stage
from berth.rehearsal.world import World
from berth.runtime.threads import run_in_thread
from tests.integration.rehearsal.conftest import Stages
from tests.integration.rehearsal.players import schedule, start_pod, until

CDI = Path("/run/cdi")
FOLDERS = {"records": World.state / "claims", "cdi": CDI}
FILLER = "filler"

STOP_S = 18.0
"""How long a stop may take (daemon.md §5)."""

HANGING = """
import os, pathlib, time

sync = os.fsync

def fsync(descriptor):
    while pathlib.Path({hangs!r}).exists():
        pathlib.Path({hung!r}).touch()
        time.sleep(0.05)
    sync(descriptor)

os.fsync = fsync
"""
"""What makes a disk that hangs of one that does not, in any Python that finds it at its start."""


def make_small(folder: Path) -> None:
    """Give a folder a small disk of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    mount("tmpfs", folder, options="size=64k,mode=755")


def fill(folder: Path) -> None:
    """Leave no room on it."""
    with (folder / FILLER).open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 4096)


def free(folder: Path) -> None:
    """Make room again."""
    (folder / FILLER).unlink()


def lock(folder: Path) -> None:
    """Make the disk read-only."""
    _remount(folder, MS_RDONLY)


def unlock(folder: Path) -> None:
    """Make the disk writable again."""
    _remount(folder, 0)


def _remount(folder: Path, flags: int) -> None:
    mount("tmpfs", folder, flags=MS_REMOUNT | MS_BIND | flags)


def files_of(uid: str) -> list[str]:
    """CDI files that a claim has."""
    return [path.name for path in CDI.iterdir() if uid in path.name]


Act = Callable[[Path], None]
FAULTS: dict[str, tuple[Act, Act, str]] = {
    "full": (fill, free, "No space left on device"),
    "read-only": (lock, unlock, "Read-only file system"),
}
cases = pytest.mark.parametrize(
    ("folder", "fault"), [(folder, fault) for folder in FOLDERS for fault in FAULTS]
)


async def set_small_stage(stages: Stages, folder: Path) -> Stage:
    """A stage with two NICs whose daemon has a small disk for a folder."""
    stage = await stages(nics=2, start=False)
    await run_in_thread("files", make_small, folder)
    await stage.start()
    await until(lambda: len(stage.cluster.devices()) == 2)
    return stage


@cases
async def test_prepare_fails_by_name_and_leaves_nothing(
    stages: Stages, folder: str, fault: str
) -> None:
    """Path and reason are told, the NIC stays as it is, and later it works without a restart."""

    path, (break_it, mend_it, reason) = FOLDERS[folder], FAULTS[fault]
    stage = await set_small_stage(stages, path)
    running = await start_pod(stage, "running")
    before = await link_facts("nic1")
    assert before is not None
    pod = stage.pods.found(schedule(stage, "one"))

    await run_in_thread("files", break_it, path)
    with pytest.raises(RemoteProtocolError, match=reason) as failed:
        await stage.pods.prepare(pod, stage.kubelet)

    assert str(path) in str(failed.value).replace("/var/run", "/run")
    await checks.returned({"nic1": before})
    if folder == "cdi":
        # Home, and yet not at its end: the files cannot be removed either.
        await until(lambda: "NIC home" in stage.berthd.log_text())
    await podchecks.attached(stage, running)
    assert stage.berthd.alive
    uid = pod.claims["nic"].uid
    assert files_of(uid) == []

    await run_in_thread("files", mend_it, path)
    await stage.pods.prepare(pod, stage.kubelet)
    await stage.pods.run_sandbox(pod)
    await stage.pods.run_containers(pod)
    await podchecks.attached(stage, pod)


@cases
async def test_unprepare_frees_the_nic_and_can_be_repeated(
    stages: Stages, folder: str, fault: str
) -> None:
    """The hardware is home whatever the disk does; when there is room again all is undone."""

    path, (break_it, mend_it, _) = FOLDERS[folder], FAULTS[fault]
    stage = await set_small_stage(stages, path)
    before = await link_facts("nic0")
    assert before is not None
    pod = await start_pod(stage, "one")

    await run_in_thread("files", break_it, path)
    await stage.pods.stop_sandbox(pod)
    await checks.returned({"nic0": before})
    failed = False
    try:
        await stage.pods.unprepare(pod, stage.kubelet)
    except RemoteProtocolError:
        failed = True
    await run_in_thread("files", mend_it, path)
    if failed:
        await stage.pods.unprepare(pod, stage.kubelet)

    await checks.undone(stage, pod)
    await stage.pods.remove(pod)
    await start_pod(stage, "two")


@pytest.mark.slow
async def test_disk_that_hangs_holds_up_no_stop(stages: Stages, tmp_path: Path) -> None:
    """The word on a sick device is half written when the daemon is told to stop, and stays so."""
    hangs, hung, program = tmp_path / "hangs", tmp_path / "hung", tmp_path / "full-ok"
    (tmp_path / "sitecustomize.py").write_text(HANGING.format(hangs=str(hangs), hung=str(hung)))
    program.write_text(f"#!/bin/sh\ntest ! -e {hangs}\n")
    program.chmod(0o755)
    health = {"command": [str(program)], "interval_s": 1, "deadline_s": 5}
    group = {"name": "full", "match": {"path": "/dev/full"}, "health": health}
    environment = {"PYTHONPATH": str(tmp_path)}
    stage = await stages(0, config={"generic": [group]}, environment=environment, start=False)
    await stage.start()

    hangs.touch()
    await until(hung.exists)
    began = time.monotonic()
    await stage.stop()

    assert time.monotonic() - began < STOP_S
