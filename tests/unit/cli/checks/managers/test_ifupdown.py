"""ifupdown and dhcpcd, which know nothing of marks."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth.cli.checks.managers.ifupdown import check_dhcpcd, check_ifupdown
from tests.unit.cli.checks.managers.lentnics import lending
from tests.unit.cli.checks.tree import told

MAIN = "/etc/network/interfaces"
INSTALLED = {"/usr/sbin/ifup": "", MAIN: "source /etc/network/interfaces.d/*\nauto lo\n"}
RUNS = {"/run/dhcpcd/pid": ""}


@pytest.mark.parametrize(
    ("path", "line", "said"),
    [
        (MAIN, "allow-hotplug ens1f0\n", "has ifupdown configure ens1f0 whenever it comes home"),
        (MAIN, "auto eth0 \\\n ens1f1\n", "has ifupdown configure ens1f1 at boot"),
        (MAIN, "allow-hotplug /ens*/\n", "configure ens1f0 and ens1f1 whenever it comes home"),
        ("/etc/network/interfaces.d/a", "auto ens1f0\n", "has ifupdown configure ens1f0 at boot"),
    ],
)
def test_line_that_brings_a_lent_nic_up(tmp_path: Path, path: str, line: str, said: str) -> None:
    """File and word are named, and the NIC among others of the line."""

    files = {**INSTALLED, path: INSTALLED[MAIN] * (path == MAIN) + line}
    (found,) = check_ifupdown(lending(tmp_path, files))

    assert found.level.value == "warning"
    assert found.text.startswith(f"{path}: {line.split(maxsplit=1)[0]} ")
    assert said in found.text
    assert "out of that line" in found.mend


def test_line_that_cloud_init_wrote(tmp_path: Path) -> None:
    """It would come again, so its maker is named."""

    files = {**INSTALLED, "/etc/network/interfaces.d/50-cloud-init": "auto ens1f0\n"}
    (found,) = check_ifupdown(lending(tmp_path, files))

    assert found.mend.startswith("cloud-init writes it anew")


@pytest.mark.parametrize(
    "files",
    [
        INSTALLED,
        {MAIN: "auto ens1f0\n"},
        {**INSTALLED, MAIN: "# auto ens1f0\niface ens1f0 inet dhcp\nauto eth0 ens2f0\n"},
        {**INSTALLED, MAIN: f"source {MAIN}\nsource-directory x\n"},
    ],
)
def test_lines_that_are_no_business_of_ours(tmp_path: Path, files: dict[str, str]) -> None:
    """Other links, remarks, a program that is not there; files that name themselves end."""

    assert told(check_ifupdown(lending(tmp_path, files))) == []


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("", "ens1f0 and ens1f1"),
        ("denyinterfaces ens1f0\n", "ens1f1"),
        ("denyinterfaces ens*\n", ""),
        ("allowinterfaces eth0 ens1f1\n", "ens1f1"),
        ("allowinterfaces eth0\n", ""),
    ],
)
def test_dhcpcd(tmp_path: Path, text: str, taken: str) -> None:
    """One that runs takes every link that it is not denied."""

    found = list(check_dhcpcd(lending(tmp_path, {**RUNS, "/etc/dhcpcd.conf": text})))

    assert [line.text for line in found] == (
        [f"dhcpcd runs, and /etc/dhcpcd.conf does not deny it {taken}"] if taken else []
    )
    assert all(line.mend.startswith("a line denyinterfaces ens1f") for line in found)


def test_dhcpcd_that_does_not_run(tmp_path: Path) -> None:
    """Nothing is said."""

    assert told(check_dhcpcd(lending(tmp_path, {}))) == []
