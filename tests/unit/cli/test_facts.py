"""Facts of a machine as a file, with and without its hardware addresses."""

from __future__ import annotations

import json
import stat
from ipaddress import ip_address
from pathlib import Path

import pytest

from berth.cli.factfile import facts_text, read_facts, save_facts
from berth.cli.looking import scan_machine
from berth.config.schema import Config
from berth.errors import ConfigError, HostError
from berth.host.netlink.neighbor import Neighbor
from berth.host.scan import HostScan
from tests.unit.cli.conftest import Berth
from tests.unit.nic.machine import Machine as Host

MAC = "52:54:00:aa:bb:cc"
LINK_LOCAL = "fe80::5054:ff:feaa:bbcc"


@pytest.fixture
def scan(tmp_path: Path) -> HostScan:
    """A machine whose hardware address shows in several places."""
    host = Host(tmp_path / "host")
    host.nic("ens1f0", "0000:41:00.0", mac=MAC)
    host.link("bond0", mac=MAC, kind="bond")
    host.link("other", mac="52:54:00:aa:bb:cd", kind="veth")
    host.address("ens1f0", f"{LINK_LOCAL}/64")
    host.address("ens1f0", "192.0.2.7/24")
    host.address("ens1f0", "fd00::7/64")
    host.neighbors.append(Neighbor(index=2, ip=ip_address("192.0.2.1"), mac=MAC))
    return host.scan()


def test_facts_come_back(scan: HostScan, tmp_path: Path) -> None:
    """What is saved is read as it was, by its owner alone."""

    path = tmp_path / "facts.json"
    save_facts(path, facts_text(scan))

    assert read_facts(path) == scan
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_facts_when_addresses_are_hashed(scan: HostScan, tmp_path: Path) -> None:
    """Hardware addresses are others, equal where they were equal, wherever they show."""

    path = tmp_path / "facts.json"
    text = facts_text(scan, hash_macs=True)
    save_facts(path, text)
    seen = read_facts(path)
    lo, nic, bond, other = seen.links

    assert MAC not in text
    assert "aa:bbcc" not in text
    assert nic.mac == nic.perm_mac == bond.mac == seen.neighbors[0].mac
    assert len({lo.mac, nic.mac, other.mac}) == 3
    assert nic.mac.startswith("02:")
    octets = nic.mac.split(":")
    assert seen.addresses[0].ip.ip == ip_address(
        f"fe80::{octets[1]}:{octets[2]}ff:fe{octets[3]}:{octets[4]}{octets[5]}"
    )
    assert [str(a.ip) for a in seen.addresses[1:]] == ["192.0.2.7/24", "fd00::7/64"]
    assert seen.functions == scan.functions


def test_facts_are_hashed_anew_each_time(scan: HostScan) -> None:
    """Two files cannot be compared, and no table of all addresses helps."""

    one, other = (json.loads(facts_text(scan, hash_macs=True)) for _ in range(2))

    assert one["scan"]["links"][1]["mac"] != other["scan"]["links"][1]["mac"]
    assert one["hashed"] is True


def test_hash_keeps_what_is_nobodys(tmp_path: Path) -> None:
    """The zero and the broadcast address stay, and InfiniBand's long ones keep their length."""

    host = Host(tmp_path)
    host.link("a", mac="00:00:00:00:00:00", broadcast="ff:ff:ff:ff:ff:ff")
    host.link("b", mac=":".join(["80"] + ["01"] * 19))
    links = json.loads(facts_text(host.scan(), hash_macs=True))["scan"]["links"]

    assert (links[1]["mac"], links[1]["broadcast"]) == ("00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff")
    assert links[2]["mac"].count(":") == 19
    assert not links[2]["mac"].startswith("80")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "is no JSON"),
        ("[" * 100_000, "is no JSON"),
        ("[]", "has schema None"),
        ('{"schema": 2}', "has schema 2"),
        ('{"schema": true}', "has schema True"),
        ('{"schema": 1}', "scan: is no object"),
        ('{"schema": 1, "scan": {}}', "scan.boot_id: is missing"),
        ('{"schema": 1, "scan": {"boot_id": "x", "links": [{}]}}', "scan.links[0]"),
    ],
)
def test_facts_that_are_none(tmp_path: Path, text: str, found: str) -> None:
    """A file that is none is refused with the place, and how to make one."""

    path = tmp_path / "facts.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read_facts(path)

    assert found in str(caught.value)
    assert "berth facts --save" in str(caught.value)


def test_facts_that_are_not_there(tmp_path: Path) -> None:
    """A missing file is told by its path."""

    with pytest.raises(ConfigError, match="nowhere: cannot be read: No such file"):
        read_facts(tmp_path / "nowhere")


def test_facts_that_cannot_be_written(tmp_path: Path) -> None:
    """A folder that is not there is told."""

    with pytest.raises(HostError, match="No such file or directory"):
        save_facts(tmp_path / "nowhere" / "facts.json", "{}")


def test_command_saves_this_machine(berth: Berth, tmp_path: Path) -> None:
    """The command writes what it sees here, to a file or to its output."""

    path = tmp_path / "facts.json"
    ran = berth("facts", "--save", path, "--config", "/nowhere")
    links = scan_machine(Config()).links

    assert (ran.code, ran.out) == (0, "")
    assert ran.err.startswith(
        f"berth: looked at by the defaults, since there is no /nowhere\nberth: {len(links)} links, "
    )
    assert [link.name for link in read_facts(path).links] == [link.name for link in links]
    assert berth("facts", "--config", "/nowhere").json["schema"] == 1
