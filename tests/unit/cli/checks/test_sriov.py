"""Virtual functions: how many there are, how many are named, and who makes them at boot."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth.cli.checks.machine import Machine
from berth.cli.checks.sriov import check_functions
from berth.config.match import PfPattern
from berth.config.nic import NicTable
from berth.config.nicgroup import NicGroup
from berth.config.schema import Config
from tests.unit.cli.checks.tree import plant, told
from tests.unit.nic.machine import Machine as Host
from tests.unit.nic.machine import group

PF = "0000:41:00.0"
FILE = f"/sys/bus/pci/devices/{PF}/sriov_numvfs"


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """A machine with a PF of 8 VFs, two of which are there, and one that nobody takes."""
    host = Host(tmp_path / "host")
    host.tree.function(PF, total_vfs=8)
    host.tree.function("0000:42:00.0", total_vfs=8)
    host.nic("ens1f0", PF)
    host.vf("ens1f0v0", "0000:41:10.0", pf=PF, number=0)
    host.vf("ens1f0v1", "0000:41:10.2", pf=PF, number=1)
    return host


def machine_of(host: Host, files: dict[str, str], root: Path, *groups: NicGroup) -> Machine:
    """The machine with files and groups."""
    config = Config(nic=NicTable(groups=groups))
    return Machine(config=config, scan=host.scan(), root=plant(root, files))


def vfs(called: str, *ranges: tuple[int, int], pf: str = "ens1f0") -> NicGroup:
    """A group of VFs of the PF."""
    return group(called, pf=(PfPattern(pf, ranges),))


def test_functions_that_nobody_makes_at_boot(host: Host, tmp_path: Path) -> None:
    """They are lost at the next boot, and the line that keeps them is spelled out."""

    (line,) = check_functions(machine_of(host, {}, tmp_path / "root", vfs("fast")))

    assert line.level.value == "warning"
    assert line.text.startswith(f"ens1f0 ({PF}) has 2 of 8 VFs, and no file was found")
    assert line.mend == f"a line `w {FILE} - - - - 2` in /etc/tmpfiles.d/sriov.conf"


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("/etc/tmpfiles.d/sriov.conf", f"w {FILE} - - - - 2\n"),
        ("/etc/systemd/network/10-pf.link", "[Link]\nSR-IOVVirtualFunctions=2\n"),
        ("/etc/systemd/network/10-pf.link.d/vfs.conf", "[Link]\nSR-IOVVirtualFunctions=2\n"),
        ("/etc/udev/rules.d/70-sriov.rules", 'ACTION=="add", ATTR{device/sriov_numvfs}="2"\n'),
        ("/etc/netplan/60-vfs.yaml", "      virtual-function-count: 2\n"),
        ("/etc/NetworkManager/system-connections/pf.nmconnection", "[sriov]\ntotal-vfs=2\n"),
        ("/etc/network/interfaces", f"  pre-up echo 2 > {FILE}\n"),
        ("/etc/modprobe.d/ixgbe.conf", "options ixgbe max_vfs=2\n"),
    ],
)
def test_functions_that_somebody_makes_at_boot(
    host: Host, tmp_path: Path, file: str, text: str
) -> None:
    """Each of the usual places is looked into, and named."""

    machine = machine_of(host, {file: text}, tmp_path / "root", vfs("fast"))

    assert told(check_functions(machine)) == [
        ("ok", f"ens1f0 ({PF}) has 2 of 8 VFs, made at boot by {file}")
    ]


def test_line_that_is_switched_off_makes_none(host: Host, tmp_path: Path) -> None:
    """A remark is no setting."""

    files = {"/etc/rc.local": f"# echo 2 > {FILE}\n"}

    levels = told(check_functions(machine_of(host, files, tmp_path / "root", vfs("fast"))))
    assert [level for level, _ in levels] == ["warning"]


@pytest.mark.parametrize("pf", ["ens1f0", PF])
def test_group_that_names_more_than_there_are(host: Host, tmp_path: Path, pf: str) -> None:
    """The numbers of all groups count together, and the mend says what the kernel asks for."""

    groups = (vfs("fast", (0, 3), pf=pf), vfs("slow", (4, 5), pf=pf))
    first, _ = check_functions(machine_of(host, {}, tmp_path / "root", *groups))

    assert first.text == (
        f'group "fast", "slow" names VFs up to number 5 of ens1f0 ({PF}), which has 2 of 8'
    )
    assert first.mend == f"echo 0 > {FILE}, while no pod has one; echo 6 > {FILE}"


def test_group_that_names_more_than_can_be(host: Host, tmp_path: Path) -> None:
    """No number written to the PF mends that."""

    first, _ = check_functions(machine_of(host, {}, tmp_path / "root", vfs("fast", (0, 15))))

    assert first.text.endswith("which can have 8")
    assert "firmware" in first.mend


def test_functions_that_a_group_takes_by_other_conditions(host: Host, tmp_path: Path) -> None:
    """A group that takes them by their driver depends on them as well."""

    machine = machine_of(host, {}, tmp_path / "root", group("fast", driver=("iavf",)))

    assert [level for level, _ in told(check_functions(machine))] == ["warning"]


def test_functions_of_others_are_no_business_of_ours(host: Host, tmp_path: Path) -> None:
    """A PF that no group takes VFs of is not told."""

    machine = machine_of(host, {}, tmp_path / "root", group("lan", name=("eth9",)))

    assert told(check_functions(machine)) == []
    assert told(check_functions(Machine(config=Config()))) == []
