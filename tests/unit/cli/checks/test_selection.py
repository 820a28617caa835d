"""What groups select."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth.cli.checks.machine import Machine
from berth.cli.checks.selection import check_selection, check_shared, groups_summary
from berth.config.nic import NicTable
from berth.config.nicgroup import NicGroup
from berth.config.schema import Config
from berth.model.device import NicMode
from tests.unit.cli.checks.tree import told
from tests.unit.nic.machine import Machine as Host
from tests.unit.nic.machine import group


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """A machine with an uplink and two more NICs."""
    host = Host(tmp_path / "host")
    host.nic("eth0", "0000:01:00.0")
    host.nic("ens1f0", "0000:41:00.0")
    host.nic("ens1f1", "0000:41:00.1")
    host.route("0.0.0.0/0", "eth0", via="192.0.2.1")
    return host


def machine_of(host: Host, *groups: NicGroup, root: Path = Path("/nowhere")) -> Machine:
    """The machine with groups for it."""
    config = Config(nic=NicTable(groups=groups))
    return Machine(config=config, scan=host.scan(), root=root, kernel="6.1.0")


def test_selection_of_each_group(host: Host) -> None:
    """Each group says how many NICs it takes, and what is not offered of them."""

    machine = machine_of(
        host,
        group("fast", name=("ens1f0", "ens1f1")),
        group("all-up", name=("eth0",)),
        group("none", name=("ens9",)),
    )

    assert told(check_selection(machine)) == [
        ("ok", '[[nic.group]] 1 "fast" selects 2 NICs, 2 to offer'),
        ("warning", '[[nic.group]] 2 "all-up" selects 1 NIC, 0 to offer; not offered: 1 uplink'),
        (
            "warning",
            'group "none" selects no NIC: nothing here meets { name = ["ens9"] }',
        ),
    ]
    assert groups_summary(machine) == [
        {"name": "fast", "mode": "exclusive", "nics": 2, "offered": 2, "excluded": {}},
        {
            "name": "all-up",
            "mode": "exclusive",
            "nics": 1,
            "offered": 0,
            "excluded": {"uplink": 1},
        },
        {"name": "none", "mode": "exclusive", "nics": 0, "offered": 0, "excluded": {}},
    ]


def test_selection_when_two_groups_take_one_nic(host: Host) -> None:
    """Groups that overlap on this machine are a fault that names both."""

    machine = machine_of(
        host, group("one", name=("ens1f0",)), group("two", pci=(), driver=("mlx5_core", ""))
    )
    faults = [text for level, text in told(check_selection(machine)) if level == "fault"]

    assert all('"one"' in text and '"two"' in text for text in faults)
    assert len(faults) == 1


def test_selection_without_groups(host: Host) -> None:
    """A file without groups is a note: it is how one begins."""

    assert told(check_selection(machine_of(host))) == [
        ("note", "3 NICs, and no [[nic.group]]: none is offered")
    ]


def test_selection_when_an_uplink_is_let_go(host: Host) -> None:
    """An override is told each time."""

    config = Config(
        nic=NicTable(
            groups=(group("up", name=("eth0",), take_configured=True),),
            uplink_ok=("pci:0000:01:00.0",),
        )
    )
    lines = told(check_selection(Machine(config=config, scan=host.scan())))

    assert ("ok", '[[nic.group]] 1 "up" selects 1 NIC, 1 to offer') in lines
    assert [level for level, text in lines if "uplink_ok" in text] == ["warning"]


def test_selection_when_nics_are_in_pods(host: Host) -> None:
    """What is in pods is not seen by this look, and is said to be missing."""

    status = {"claims": {"nics_away": 2}}
    machine = Machine(config=Config(), scan=host.scan(), status=status)

    assert ("note", "2 NICs away in pods, which are not seen here") in told(
        check_selection(machine)
    )


def test_selection_when_the_machine_could_not_be_read() -> None:
    """What was not looked at is said not to be."""

    machine = Machine(config=Config(), scan_fault="RTM_GETLINK: Operation not permitted")

    assert told(check_selection(machine)) == [
        ("warning", "not looked at: RTM_GETLINK: Operation not permitted")
    ]
    assert groups_summary(machine) == []


def test_shared_parents_are_left_where_they_are(host: Host) -> None:
    """The host keeps them, and must not rename them or set them down."""

    shared = group("lan", name=("ens1f0",), mode=NicMode.SHARED)

    assert [level for level, _ in told(check_shared(machine_of(host, shared)))] == ["note"]
    assert told(check_shared(machine_of(host, group("fast", name=("ens1f0",))))) == []
