"""NetworkManager, as 1.52 was seen to behave."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth.cli.checks.managers.networkmanager import MAIN, check_networkmanager
from berth.cli.checks.programs import parse_states
from tests.unit.cli.checks.managers.lentnics import MARKS, lending
from tests.unit.cli.checks.tree import told

RUNS = {"/run/NetworkManager/": "", MAIN: "[main]\nplugins=ifupdown,keyfile\n"}
STATES = "eth0:connected\nens1f0:unmanaged\nens1f1:unmanaged\nlo:connected (externally)\n"
STRONG = "/etc/NetworkManager/conf.d/strong.conf"


def test_states_by_its_own_program() -> None:
    """A colon in a name stands behind a backslash, one in a state does not come."""

    assert parse_states("a\\:b:unmanaged\n" + STATES.splitlines()[3]) == {
        "a:b": "unmanaged",
        "lo": "connected (externally)",
    }


def test_manager_that_leaves_nics_alone(tmp_path: Path) -> None:
    """By its own word; what somebody else has set up it only looks at."""

    left = [("ok", "NetworkManager leaves ens1f0 and ens1f1 alone")]
    seen = STATES.replace("ens1f1:unmanaged", "ens1f1:connected (externally)")
    for number, states in enumerate((STATES, seen)):
        machine = lending(tmp_path / str(number), RUNS, network_manager=parse_states(states))
        assert told(check_networkmanager(machine)) == left


def test_manager_that_does_not_run(tmp_path: Path) -> None:
    """Its files are nobody's then."""

    files = {STRONG: "[device]\nmanaged=1\n"}

    assert told(check_networkmanager(lending(tmp_path, files))) == []


@pytest.mark.parametrize("marked", [True, False])
def test_manager_that_had_a_nic_before(tmp_path: Path, marked: bool) -> None:
    """A mark does not make it let go: it has to be told."""

    files = {**RUNS, f"{MARKS}/0000:41:00.0": ""} if marked else RUNS
    states = {"ens1f0": "connecting (getting IP configuration)", "ens1f1": "unmanaged"}
    (line,) = check_networkmanager(lending(tmp_path, files, network_manager=states))

    assert line.level.value == "warning"
    assert line.text.startswith("NetworkManager has ens1f0 (connecting (getting IP configuration))")
    assert line.mend == "nmcli device set ens1f0 managed no"


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("[device]\nmanaged=1\n", ["ens1f0", "ens1f1"]),
        ("[device-a]\nmatch-device=interface-name:ens1f0\nmanaged=true\n", ["ens1f0"]),
        ("[device-a]\nmatch-device=*,except:interface-name:ens1f0\nmanaged=yes\n", ["ens1f1"]),
        ("[device-a]\nmatch-device=except:driver:mlx5_core\nmanaged=1\n", []),
        ("[device-a]\nmatch-device=driver:mlx5_core;mac:02:00:00:00:00:99\nmanaged=1\n", None),
        ("[device-a]\nmatch-device=type:wifi\nmanaged=1\n", []),
        ("[device-a]\nmatch-device=ens1f1\nmanaged=1\n", ["ens1f1"]),
        ("[device-a]\nmanaged=0\n", []),
        ("[connection]\nmanaged=1\n", []),
    ],
)
def test_setting_that_goes_over_the_mark(
    tmp_path: Path, text: str, taken: list[str] | None
) -> None:
    """File, section and key are named for each NIC that it takes."""

    machine = lending(tmp_path, {**RUNS, STRONG: text}, network_manager=parse_states(STATES))
    found = [line for line in check_networkmanager(machine) if line.level.value == "warning"]
    names = [line.text.split("configures ")[1].split()[0] for line in found]

    assert names == (["ens1f0", "ens1f1"] if taken is None else taken)
    assert all(line.text.startswith(f"{STRONG}: [device") for line in found)
    assert all("except:interface-name:" in line.mend for line in found)


def test_setting_that_another_file_of_its_name_hides(tmp_path: Path) -> None:
    """The folder of the administrator goes over that of the package."""

    files = {
        **RUNS,
        "/usr/lib/NetworkManager/conf.d/strong.conf": "[device]\nmanaged=1\n",
        STRONG: "",
    }
    machine = lending(tmp_path, files, network_manager=parse_states(STATES))

    assert [level for level, _ in told(check_networkmanager(machine))] == ["ok"]


@pytest.mark.parametrize(
    ("path", "mend"),
    [
        ("/etc/NetworkManager/system-connections/fast.nmconnection", "nmcli connection reload"),
        (
            "/run/NetworkManager/system-connections/netplan-ens1f0.nmconnection",
            "netplan writes it anew",
        ),
        (
            "/etc/NetworkManager/system-connections/cloud-init-ens1f0.nmconnection",
            "cloud-init writes it anew",
        ),
    ],
)
def test_profile_that_was_written_for_a_lent_nic(tmp_path: Path, path: str, mend: str) -> None:
    """It has no effect any more."""

    text = "[connection]\nid=fast\ninterface-name=ens1f0\n"
    machine = lending(tmp_path, {**RUNS, path: text}, network_manager=parse_states(STATES))
    line = list(check_networkmanager(machine))[-1]

    assert line.level.value == "note"
    assert line.text.startswith(f"{path} is a profile for ens1f0")
    assert mend in line.mend
