"""systemd-networkd; its words of links as 257 writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth.cli.checks.managers.linkfiles import check_link_files
from berth.cli.checks.managers.matching import conditions, may_match, names_one
from berth.cli.checks.managers.networkd import check_networkd, systemd_version
from berth.model.device import Nic, NicKind
from tests.unit.cli.checks.managers.lentnics import MARKS, lending
from tests.unit.cli.checks.tree import told

CONFIGURED = """\
# This is private data. Do not parse.
ADMIN_STATE=configured
OPER_STATE=routable
NETWORK_FILE=/etc/systemd/network/50-all.network
"""
LEFT = CONFIGURED.replace("configured", "unmanaged", 1)
ETC = "/etc/systemd/network"
OWN = {"/usr/lib/systemd/network/05-berth.network": "[Match]\nProperty=BERTH_MANAGED=1\n"}
OLD = {**OWN, "/usr/lib/x86_64-linux-gnu/systemd/libsystemd-shared-252.so": ""}
NEW = {**OWN, "/usr/lib/x86_64-linux-gnu/systemd/libsystemd-shared-257.so": ""}
LEAVES = ("ok", "systemd-networkd leaves ens1f0 and ens1f1 alone")
NIC = Nic(
    identity="pci:0000:41:00.0",
    name="nic-0000-41-00-0",
    kind=NicKind.PF,
    ifname="ens1f0",
    pci="0000:41:00.0",
    driver="mlx5_core",
    mac="02:00:00:00:00:07",
)


def test_networkd_that_leaves_nics_alone(tmp_path: Path) -> None:
    """One that it was told of, and one that it does not know yet."""

    files = {**NEW, "/run/systemd/netif/links/INDEX": LEFT, f"{ETC}/50-all.network": ""}

    assert told(check_networkd(lending(tmp_path, files))) == [LEAVES]


def test_networkd_that_has_a_nic(tmp_path: Path) -> None:
    """By its own word: a note before the NIC is marked, a warning afterwards."""

    files = {**NEW, "/run/systemd/netif/links/INDEX": CONFIGURED}
    text = f"systemd-networkd has ens1f0 by {ETC}/50-all.network (configured)"
    marked = {**files, f"{MARKS}/0000:41:00.0": ""}
    (line,) = check_networkd(lending(tmp_path / "b", marked))

    assert told(check_networkd(lending(tmp_path / "a", files))) == [
        ("note", f"{text}, until it is marked")
    ]
    assert (line.level.value, line.text) == ("warning", f"{text}, although it is marked")
    assert line.mend == "networkctl reload; networkctl reconfigure ens1f0"


def test_networkd_that_does_not_run(tmp_path: Path) -> None:
    """Its files are nobody's then."""

    assert told(check_networkd(lending(tmp_path, {f"{ETC}/00-a.network": ""}))) == []


@pytest.mark.parametrize(
    ("files", "lines"),
    [
        (OLD, 1),
        (NEW, 0),
        (OWN, 1),
    ],
)
def test_file_that_is_read_before_ours(tmp_path: Path, files: dict[str, str], lines: int) -> None:
    """Before 256 the first file counts, so one with a lower name takes the NIC."""

    first = {f"{ETC}/00-all.network": "[Match]\nName=ens*\n[Network]\nDHCP=yes\n"}
    links = {"/run/systemd/netif/links/1": LEFT}
    found = list(check_networkd(lending(tmp_path, {**files, **first, **links})))[1:]

    assert [line.text for line in found] == [
        (
            f"{ETC}/00-all.network: [Match] Name=ens* takes ens1f0 and ens1f1 before "
            "05-berth.network is read"
        )
    ] * lines


@pytest.mark.parametrize("own", [{}, {f"{ETC}/05-berth.network": ""}])
def test_own_file_that_is_not_in_force(tmp_path: Path, own: dict[str, str]) -> None:
    """Missing, or hidden by an empty one of its name."""

    files = {**OLD, **own, "/run/systemd/netif/links/1": LEFT}
    if not own:
        del files["/usr/lib/systemd/network/05-berth.network"]
    found = told(check_networkd(lending(tmp_path, files)))[1:]

    assert found == [
        (
            "warning",
            (
                "05-berth.network is not in force, and systemd 252 needs it to leave marked NICs "
                "alone"
            ),
        )
    ]


@pytest.mark.parametrize(
    ("path", "mend"),
    [
        (f"{ETC}/20-fast.network", f"remove {ETC}/20-fast.network, then networkctl reload"),
        ("/run/systemd/network/10-netplan-ens1f0.network", "netplan writes it anew"),
        (f"{ETC}/10-cloud-init-ens1f0.network", "cloud-init writes it anew"),
    ],
)
def test_file_that_was_written_for_a_lent_nic(tmp_path: Path, path: str, mend: str) -> None:
    """It has no effect any more, and its maker is named."""

    files = {**NEW, path: "[Match]\nName=ens1f0\n", "/run/systemd/netif/links/1": LEFT}
    line = list(check_networkd(lending(tmp_path, files)))[-1]

    assert line.level.value == "note"
    assert line.text.startswith(f"{path}: [Match] Name=ens1f0 configures ens1f0, which berth")
    assert mend in line.mend


def test_version_of_systemd(tmp_path: Path) -> None:
    """Debian's folder and Fedora's; a release of a distribution behind it is no part of it."""

    other = {"/usr/lib/systemd/libsystemd-shared-255.4-1.fc40.so": ""}

    assert systemd_version(lending(tmp_path / "a", OLD)) == 252
    assert systemd_version(lending(tmp_path / "b", other)) == 255
    assert systemd_version(lending(tmp_path / "c", {})) is None


@pytest.mark.parametrize(
    ("text", "fits", "own"),
    [
        ("", True, False),
        ("Name=ens1f0", True, True),
        ("Name=eth* ens*", True, False),
        ("Name=!ens*", False, False),
        ("Name=!eth0 eth1", True, False),
        ("OriginalName=*", True, False),
        ("Driver=igb", False, False),
        ("MACAddress=02-00-00-00-00-07", True, False),
        ("PermanentMACAddress=02:00:00:00:00:07", True, True),
        ("Path=pci-0000:41:*", True, False),
        ("Path=pci-0000:42:*", False, False),
        ("Name=ens1f0 \nDriver=igb", False, True),
        ("Type=ether\nVirtualization=no", True, False),
    ],
)
def test_conditions(text: str, fits: bool, own: bool) -> None:
    """All keys must hold, the words of one are alternatives, ``!`` turns a key round."""

    lines = [line.split("=", 1) for line in text.splitlines()]
    found = conditions(("Match", key, value) for key, value in lines)

    assert (may_match(found, NIC), names_one(found, NIC)) == (fits, own)


def test_link_file_that_sets_what_berth_restores(tmp_path: Path) -> None:
    """The first one that fits counts, and only what it sets of our matters is told."""

    files = {
        f"{ETC}/10-fast.link": "[Match]\nOriginalName=*f0\n[Link]\nName=ens1f0\nMTUBytes=9000\n",
        f"{ETC}/20-all.link": "[Match]\nOriginalName=*\n[Link]\nWakeOnLan=off\n",
        "/usr/lib/systemd/network/99-default.link": "[Match]\nOriginalName=*\n[Link]\nMTUBytes=1\n",
    }

    assert told(check_link_files(lending(tmp_path, files))) == [
        (
            "note",
            (
                f"{ETC}/10-fast.link: [Link] Name=ens1f0 MTUBytes=9000 is set again by udev "
                "whenever ens1f0 comes home, as berth does"
            ),
        )
    ]
