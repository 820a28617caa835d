"""Kubelet's root, what kubelet says, and systemd's sockets."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth.cli.checks.kubelet import (
    check_registration,
    check_root,
    check_units,
    kubelet_root,
    listened,
)
from berth.cli.checks.machine import Machine
from berth.config.schema import Config, DraTable, KubeletTable
from tests.unit.cli.checks.tree import plant, told

ELSEWHERE = Config(kubelet=KubeletTable(root=Path("/data/kubelet")))
UNIT = """\
[Socket]
ListenStream=/var/lib/kubelet/plugins/berth.dev/dra.sock
ListenStream = /var/lib/kubelet/plugins_registry/berth.dev-reg.sock
"""


def test_root_when_it_is_there(tmp_path: Path) -> None:
    """A root that is there, with no kubelet to contradict, is well."""

    machine = Machine(config=Config(), root=plant(tmp_path, {"/var/lib/kubelet/": ""}))

    assert told(check_root(machine)) == [("ok", "root directory /var/lib/kubelet")]


def test_root_when_it_is_missing(tmp_path: Path) -> None:
    """Case 2: a missing root is named with its setting, and not made."""

    lines = list(check_root(Machine(config=ELSEWHERE, root=tmp_path)))

    assert told(lines) == [
        (
            "fault",
            "[kubelet] root is /data/kubelet: there is no such directory; it is never made here",
        )
    ]
    assert lines[0].mend == "install kubelet, or write what its --root-dir says"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        "/usr/bin/kubelet\0--v=2\0--root-dir=/data/kubelet\0",
        "kubelet\0--root-dir\0/data/kubelet\0",
    ],
)
def test_root_when_kubelet_has_another(tmp_path: Path, words: str) -> None:
    """What the running kubelet was told counts, in either notation."""

    files = {"/proc/77/cmdline": words, "/proc/8/cmdline": "", "/var/lib/kubelet/": ""}
    machine = Machine(config=Config(), root=plant(tmp_path, files))
    (line,) = check_root(machine)

    assert line.text == (
        "kubelet runs with --root-dir /data/kubelet, [kubelet] root is /var/lib/kubelet"
    )
    assert line.mend == 'write [kubelet] root = "/data/kubelet"'


@pytest.mark.parametrize(
    "words",
    [
        "kubelet\0--v=2\0",
        "kubelet\0--root-dir\0",
        "kubelet\0--root-dir=data\0",
        "vi\0kubelet\0--root-dir=/data\0",
        "",
    ],
)
def test_root_when_no_kubelet_says_one(tmp_path: Path, words: str) -> None:
    """Another program's words, and half a word, count for nothing."""

    machine = Machine(config=Config(), root=plant(tmp_path, {"/proc/77/cmdline": words}))

    assert kubelet_root(machine) is None


@pytest.mark.parametrize(
    ("registered", "level"),
    [(True, "ok"), (False, "fault")],
)
def test_registration_by_the_daemons_word(registered: bool, level: str) -> None:
    """What the daemon knows of kubelet is told."""

    status = {"kubelet": {"registered": registered, "state": "words"}}

    assert told(check_registration(Machine(config=Config(), status=status))) == [(level, "words")]


@pytest.mark.parametrize("status", [None, {}, {"kubelet": None}])
def test_registration_when_nobody_knows(status: dict[str, None] | None) -> None:
    """Without a daemon, or without its DRA door, nothing is told."""

    assert told(check_registration(Machine(config=Config(), status=status))) == []


def test_units_when_they_fit(tmp_path: Path) -> None:
    """Sockets that fit are well; how to stop the daemon is worth a note in any case."""

    files = {"/usr/lib/systemd/system/berthd.socket": UNIT}
    (line,) = check_units(Machine(config=Config(), root=plant(tmp_path, files)))

    assert line.level.value == "note"
    assert "systemctl stop berthd.socket berthd" in line.text


@pytest.mark.parametrize("config", [ELSEWHERE, Config(dra=DraTable(driver="nic.example.org"))])
def test_units_when_they_keep_other_sockets(tmp_path: Path, config: Config) -> None:
    """A root or driver of the operator's needs a drop-in, which is spelled out."""

    files = {"/usr/lib/systemd/system/berthd.socket": UNIT}
    first, _ = check_units(Machine(config=config, root=plant(tmp_path, files)))
    wanted = config.kubelet.root / "plugins" / config.dra.driver / "dra.sock"

    assert first.level.value == "warning"
    assert f"does not keep {wanted} and " in first.text
    assert f"then ListenStream={wanted} and ListenStream=" in first.mend


def test_units_when_a_dropin_replaces_them(tmp_path: Path) -> None:
    """An empty assignment empties the list, as systemd does; /etc goes over /usr/lib."""

    files = {
        "/usr/lib/systemd/system/berthd.socket": UNIT,
        "/usr/lib/systemd/system/berthd.socket.d/a.conf": "[Socket]\nListenStream=/never\n",
        "/etc/systemd/system/berthd.socket.d/a.conf": "[Socket]\nListenStream=\n"
        "ListenStream=/data/kubelet/plugins/berth.dev/dra.sock\n"
        "ListenStream=/data/kubelet/plugins_registry/berth.dev-reg.sock\n",
    }
    machine = Machine(config=ELSEWHERE, root=plant(tmp_path, files))

    assert {*(listened(machine) or ())} == {
        Path("/data/kubelet/plugins/berth.dev/dra.sock"),
        Path("/data/kubelet/plugins_registry/berth.dev-reg.sock"),
    }
    assert [line.level.value for line in check_units(machine)] == ["note"]


def test_units_when_none_is_installed(tmp_path: Path) -> None:
    """Without systemd's unit there is nothing to say."""

    assert told(check_units(Machine(config=Config(), root=tmp_path))) == []
