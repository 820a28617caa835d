"""What ``devices``, ``holds``, ``reload`` and ``status`` answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import pytest

from berth.config.generic import GenericGroup
from berth.config.genericmatch import GenericMatch
from berth.config.health import DeviceTimes, GpuTimes, HealthTable
from berth.config.match import NicMatch
from berth.config.nic import NicTable
from berth.config.nicgroup import NicGroup
from berth.config.schema import Config, KubernetesTable, NriTable
from berth.kube.api import Identity
from berth.model.claim import Claim, ClaimRef, Consumer
from berth.nic.record import Stage
from berth.node.ledger import Hold
from berth.node.views import (
    GpuSession,
    Kubelet,
    ResourceState,
    Status,
    Trouble,
    Troubles,
    devices_view,
    holds_view,
    reload_view,
    status_view,
)
from berth.node.views import troubles as troubles_module
from berth.runtime.supervisor import Phase, PluginStatus, SupervisorStatistics
from tests.unit.node.views.scenes import (
    CLAIM,
    DEVICE,
    DISCONNECTED,
    INVENTORY,
    NodeName,
    Nri,
    Pool,
    Publication,
    claim_record,
    nic_record,
)

WELL = Status(
    version="0.1.0",
    pid=42,
    uptime_s=61.4,
    config=Path("/etc/berth/agent.toml"),
    state_dir=Path("/var/lib/berth"),
    driver="berth.dev",
    plugins=SupervisorStatistics(
        plugins=(
            PluginStatus(name="nri", phase=Phase.SERVING),
            PluginStatus(name="dra", phase=Phase.SERVING),
        )
    ),
    inventory=INVENTORY,
    records=(claim_record(nic_record(Stage.ATTACHED)),),
    node=NodeName(),
    nri=Nri(),
    nri_socket=Path("/var/run/nri/nri.sock"),
    kubelet=Kubelet(registered=True, state="registered"),
    api=Identity(kind="kubelet", source="/etc/kubernetes/kubelet.conf", server="https://a:6443"),
    publication=Publication(pools={"worker-7/nic": Pool()}),
    warnings=("health has no effect in this version",),
)


def test_devices_are_told_whole() -> None:
    """Each NIC says what it is, whether it is offered, and why not."""

    uplink, held, free = devices_view(INVENTORY)["devices"]

    assert uplink == {
        "name": "nic-0000-01-00-0",
        "identity": "pci:0000:01:00.0",
        "kind": "pci",
        "group": "",
        "mode": "exclusive",
        "door": "dra",
        "resource": "",
        "path": "",
        "slots": 1,
        "health": "",
        "ifname": "eth0",
        "ifindex": 2,
        "pci": "0000:01:00.0",
        "driver": "igb",
        "mac": "52:54:00:00:00:01",
        "offered": False,
        "reason": "uplink",
        "detail": "default route (table main) → eth0",
        "held_by": [],
        "verdict": None,
    }
    assert (held["offered"], held["held_by"]) == (True, ["default/net"])
    assert (free["offered"], free["reason"]) == (True, "")


def test_holds_are_told_from_record_and_ledger() -> None:
    """A hold is told with its stage; one that has no record yet is told as being prepared."""

    other = ClaimRef(namespace="default", name="late", uid="late-uid")
    holds = [
        Hold(key="pci:0000:41:00.0", device=DEVICE, holder=CLAIM),
        Hold(key="link:boot:9", device="nic-lab-veth0", holder=other),
    ]
    answer = holds_view([claim_record(nic_record(Stage.ATTACHED))], holds)

    assert answer["holds"][0] == {
        "device": DEVICE,
        "identity": "pci:0000:41:00.0",
        "door": "dra",
        "holder": "claim default/net",
        "resource": "",
        "since": "",
        "claim": "default/net",
        "claim_uid": CLAIM.uid,
        "request": "nic",
        "pods": ["web"],
        "share": "",
        "slots": 1,
        "slot_limit": 1,
        "state": "prepared",
        "stage": "attached",
        "fault": "",
        "interface": "net1",
        "sandbox": "sandbox-1",
        "home_name": "",
    }
    assert [(h["claim"], h["state"], h["stage"]) for h in answer["holds"][1:]] == [
        ("default/late", "preparing", "")
    ]
    assert {*answer["holds"][0]} == {*answer["holds"][1]}


def test_holds_leave_out_who_only_looks() -> None:
    """A claim with admin access holds nothing."""

    assert holds_view([claim_record(None)], []) == {"holds": []}


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({}, "prepared"),
        ({"prepared": False}, "preparing"),
        ({"revoked": True}, "undoing"),
        ({"prepared": False, "revoked": True}, "undoing"),
    ],
)
def test_hold_tells_where_its_claim_stands(changes: dict[str, bool], state: str) -> None:
    """Prepared, being prepared and being undone are told apart."""

    answer = holds_view([claim_record(nic_record(), **changes)], [])

    assert answer["holds"][0]["state"] == state


def test_status_when_all_is_well() -> None:
    """Nothing to complain of, and every part told."""

    answer = status_view(WELL)

    assert (answer["well"], answer["troubles"]) == (True, [])
    assert answer["uptime_s"] == 61
    assert answer["node"] == {"name": "worker-7", "source": "[node] name", "conflict": ""}
    assert answer["plugins"][0] == {
        "name": "nri",
        "phase": "serving",
        "reason": "",
        "failures": 0,
        "retry_s": None,
    }
    assert answer["nri"] == {
        "synchronized": True,
        "runtime": "containerd 2.4.2",
        "reason": "",
        "socket": "/var/run/nri/nri.sock",
    }
    assert answer["kubelet"] == {"registered": True, "state": "registered"}
    assert answer["api"]["kind"] == "kubelet"
    assert answer["publication"]["pools"] == {
        "worker-7/nic": {"generation": 3, "slices": 1, "devices": 2}
    }
    assert answer["nics"] == {"seen": 3, "offered": 2, "held": 1, "excluded": {"uplink": 1}}
    assert answer["claims"] == {
        "preparing": 0,
        "prepared": 1,
        "undoing": 0,
        "nics_away": 1,
        "nics_at_fault": 0,
    }
    assert answer["warnings"] == [
        "health has no effect in this version",
        "group slow selects nothing",
    ]
    json.dumps(answer)


@pytest.mark.parametrize(
    ("changes", "trouble"),
    [
        ({"node": NodeName(name="", conflict="two names")}, "two names"),
        (
            {
                "plugins": SupervisorStatistics(
                    plugins=(
                        PluginStatus(name="dra", phase=Phase.RESTING, reason="oops", retry_s=4.0),
                    )
                )
            },
            "plugin dra resting 4 s (oops)",
        ),
        (
            {"nri": DISCONNECTED},
            f"NRI is not connected, so no NIC that berth moves is offered: {DISCONNECTED.reason}",
        ),
        (
            {"api": Identity(kind="none", source="no kubeconfig was found", server="")},
            "API server: not connected, so nothing is published: no kubeconfig was found",
        ),
        (
            {"kubelet": Kubelet(registered=False, state="not registered, watching /x")},
            "kubelet: not registered, watching /x",
        ),
        ({"publication": Publication(state="cannot list slices")}, "slices: cannot list slices"),
        (
            {"gpu": GpuSession(state="driver-absent", detail="no module", functions=8)},
            "GPUs: the session with the driver is driver-absent: no module",
        ),
        (
            {
                "resources": (
                    ResourceState(
                        name="a.dev/b", units=1, healthy=1, registered=False, reason="no socket"
                    ),
                )
            },
            "resource a.dev/b: not registered with kubelet: no socket",
        ),
        (
            {
                "resources": (
                    ResourceState(
                        name="a.dev/b", units=1, healthy=1, registered=True, rivals=("other.sock",)
                    ),
                )
            },
            "resource a.dev/b: another plugin may serve it: other.sock",
        ),
        (
            {"publication": Publication(refused=("nic-a", "nic-b"))},
            "slices: the API server does not take nic-a, nic-b",
        ),
        (
            {"records": (claim_record(nic_record(Stage.RETURNING, fault="mtu is 9000")),)},
            f"{DEVICE} of claim default/net: mtu is 9000",
        ),
    ],
)
def test_status_when_a_part_is_not_well(changes: dict[str, Any], trouble: str) -> None:
    """Whatever keeps pods from their NICs is told as one sentence."""

    answer = status_view(attrs.evolve(WELL, **changes))

    assert (answer["well"], answer["troubles"]) == (False, [trouble])


def test_status_when_parts_are_off() -> None:
    """A part that is switched off is null, and no trouble."""

    off = attrs.evolve(WELL, node=None, nri=None, kubelet=None, api=None, publication=None)
    answer = status_view(off)

    assert answer["well"]
    assert [answer[key] for key in ("node", "nri", "kubelet", "api", "publication")] == [None] * 5


def group(name: str, **changes: Any) -> NicGroup:
    """A group that selects something."""
    return NicGroup(name=name, match=NicMatch(name=(name,)), **changes)


def test_reload_tells_what_takes_effect_and_what_waits() -> None:
    """``[nic]`` takes effect at once, the rest at the next start, each with both values."""

    before = Config(nic=NicTable(groups=(group("a"), group("b"), group("c"))))
    after = Config(
        nri=NriTable(timeout_s=2.0),
        kubernetes=KubernetesTable(kubeconfig=Path("/root/config")),
        nic=NicTable(
            publish_volatile=True,
            groups=(group("c"), group("a", order=5, take_configured=True), group("d")),
        ),
    )
    answer = reload_view(before, after, path=Path("/etc/berth/agent.toml"), warnings=["w"])

    assert answer == {
        "config": "/etc/berth/agent.toml",
        "applied": [
            "[nic] publish_volatile was false, is true",
            '[[nic.group]] "a" has another order, take_configured',
            '[[nic.group]] "d" is new',
            '[[nic.group]] "b" is gone',
            "[[nic.group]] has another order",
        ],
        "at_next_start": [
            '[kubernetes] kubeconfig was "", is "/root/config"',
            "[nri] timeout_s was 1.5, is 2.0",
        ],
        "warnings": ["w"],
    }


def test_reload_tells_groups_of_generic_devices() -> None:
    """By their names, as groups of NICs; they take effect at once."""
    one = GenericGroup(name="a", match=GenericMatch(subsystem=("tty",)))
    before = Config(generic=(one, attrs.evolve(one, name="b")))
    after = Config(generic=(attrs.evolve(one, count=2), attrs.evolve(one, name="c")))

    answer = reload_view(before, after, path=Path("/x"))

    told = ['a" has another count', 'c" is new', 'b" is gone']
    assert (answer["applied"], answer["at_next_start"]) == (
        [f'[[generic]] "{text}' for text in told],
        [],
    )


def test_reload_tells_how_devices_are_watched() -> None:
    """All of it takes effect at once."""
    before = Config(health=HealthTable(devices=(DeviceTimes(name="a"),)))
    after = Config(
        health=HealthTable(
            recover_after_s=60,
            evict=("lost",),
            gpu=GpuTimes(interval_s=10, timeout_s=60),
            devices=(DeviceTimes(name="a", timeout_s=99),),
        )
    )

    answer = reload_view(before, after, path=Path("/x"))

    assert answer["applied"] == [
        "[health] recover_after_s was 30, is 60",
        '[health] evict was [], is ["lost"]',
        "[health.gpu] interval_s was 5, is 10",
        "[health.gpu] timeout_s was 30, is 60",
        '[[health.device]] "a" has another timeout_s',
    ]
    assert answer["at_next_start"] == []


def test_reload_tells_an_attribute_that_only_changes_its_kind() -> None:
    """Python takes 1 for ``True``; a slice does not."""
    one = GenericGroup(name="a", match=GenericMatch(subsystem=("tty",)), attributes={"port": 1})
    after = attrs.evolve(one, attributes={"port": True})

    answer = reload_view(Config(generic=(one,)), Config(generic=(after,)), path=Path("/x"))

    assert answer["applied"] == ['[[generic]] "a" has another attributes']


def test_reload_when_nothing_changed() -> None:
    """The same file once more changes nothing, and says so by empty lists."""

    answer = reload_view(Config(), Config(), path=Path("/x"))

    assert (answer["applied"], answer["at_next_start"], answer["warnings"]) == ([], [], [])


def test_troubles_count_what_is_told_again() -> None:
    """The same words again are one trouble with a count; other words begin anew."""

    troubles = Troubles()
    for text in ("no link", "no link", "held", "held", "held"):
        troubles.note("uid", Trouble(claim="default/net", text=text, at="now"))

    assert [(t.text, t.count) for t in troubles.all()] == [("held", 3)]
    troubles.forget("uid")
    troubles.forget("uid")
    assert troubles.all() == ()


def test_troubles_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit the one that was told of longest ago is forgotten."""

    monkeypatch.setattr(troubles_module, "LIMIT", 2)
    troubles = Troubles()
    for uid in ("a", "b", "a", "c"):
        troubles.note(uid, Trouble(claim=uid, text="x", at="now"))

    assert [t.claim for t in troubles.all()] == ["a", "c"]


