"""Capabilities, and the state folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from berth.cli.checks.machine import Machine
from berth.cli.checks.rights import check_capabilities, check_state
from berth.config.schema import Config
from berth.runtime.lock import hold_lock
from tests.unit.cli.checks.tree import plant, told

ALL = "Name:\tx\nCapEff:\t000001ffffffffff\nCapBnd:\t0000000000000000\n"
NONE = "CapEff:\t0000000000000000\n"


def test_capabilities_of_the_running_daemon(tmp_path: Path) -> None:
    """The daemon's own process is looked at when there is one."""

    root = plant(tmp_path, {"/proc/42/status": ALL, "/proc/self/status": NONE})
    machine = Machine(config=Config(), root=root, status={"pid": 42}, user_id=1000)

    assert told(check_capabilities(machine)) == [("ok", "berthd runs as process 42")]


def test_capabilities_when_some_are_missing(tmp_path: Path) -> None:
    """What is missing is named, with where it is given."""

    text = f"CapEff:\t{1 << 12:016x}\n"
    machine = Machine(config=Config(), root=plant(tmp_path, {"/proc/self/status": text}))
    _, line = check_capabilities(machine)

    assert line.text == "what root starts here lacks CAP_NET_BROADCAST, CAP_NET_RAW, CAP_SYS_ADMIN"
    assert "CapabilityBoundingSet=" in line.mend


@pytest.mark.parametrize("text", [ALL, None, "nothing\n"])
def test_capabilities_when_there_is_nothing_to_say(tmp_path: Path, text: str | None) -> None:
    """Root with everything, and a machine that does not tell, are no faults."""

    files = {"/proc/self/status": text} if text else {}
    machine = Machine(config=Config(), root=plant(tmp_path, files))

    assert told(check_capabilities(machine)) == [("note", "berthd does not answer here")]


def test_capabilities_when_this_is_not_root(tmp_path: Path) -> None:
    """Another user's rights say nothing of the daemon's."""

    root = plant(tmp_path, {"/proc/self/status": NONE})

    assert told(check_capabilities(Machine(config=Config(), root=root, user_id=1000))) == [
        ("note", "berthd does not answer here"),
        ("note", "this is not root, and some of what is looked at only root can see"),
    ]


def test_state_when_it_is_not_there(tmp_path: Path) -> None:
    """The daemon makes its folder."""

    assert told(check_state(Machine(config=Config(), root=tmp_path))) == [
        ("note", "/var/lib/berth is not there yet; the daemon makes it")
    ]


def test_state_when_all_is_well(tmp_path: Path) -> None:
    """A folder that can be used, and a lock that nobody holds, are not worth a word."""

    root = plant(tmp_path, {"/var/lib/berth/lock": "7\n"})

    assert told(check_state(Machine(config=Config(), root=root))) == []


def test_state_when_another_process_holds_it(tmp_path: Path) -> None:
    """Case 3: a holder that does not answer is named by its pid; one that answers is the daemon."""

    machine = Machine(config=Config(), root=plant(tmp_path, {"/var/lib/berth/": ""}))
    with hold_lock(tmp_path / "var/lib/berth"):
        held = told(check_state(machine))
        answered = told(check_state(Machine(config=Config(), root=tmp_path, status={"pid": 1})))

    assert held == [
        ("fault", f"process {os.getpid()} holds /var/lib/berth/lock, and does not answer")
    ]
    assert answered == []


@pytest.mark.parametrize(
    ("flags", "blocks", "told_"),
    [
        (os.ST_RDONLY, 1 << 30, ("fault", "/var/lib/berth is on a read-only file system")),
        (
            0,
            100,
            ("warning", "/var/lib/berth has 400 KiB left: claims are refused when it is full"),
        ),
    ],
)
def test_state_when_it_cannot_be_written(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    flags: int,
    blocks: int,
    told_: tuple[str, str],
) -> None:
    """Case 7: a full or read-only disk is told before a claim meets it."""

    real = os.statvfs(tmp_path)
    fields = list(real)
    fields[0:2] = [4096, 4096]
    fields[4], fields[8] = blocks, flags
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result(fields))
    root = plant(tmp_path, {"/var/lib/berth/": ""})

    assert told(check_state(Machine(config=Config(), root=root))) == [told_]
