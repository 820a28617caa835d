"""Commands that ask the daemon: what they print, and how they end."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import attrs
import pytest

from berth.errors import ConfigError, Faults, HostError
from berth.model.claim import ClaimRef
from berth.nic.record import Stage
from berth.node.ledger import Hold
from berth.node.views import (
    Kubelet,
    Status,
    Trouble,
    devices_view,
    holds_view,
    status_view,
    why_view,
)
from berth.runtime.supervisor import Phase, PluginStatus, SupervisorStatistics
from tests.unit.cli.conftest import Berth, Serve, golden
from tests.unit.node.views.illness import HEALTH
from tests.unit.node.views.scenes import (
    DISCONNECTED,
    INVENTORY,
    POD,
    NodeName,
    Publication,
    claim_record,
    nic_record,
)
from tests.unit.node.views.test_views import WELL
from tests.unit.node.views.test_why import known

ILL = attrs.evolve(
    WELL,
    plugins=SupervisorStatistics(
        plugins=(
            PluginStatus(name="nri", phase=Phase.SERVING, failures=2),
            PluginStatus(name="dra", phase=Phase.RESTING, reason="oops", failures=1, retry_s=1.0),
        )
    ),
    node=NodeName(name="", source="", conflict="[node] name is 'a', the credentials say 'b'"),
    nri=DISCONNECTED,
    kubelet=Kubelet(registered=False, state="not registered, watching /var/lib/kubelet/plugins"),
    api=None,
    publication=Publication(state="cannot list slices: 403"),
    records=(claim_record(nic_record(Stage.RETURNING, fault="mtu is 9000"), revoked=True),),
)
EARLY = attrs.evolve(
    WELL, uptime_s=0, node=None, nri=None, kubelet=None, api=None, publication=None, records=()
)


@pytest.mark.parametrize(
    ("status", "code", "name"),
    [(WELL, 0, "status-well"), (ILL, 1, "status-ill"), (EARLY, 0, "status-early")],
)
def test_status(berth: Berth, daemon: Serve, status: Status, code: int, name: str) -> None:
    """The parts stand one below the other, troubles above them and in the exit code."""

    daemon({"status": status_view(status)})
    ran = berth("status")

    assert (ran.code, ran.out, ran.err) == (code, golden(f"{name}.txt", ran.out), "")


def test_status_for_programs(berth: Berth, daemon: Serve) -> None:
    """JSON is the daemon's answer, without what belongs to the conversation."""

    answer = status_view(ILL)
    daemon({"status": answer})
    ran = berth("status", "--json")

    assert (ran.code, ran.json) == (1, answer)


def test_devices(berth: Berth, daemon: Serve) -> None:
    """A table with a line per device; warnings go to the side."""

    daemon({"devices": devices_view(INVENTORY, HEALTH)})
    ran = berth("devices")

    assert (ran.code, ran.out) == (0, golden("devices.txt", ran.out))
    assert ran.err == "warning: group slow selects nothing\n"


def test_devices_when_a_held_one_would_not_be_offered(berth: Berth, daemon: Serve) -> None:
    """A device that is held says what becomes of it, and shared ones say what sharing is not."""

    answer = devices_view(INVENTORY)
    answer["devices"][1] |= {"reason": "uplink", "detail": "x", "mode": "shared"}
    answer["devices"][2] |= {"offered": False}
    daemon({"devices": answer})
    lines = berth("devices").out.splitlines()

    assert "  while held; then uplink: x  " in lines[2]
    assert " pf, shared " in lines[2]
    assert lines[3].split()[-3:] == ["no", "-", "-"]
    assert lines[-1] == "Bandwidth of shared NICs is accounted among claims, and not enforced."


def test_devices_for_programs(berth: Berth, daemon: Serve) -> None:
    """JSON says by whom the devices were seen."""

    daemon({"devices": devices_view(INVENTORY)})

    assert berth("devices", "--json").json == {"by": "daemon", **devices_view(INVENTORY)}


def test_devices_when_there_are_none(berth: Berth, daemon: Serve) -> None:
    """An empty machine is said to be one."""

    daemon({"devices": {"devices": [], "warnings": []}})

    assert berth("devices").out == "no device was found\n"


HOLDS = holds_view(
    [
        claim_record(nic_record(Stage.ATTACHED)),
        claim_record(
            nic_record(Stage.RETURNING, fault="Device or resource busy"),
            claim=ClaimRef(namespace="other", name="old", uid="u"),
            revoked=True,
            consumers=(),
        ),
    ],
    [
        Hold(
            key="k",
            device="parent-0000-01-00-0",
            holder=ClaimRef(namespace="default", name="late", uid="v"),
            share="s",
            slots=2,
            limit=32,
        )
    ],
)


def test_holds(berth: Berth, daemon: Serve) -> None:
    """A table with a line per hold."""

    daemon({"holds": HOLDS})
    ran = berth("holds")

    assert (ran.code, ran.out) == (0, golden("holds.txt", ran.out))
    assert berth("holds", "--json").json == HOLDS


def test_holds_when_there_are_none(berth: Berth, daemon: Serve) -> None:
    """Nothing held is a sentence."""

    daemon({"holds": {"holds": []}})

    assert berth("holds").out == "nobody holds a device\n"


REFUSED = Trouble(
    claim="default/second",
    pod="default/web",
    text="nic-x: is held by claim default/old (u), which is in use; it is free when its pod ends",
    at="2026-08-01T10:00:00Z",
    count=3,
)