def claim_of(*pods: str, uid: str = "uid") -> Claim:
    """A claim that is reserved for pods."""
    consumers = tuple(Consumer(resource="pods", name=name, uid=name) for name in pods)
    ref = ClaimRef(namespace="default", name="net", uid=uid)
    return Claim(ref=ref, results=(), consumers=consumers)


def test_troubles_know_whose_claim_it_is() -> None:
    """Once a claim was read, its later troubles name its pod, until it is forgotten."""

    troubles = Troubles()
    troubles.belongs(claim_of("web", "other"))
    troubles.note("uid", Trouble(claim="default/net", text="x", at="now"))
    first = troubles.all()
    troubles.forget("uid")
    troubles.note("uid", Trouble(claim="default/net", text="x", at="now"))

    assert [t.pod for t in (*first, *troubles.all())] == ["default/web", ""]


def test_troubles_keep_what_they_are_told_of_the_pod() -> None:
    """A pod that is told counts, and a claim for no pod has none."""

    troubles = Troubles()
    troubles.belongs(claim_of("web"))
    troubles.belongs(claim_of(uid="other"))
    troubles.note("uid", Trouble(pod="default/told", text="x", at="now"))
    troubles.note("other", Trouble(claim="default/net", text="x", at="now"))

    assert [t.pod for t in troubles.all()] == ["default/told", ""]
