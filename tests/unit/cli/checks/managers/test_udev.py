"""Whether managers are told at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth.cli.checks.managers.lent import lent
from berth.cli.checks.managers.udev import check_hotplug, check_marks
from tests.unit.cli.checks.managers.lentnics import LAN, MARKS, lending
from tests.unit.cli.checks.tree import told

RULE = {
    "/usr/lib/udev/rules.d/79-berth.rules": 'TEST=="/run/berth-nics/$id"\n',
    "/run/systemd/netif/links/1": "ADMIN_STATE=unmanaged\n",
}
MARKED = {f"{MARKS}/0000:41:00.0": "", f"{MARKS}/0000:41:00.1": ""}


def test_nics_that_managers_leave_alone(tmp_path: Path) -> None:
    """Those that are moved or bound: no uplink, no shared parent."""

    assert [nic.ifname for nic in lent(lending(tmp_path, {}))] == ["ens1f0", "ens1f1"]


def test_marks_that_are_there(tmp_path: Path) -> None:
    """Rule and marks are well together."""

    assert told(check_marks(lending(tmp_path, {**RULE, **MARKED}))) == [
        ("ok", "ens1f0 and ens1f1 marked in /run/berth-nics as lent")
    ]


@pytest.mark.parametrize("files", [{}, {**RULE, "/etc/udev/rules.d/79-berth.rules": ""}])
def test_rule_that_is_not_in_force(tmp_path: Path, files: dict[str, str]) -> None:
    """A rule that is missing, or that another file of its name hides, tells nobody."""

    files = {"/run/NetworkManager/": "", **MARKED, **files}
    (line,) = check_marks(lending(tmp_path, files))

    assert line.level.value == "warning"
    assert "a manager may configure ens1f0 and ens1f1 when it comes home" in line.text
    assert "udevadm control --reload" in line.mend


def test_marks_that_are_not_there(tmp_path: Path) -> None:
    """Before the daemon runs that is a note; while it runs it is worth a warning."""

    files = {**RULE, f"{MARKS}/0000:41:00.0": ""}
    before = lending(tmp_path / "a", files)
    during = lending(tmp_path / "b", files, status={"pid": 1})

    assert told(check_marks(before)) == [
        ("note", "ens1f1 not marked as lent yet: berthd does so while it runs")
    ]
    assert [level for level, _ in told(check_marks(during))] == ["warning"]


def test_folder_that_is_missing(tmp_path: Path) -> None:
    """Nothing is marked without it."""

    assert told(check_marks(lending(tmp_path, RULE))) == [
        ("warning", "/run/berth-nics is missing, so nothing is marked there")
    ]


def test_machine_without_managers_or_lent_nics(tmp_path: Path) -> None:
    """Nobody has to be told; the folder of a networkd that does not run is empty."""

    idle = {"/run/systemd/netif/links/": ""}
    assert told(check_marks(lending(tmp_path / "c", idle))) == []
    assert told(check_marks(lending(tmp_path / "a", MARKED))) == []
    assert told(check_marks(lending(tmp_path / "b", RULE, LAN))) == []


def test_hook_of_cloud_init(tmp_path: Path) -> None:
    """It is there only where somebody asked for it."""

    rule = "/etc/udev/rules.d/10-cloud-init-hook-hotplug.rules"
    (line,) = check_hotplug(lending(tmp_path / "a", {rule: 'SUBSYSTEM=="net", RUN+="x"\n'}))

    assert line.level.value == "warning"
    assert line.text.startswith(f"{rule}: cloud-init writes")
    assert told(check_hotplug(lending(tmp_path / "b", {}))) == []