@pytest.mark.parametrize(
    ("what", "answer", "code"),
    [
        (
            "pod",
            why_view("web", known(claim_record(nic_record()), troubles=(REFUSED,))),
            0,
        ),
        (
            "device",
            why_view("ens1f0", known(claim_record(nic_record(Stage.ATTACHED)), health=HEALTH)),
            0,
        ),
        ("excluded", why_view("eth0", known()), 0),
        ("unknown", why_view("nobody", known(nri=DISCONNECTED)), 1),
        (
            "refused-pod",
            why_view("web", known(troubles=(attrs.evolve(REFUSED, claim="", text="no"),))),
            0,
        ),
    ],
)
def test_why(berth: Berth, daemon: Serve, what: str, answer: dict[str, Any], code: int) -> None:
    """The verdict comes first, then everything that it rests on, then the node."""

    asked = daemon({"why": answer})
    ran = berth("why", "default/web")

    assert (ran.code, ran.out) == (code, golden(f"why-{what}.txt", ran.out))
    assert asked[0]["what"] == "default/web"
    assert berth("why", "x", "--json").json == answer


def test_reload(berth: Berth, daemon: Serve) -> None:
    """What took effect and what did not are told apart."""

    answer = {
        "config": "/etc/berth/agent.toml",
        "applied": ['[[nic.group]] "a" is new'],
        "at_next_start": ["[nri] timeout_s was 1.5, is 2.0"],
        "warnings": ["health has no effect"],
    }
    daemon({"reload": answer})
    ran = berth("reload")

    assert (ran.code, ran.out) == (0, golden("reload.txt", ran.out))
    assert berth("reload", "--json").json == {"refused": [], **answer}


def test_reload_when_nothing_changed(berth: Berth, daemon: Serve) -> None:
    """The same file once more is said to be the same."""

    empty: dict[str, Any] = {"applied": [], "at_next_start": [], "warnings": []}
    daemon({"reload": {"config": "/x", **empty}})

    assert berth("reload").out == "/x: nothing has changed\n"


def test_reload_when_the_file_is_refused(berth: Berth, daemon: Serve) -> None:
    """Every fault is printed, and the command says what stays in force."""

    faults = [ConfigError("/x:1", "[nri] timeout_s is -3"), ConfigError("/x:2", "b")]
    daemon({"reload": Faults("/x", faults)})
    ran = berth("reload")

    assert (ran.code, ran.out) == (1, "/x:1: [nri] timeout_s is -3\n/x:2: b\n")
    assert ran.err == "berth: refused, the former configuration stays in force\n"
    assert berth("reload", "--json").json["refused"] == ["/x:1: [nri] timeout_s is -3", "/x:2: b"]


def test_reload_when_the_daemon_cannot(berth: Berth, daemon: Serve) -> None:
    """A refusal of one sentence is printed as it is."""

    daemon({"reload": HostError("/x", "cannot be read: Input/output error")})
    ran = berth("reload")

    assert (ran.code, ran.out) == (1, "/x: cannot be read: Input/output error\n")


@pytest.mark.parametrize("words", [("status",), ("holds",), ("why", "x"), ("reload",)])
def test_end_when_no_daemon_runs(berth: Berth, words: tuple[str, ...]) -> None:
    """Commands that need a daemon say that there is none, by words and by 3."""

    ran = berth(*words)

    assert (ran.code, ran.out) == (3, "")
    assert ran.err == (
        f"berth: berthd: is not running ({berth.runtime_dir}/control.sock: cannot connect: "
        "No such file or directory); start it: systemctl start berthd\n"
    )


def test_end_when_the_daemon_does_not_know_the_verb(berth: Berth, daemon: Serve) -> None:
    """A daemon of another version is no reason for a traceback."""

    daemon({"status": {}})
    ran = berth("holds")

    assert (ran.code, ran.err) == (1, "berth: no verb 'holds': it must be one of status\n")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may ask in any case")
def test_end_when_the_user_may_not_ask(berth: Berth, daemon: Serve) -> None:
    """Who may not ask is told to be root."""

    daemon({"status": {}})
    berth.runtime_dir.chmod(stat.S_IRUSR)
    ran = berth("status")
    berth.runtime_dir.chmod(stat.S_IRWXU)

    assert (ran.code, "run this as root" in ran.err) == (1, True)


def test_names_cannot_steer_the_terminal(berth: Berth, daemon: Serve) -> None:
    """A link may be called almost anything; what is printed is harmless."""

    answer = devices_view(INVENTORY)
    answer["devices"][0]["ifname"] = "\x1b[31mred\u202e"
    answer["warnings"] = ["\x1b]0;title\x07"]
    daemon({"devices": answer})
    ran = berth("devices")

    assert "\x1b" not in ran.out + ran.err
    assert r"\x1b[31mred\u202e" in ran.out


def test_pods_uid_is_shown(berth: Berth, daemon: Serve) -> None:
    """The UID tells a pod from its successor of the same name."""

    daemon({"why": why_view("web", known(claim_record(nic_record())))})

    assert f"pod default/web ({POD.uid})" in berth("why", "web").out


def test_runtime_dir_may_stand_behind_the_command(berth: Berth, tmp_path: Path) -> None:
    """The hidden option is taken before and behind the command; the latter counts."""

    ran = berth("status", "--runtime-dir", tmp_path / "elsewhere")

    assert f"{tmp_path}/elsewhere/control.sock" in ran.err
