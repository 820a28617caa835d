"""``berth check`` as a whole, and what commands do without a daemon."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from berth.cli.checks import examination
from berth.cli.checks.examination import CHECKS
from berth.cli.checks.machine import Machine
from berth.config.schema import Config
from berth.errors import HostError
from berth.kube.sources import CredentialSettings
from berth.rehearsal import story
from berth.rehearsal.story import RehearsalOptions
from tests.unit.cli.checks.tree import plant
from tests.unit.cli.conftest import Berth, Serve, golden
from tests.unit.nic.machine import Machine as Host

FAULTS = """\
[nri]
timeout_s = -3
socke = "/x"

[[nic.group]]
name = "fast"
match = { pfName = "ens1f0", vendor = 8086 }
defaults = { interface = { mtu = 10 } }
"""
GROUPS = """\
[[nic.group]]
name = "fast"
match = { name = "ens1f0" }

[[nic.group]]
name = "slow"
match = { name = "nowhere0" }
health = { timeout_s = 40 }
"""
KUBECONFIG = """\
clusters: [{name: c, cluster: {server: "https://10.0.0.1:6443"}}]
users: [{name: u, user: {token: abc}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
"""
GOOD = {
    "/proc/self/status": "CapEff:\t000001ffffffffff\n",
    "/var/lib/berth/": "",
    "/var/lib/kubelet/": "",
    "/etc/cdi/": "",
    "/var/run/cdi/": "",
    "/etc/containerd/config.toml": "version = 3\n",
    "/kubeconfig": KUBECONFIG,
}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Where a configuration may be written."""
    return tmp_path / "agent.toml"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Puts a machine of files in the place of this one; gives its root."""
    root = tmp_path / "root"
    host = Host(tmp_path / "host")
    host.nic("eth0", "0000:01:00.0")
    host.nic("ens1f0", "0000:41:00.0")
    host.route("0.0.0.0/0", "eth0", via="192.0.2.1")
    scan = host.scan()

    def make(config: Config, *, runtime_dir: Path) -> Machine:
        return Machine(
            config=config,
            root=root,
            scan=scan,
            status=examination._status(runtime_dir),
            credentials=CredentialSettings(kubelet_kubeconfigs=(str(root / "kubeconfig"),)),
            host_name="worker-7",
            kernel="6.1.0",
        )

    monkeypatch.setattr(examination, "this_machine", make)
    return root


def steady(text: str, tmp_path: Path) -> str:
    """The text without the folder of this very run."""
    return text.replace(str(tmp_path), "TMP")


def test_check_when_the_file_has_faults(berth: Berth, config: Path, tmp_path: Path) -> None:
    """Case 19: every fault with file, line, key, rule and mend; the machine is left for later."""

    config.write_text(FAULTS, encoding="utf-8")
    ran = berth("check", "--config", config)

    assert ran.code == 2
    assert steady(ran.out, tmp_path) == golden("check-faults.txt", steady(ran.out, tmp_path))
    assert ran.err == "berth: the machine is looked at when these faults are mended\n"


def test_check_when_the_file_is_missing(berth: Berth, config: Path) -> None:
    """No file is a fault of the file."""

    ran = berth("check", "--config", config)

    assert ran.code == 2
    assert f"{config}: does not exist; create it; an empty file means the defaults" in ran.out


def test_check_when_the_machine_lacks_everything(
    berth: Berth, config: Path, machine: Path, tmp_path: Path
) -> None:
    """Each thing that is missing is a fault with its mend, and the command ends with 1."""

    config.write_text(GROUPS, encoding="utf-8")
    machine.mkdir()
    ran = berth("check", "--config", config)

    assert ran.code == 1
    assert steady(ran.out, tmp_path) == golden("check-bare.txt", steady(ran.out, tmp_path))


def test_check_when_all_is_well(
    berth: Berth, config: Path, machine: Path, tmp_path: Path, daemon: Serve
) -> None:
    """Warnings and notes do not make a machine bad."""

    config.write_text(GROUPS, encoding="utf-8")
    plant(machine, GOOD)
    nri = {"synchronized": True, "runtime": "containerd 2.4.2", "reason": "", "socket": "/s"}
    kubelet = {"registered": True, "state": "registered"}
    daemon({"status": {"nri": nri, "kubelet": kubelet, "pid": "self"}})
    ran = berth("check", "--config", config)

    assert ran.code == 0
    assert steady(ran.out, tmp_path) == golden("check-well.txt", steady(ran.out, tmp_path))


def test_check_for_programs(berth: Berth, config: Path, machine: Path) -> None:
    """JSON holds every line and every group."""

    config.write_text(GROUPS, encoding="utf-8")
    plant(machine, GOOD)
    ran = berth("check", "--config", config, "--json")
    document: dict[str, Any] = ran.json

    assert ran.code == 1
    assert (document["config"], document["faults"], document["warnings"]) == (str(config), 1, 1)
    keys = {"config", "refused", "faults", "warnings", "lines", "groups", "features"}
    assert {*document} == keys
    assert document["refused"] is False
    assert {*document["lines"][0]} == {"topic", "level", "text", "mend"}
    assert [line["text"] for line in document["lines"] if line["level"] == "fault"] == [
        "/var/run/nri/nri.sock: there is no socket"
    ]
    assert [group["nics"] for group in document["groups"]] == [1, 0]
    assert {each["state"] for each in document["features"]} == {"unknown"}


def test_check_of_this_machine(berth: Berth, config: Path) -> None:
    """On a real machine every check says something or nothing, and none fails."""

    config.write_text("", encoding="utf-8")
    ran = berth("check", "--config", config)

    assert ran.code in {0, 1}
    assert "NICs" in ran.out


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_each_check_on_an_empty_machine(check: Any, tmp_path: Path) -> None:
    """A machine without anything is an answer for every check."""

    empty = Machine(
        config=Config(),
        root=tmp_path,
        credentials=CredentialSettings(kubelet_kubeconfigs=()),
        scan_fault="x",
    )

    assert all(line.text for line in check(empty))


def test_machine_when_it_cannot_be_looked_at(
    berth: Berth, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel that refuses costs the checks of NICs alone."""

    def refuse(_: Config) -> None:
        raise HostError("netlink", "RTM_GETLINK: Operation not permitted")

    monkeypatch.setattr(examination, "scan_machine", refuse)
    config.write_text("", encoding="utf-8")
    ran = berth("check", "--config", config)

    assert "not looked at: netlink: RTM_GETLINK: Operation not permitted" in ran.out


def test_devices_without_a_daemon(berth: Berth, config: Path) -> None:
    """The command looks for itself, and says so."""

    config.write_text(GROUPS, encoding="utf-8")
    ran = berth("devices", "--config", config)

    assert ran.code == 0
    assert ran.err.startswith(
        f"berth: this is what berthd would find by {config}, without claims that are held\n"
    )
    assert 'group "slow" selects no NIC' in ran.err
    assert berth("devices", "--config", config, "--json").json["by"] == "scan"


def test_devices_without_daemon_and_configuration(berth: Berth) -> None:
    """A machine without a file yet is looked at by the defaults."""

    ran = berth("devices", "--config", "/nowhere/agent.toml")

    assert ran.code == 0
    assert ran.err == (
        "berth: this is what berthd would find by the defaults, since there is no "
        "/nowhere/agent.toml, without claims that are held\n"
    )
    assert "berthd is not running; this is what it would find by" in berth("devices").err


def test_devices_by_another_file_than_the_daemons(
    berth: Berth, config: Path, daemon: Serve
) -> None:
    """A file that is named is looked at, whatever the daemon that runs would say by its own."""

    daemon({"devices": {"devices": [], "warnings": []}})
    config.write_text(GROUPS, encoding="utf-8")

    assert berth("devices", "--json").json["by"] == "daemon"
    ran = berth("devices", "--config", config, "--json")
    assert ran.json["by"] == "scan"
    assert f"would find by {config}" in ran.err


def test_devices_without_daemon_when_the_file_has_faults(berth: Berth, config: Path) -> None:
    """Half a configuration is none."""

    config.write_text(FAULTS, encoding="utf-8")
    ran = berth("devices", "--config", config)

    assert (ran.code, ran.out) == (2, "")
    assert all(line.startswith(f"berth: {config}") for line in ran.err.splitlines())


def test_rehearse(berth: Berth, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rehearsal gets its files, and its exit code is the command's."""

    played: list[RehearsalOptions] = []

    def rehearse(options: RehearsalOptions) -> int:
        played.append(options)
        return 1

    monkeypatch.setattr(story, "rehearse", rehearse)

    assert berth("rehearse", "--claim", "c.yaml").code == 1
    assert played == [RehearsalOptions(config=None, claim=Path("c.yaml"))]
