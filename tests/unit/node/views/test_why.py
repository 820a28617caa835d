"""What ``why`` answers about a pod at each point of its way, and about devices."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest

from berth.generic.explain import Explanation, Opinion
from berth.health.finding import Severity
from berth.health.verdict import HealthState, Status, Verdict
from berth.kube.api import Identity
from berth.model.device import Exclusion
from berth.model.inventory import Inventory
from berth.model.peripheral import ABSENT, Peripheral
from berth.model.resource import ContainerRef
from berth.nic.record import Stage
from berth.node.holders.equipment import published
from berth.node.records.given import Given
from berth.node.records.record import ClaimRecord
from berth.node.views import Knowledge, Trouble, nodes_view, why_view
from berth.node.views.mends import mend_for
from berth.vfio.binding import Binding
from berth.vfio.binding import Stage as Bound
from tests.unit.node.peripherals import given, modem
from tests.unit.node.views.scenes import (
    CLAIM,
    DEVICE,
    DISCONNECTED,
    INVENTORY,
    POD,
    Nri,
    Publication,
    claim_record,
    nic_record,
)


def known(*records: ClaimRecord, **changes: Any) -> Knowledge:
    """What a node in good order knows."""
    whole: dict[str, Any] = {
        "records": records,
        "inventory": INVENTORY,
        "nri": Nri(),
        "publication": Publication(),
        **changes,
    }
    return Knowledge(**whole)


@pytest.mark.parametrize("asked", ["web", "default/net", "modem-0"])
def test_claim_that_kubelet_does_not_ask_for_is_told_as_such(asked: str) -> None:
    """By its pod, its own name and its device; what of the settings is not in force stands by."""

    one = modem(0)
    held = attrs.evolve(
        claim_record(None).devices[0], identity=one.identity, nic=None, peripheral=one
    )
    record = attrs.evolve(claim_record(None), devices=(held,), prepared=True)
    inventory = Inventory(peripherals=(attrs.evolve(one, held_by=(str(CLAIM),)),))

    answer = why_view(
        asked, known(skipped=[record], inventory=inventory, remarks=["it is not in force"])
    )

    (found,) = answer["found"]
    if asked == "modem-0":
        assert [holder["holder"] for holder in found["holders"]] == [f"claim {CLAIM}"]
    else:
        assert [claim["state"] for claim in found["claims"]] == ["skipped"]
    assert answer["node"]["troubles"] == ["it is not in force"]


@pytest.mark.parametrize("asked", ["default/web", "web", POD.uid])
def test_pod_is_found_by_each_of_its_names(asked: str) -> None:
    """A pod is found by namespace and name, name, and UID."""

    answer = why_view(asked, known(claim_record(nic_record())))

    assert [(f["kind"], f["name"], f["uid"]) for f in answer["found"]] == [
        ("pod", "default/web", POD.uid)
    ]
    json.dumps(answer)


@pytest.mark.parametrize("asked", ["other/web", "we", "default", "", "default/"])
def test_pod_is_not_found_by_less(asked: str) -> None:
    """Parts of names, and other namespaces, find nothing."""

    assert why_view(asked, known(claim_record(nic_record())))["found"] == []


@pytest.mark.parametrize(
    ("record", "nri", "verdict", "waits_for"),
    [
        (
            claim_record(nic_record(Stage.RESERVED), prepared=False),
            Nri(),
            "is being prepared",
            "prepare",
        ),
        (
            claim_record(nic_record(Stage.STAGED)),
            Nri(),
            "is ready at home, and goes into the pod's sandbox as soon as one is made",
            "sandbox",
        ),
        (
            claim_record(nic_record(Stage.HOME)),
            Nri(),
            "is ready at home, and goes into the pod's sandbox as soon as one is made again",
            "sandbox",
        ),
        (
            claim_record(nic_record(Stage.STAGED)),
            DISCONNECTED,
            f"is ready at home; the runtime's NRI is not connected: {DISCONNECTED.reason}",
            "nri",
        ),
        (
            claim_record(nic_record(Stage.ATTACHING)),
            Nri(),
            "is being brought into sandbox sandbox-1",
            "sandbox",
        ),
        (
            claim_record(nic_record(Stage.ATTACHED)),
            Nri(),
            "is in the pod as net1: nothing of ours is missing",
            "",
        ),
        (
            claim_record(nic_record(Stage.ATTACHED, carrier=False)),
            Nri(),
            "is in the pod as net1, and had no carrier when it came there",
            "",
        ),
        (
            claim_record(nic_record(Stage.HOME, fault="RTM_NEWROUTE 0.0.0.0/0: File exists")),
            Nri(),
            "was not attached: RTM_NEWROUTE 0.0.0.0/0: File exists",
            "",
        ),
        (
            claim_record(nic_record(Stage.RETURNING), revoked=True),
            Nri(),
            "is being undone: the pod is to end here",
            "home",
        ),
        (
            claim_record(nic_record(Stage.RETURNING, fault="Device or resource busy")),
            Nri(),
            "is on its way home, tried again by itself: Device or resource busy",
            "home",
        ),
        (claim_record(nic_record(Stage.LOST, fault="")), Nri(), "is lost: its device is gone", ""),
        (
            claim_record(None),
            Nri(),
            "is only looked at (adminAccess), nothing is moved for it",
            "",
        ),
    ],
)
def test_verdict_at_each_point(record: ClaimRecord, nri: Nri, verdict: str, waits_for: str) -> None:
    """Each stage has its words, and says what is waited for."""

    found = why_view("web", known(record, nri=nri))["found"][0]
    words = [found["claims"][0], *found["claims"][0]["devices"]]

    assert found["verdict"].partition(": ")[2] == verdict
    assert waits_for in {word["waits_for"] for word in words}


def test_verdict_when_one_of_two_claims_was_refused() -> None:
    """A refusal outweighs what is ready, and says how often and when."""

    refusal = Trouble(
        claim="default/second",
        pod="default/web",
        text="nic-x: is held by claim default/old",
        at="2026-08-01T10:00:00Z",
        count=3,
    )
    answer = why_view("web", known(claim_record(nic_record()), troubles=(refusal,)))
    found = answer["found"][0]

    assert found["verdict"] == (
        "claim default/second: was refused (3 times), last at 2026-08-01T10:00:00Z: "
        "nic-x: is held by claim default/old"
    )
    assert found["mend"] == "kubelet tries again by itself, after up to 90 s"
    assert [(c["claim"], c["state"]) for c in found["claims"]] == [
        ("default/net", "prepared"),
        ("default/second", "refused"),
    ]


def test_verdict_when_prepare_waits() -> None:
    """What prepare waits for is told while it waits."""

    waiting = Trouble(
        claim=str(CLAIM), pod="default/web", text="nic-x is held", at="now", waiting=True
    )
    found = why_view("web", known(troubles=(waiting,)))["found"][0]

    assert found["verdict"] == "claim default/net: waits: nic-x is held"
    assert found["claims"][0]["state"] == "waiting"


def test_trouble_of_a_claim_with_a_record_is_told_with_it() -> None:
    """A claim that was prepared and then refused is one claim."""

    refused = Trouble(claim=str(CLAIM), text="disk is full", at="now")
    found = why_view("web", known(claim_record(nic_record()), troubles=(refused,)))["found"][0]

    assert len(found["claims"]) == 1
    assert found["claims"][0]["trouble"]["text"] == "disk is full"
    assert found["verdict"].endswith("last at now: disk is full")


def test_pod_is_guessed_from_the_claim_of_its_template() -> None:
    """Where only the claim is known, its name says whose it is."""

    refused = Trouble(claim="default/web-nic-x7k2p", text="no such claim", at="now")
    answer = why_view("default/web", known(troubles=(refused,)))

    assert [f["name"] for f in answer["found"]] == ["default/web"]
    assert why_view("default/we", known(troubles=(refused,)))["found"] == []
    assert why_view("other/web", known(troubles=(refused,)))["found"] == []


@pytest.mark.parametrize("asked", ["default/net", "net", CLAIM.uid])
def test_claim_is_found_when_no_pod_is_so_called(asked: str) -> None:
    """A claim is found by its names too."""

    found = why_view(asked, known(claim_record(nic_record())))["found"]

    assert [(f["kind"], f["name"]) for f in found] == [("claim", "default/net")]
    assert "as soon as one is made" in found[0]["verdict"]


def test_claim_is_found_by_its_trouble() -> None:
    """A claim that was only refused is found too."""

    refused = Trouble(claim="default/net", text="x", at="now")
    found = why_view("net", known(troubles=(refused,)))["found"]

    assert [(f["kind"], f["verdict"]) for f in found] == [
        ("claim", "claim default/net: was refused, last at now: x")
    ]


@pytest.mark.parametrize(
    "asked",
    ["nic-0000-41-00-0", "pci:0000:41:00.0", "0000:41:00.0", "ens1f0", "52:54:00:00:00:02"],
)
def test_device_is_found_by_each_of_its_names(asked: str) -> None:
    """A device is found by every name that an operator may know it by."""

    found = why_view(asked, known(claim_record(nic_record(Stage.ATTACHED))))["found"]

    assert [(f["kind"], f["name"]) for f in found] == [("device", DEVICE)]
    assert found[0]["verdict"] == (
        f"{DEVICE} is held. claim default/net: is in the pod as net1: nothing of ours is missing"
    )
    assert found[0]["attributes"] == {
        "driverVersion": "1.2.3",
        "speedMbps": 25000,
        "type": "nic",
    }


LOST = HealthState(
    verdicts={
        DEVICE: Verdict(
            status=Status.UNHEALTHY,
            severity=Severity.LOST,
            reason="lost",
            message="0000:41:00.0 is not in the machine any more (since 2026-08-01T10:00:00Z)",
        )
    }
)


@pytest.mark.parametrize("asked", ["web", "0000:41:00.0"])
def test_device_that_is_gone_is_told_before_what_was_seen_of_it_last(asked: str) -> None:
    """Since when, and who has it; its record still has it in its pod, where it had no carrier."""

    record = claim_record(nic_record(Stage.ATTACHED, carrier=False))
    (found,) = why_view(asked, known(record, health=LOST))["found"]

    assert "0000:41:00.0 is not in the machine any more (since 2026-" in found["verdict"]
    assert "default/net" in found["verdict"]
    assert "carrier" not in json.dumps(found["verdict"] + found["mend"])
    assert "delete the pod" in found["mend"]


def test_device_when_it_is_not_offered() -> None:
    """The reason is told, with what to do about it."""

    found = why_view("eth0", known())["found"][0]

    assert found["verdict"] == (
        "nic-0000-01-00-0 is not offered: uplink: default route (table main) → eth0"
    )
    assert found["mend"] == (
        "leave it to the node; if the node can do without it, "
        'write [nic] uplink_ok = ["pci:0000:01:00.0"], and take_configured = true in its group'
    )


def test_device_when_it_is_free() -> None:
    """A free device is told as such."""

    found = why_view("veth0", known())["found"][0]

    assert (found["verdict"], found["mend"]) == ("nic-lab-veth0 is offered, and free", "")


def test_unknown_pod_is_answered_by_the_state_of_the_node() -> None:
    """Of a pod that kubelet never asked for, what speaks against every pod is told."""

    nobody = Identity(kind="none", source="no kubeconfig was found", server="")
    behind = Publication(state="behind")
    answer = why_view("web", known(nri=DISCONNECTED, publication=behind, api=nobody))

    assert answer == {
        "asked": "web",
        "found": [],
        "node": {
            "troubles": [
                "API server: not connected, so nothing is published: no kubeconfig was found",
                "NRI is not connected, so no NIC that berth moves is offered: "
                + DISCONNECTED.reason,
                "slices: behind",
            ],
            "nics": {"seen": 3, "offered": 2, "held": 1, "excluded": {"uplink": 1}},
            "peripherals": {"seen": 0, "offered": 0, "held": 0, "excluded": {}},
        },
    }


def test_answer_when_nothing_is_known_at_all() -> None:
    """Before the first look nothing is known, and that is an answer too."""

    answer = why_view("web", Knowledge(records=(), inventory=Inventory()))

    assert answer["found"] == []


@pytest.mark.parametrize("nic", INVENTORY.nics)
def test_mend_only_for_what_is_not_offered(nic: Any) -> None:
    """What is offered needs no mend."""

    assert bool(mend_for(nic)) == (nic.exclusion is not None)


def peripherals(*found: Peripheral) -> Knowledge:
    """What a node knows that has these devices beside its NICs."""
    devices = (*INVENTORY.devices, *published(found, (), driver="berth.dev"))
    return known(inventory=attrs.evolve(INVENTORY, peripherals=found, devices=devices))


@pytest.mark.parametrize("asked", ["modem-0", "usb:0403-6001-0", "/dev/ttyUSB0"])
def test_peripheral_is_found_by_each_of_its_names(asked: str) -> None:
    """By its name, its identity and its node."""

    one = attrs.evolve(modem(), path="/dev/ttyUSB0")
    (found,) = why_view(asked, peripherals(one))["found"]

    assert (found["kind"], found["verdict"]) == ("device", "modem-0 is offered, and free")
    assert found["attributes"] == {"group": "modem", "type": "generic"}


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({"held_by": ("team/a",)}, "modem-0 is held by team/a"),
        (
            {"held_by": ("team/a",), "unhealthy": ABSENT},
            "modem-0 is absent: the machine does not show it any more. It is held by team/a.",
        ),
        (
            {"exclusion": Exclusion(reason="overlap", detail="two groups")},
            "modem-0 is not offered: overlap: two groups.",
        ),
        (
            {"held_by": ("team/a",), "slots": 3},
            "modem-0 is offered, 2 of 3 free. It is held by team/a.",
        ),
    ],
)
def test_peripheral_verdicts(changes: dict[str, Any], verdict: str) -> None:
    """Who has it, or why nobody gets it."""

    (found,) = why_view("modem-0", peripherals(attrs.evolve(modem(), **changes)))["found"]

    assert found["verdict"] == verdict


def test_pod_with_a_peripheral_lacks_nothing() -> None:
    """What is given needs no sandbox."""

    record = claim_record(nic_record())
    (device,) = record.devices
    given = attrs.evolve(device, nic=None, peripheral=modem())
    (found,) = why_view("web", known(attrs.evolve(record, devices=(given,))))["found"]

    assert "is prepared" in found["verdict"] or "given to the containers" in found["verdict"]
    assert "given to the containers" in found["claims"][0]["devices"][0]["says"]


@pytest.mark.parametrize(
    ("explanation", "verdict"),
    [
        (Explanation(path="/dev/x", says="it is a folder"), "no group can have it: it is a folder"),
        (Explanation(path="/dev/x"), "no group looks at it: there is no [[generic]] group"),
        (
            Explanation(path="/dev/x", opinions=(Opinion(group="a", takes=False, says="no"),)),
            "no group takes it",
        ),
        (
            Explanation(path="/dev/x", opinions=(Opinion(group="a", takes=True),)),
            "it is a device of a",
        ),
    ],
)
def test_node_at_a_path(explanation: Explanation, verdict: str) -> None:
    """What the groups say comes to one sentence."""

    (entry,) = nodes_view([explanation])

    assert (entry["kind"], entry["name"], entry["verdict"]) == ("node", "/dev/x", verdict)
    assert [set(group) for group in entry["groups"]] == [
        {"group", "takes", "says"} for _ in explanation.opinions
    ]


def bound(stage: Bound = Bound.BOUND, *, prepared: bool = True, **changes: Any) -> ClaimRecord:
    """A claim on a function that is bound for it."""
    binding = Binding(address="0000:41:00.0", stage=stage, **changes)
    (device,) = claim_record(None, prepared=prepared).devices
    function = attrs.evolve(device, binding=binding, link=nic_record())
    return claim_record(None, prepared=prepared, devices=(function,))


@pytest.mark.parametrize(
    ("record", "verdict", "waits_for"),
    [
        (
            bound(Bound.BINDING, prepared=False, step="unbind mlx5_core"),
            "is being bound to vfio-pci, at unbind mlx5_core",
            "prepare",
        ),
        (bound(), "is bound to vfio-pci for the claim: nothing of ours is missing", ""),
        (
            bound(Bound.RETURNING, fault="is busy"),
            "is on its way home, tried again by itself: is busy",
            "home",
        ),
        (bound(Bound.LOST), "is lost: its function is gone", ""),
    ],
)
def test_word_for_a_function_at_each_point(
    record: ClaimRecord, verdict: str, waits_for: str
) -> None:
    """What is ours is that its driver changes."""

    found = why_view("web", known(record))["found"][0]
    (device,) = found["claims"][0]["devices"]

    assert device["says"] == verdict
    assert device["waits_for"] == waits_for
    assert device["stage"] == record.bindings[0][1].stage.value


def asked_for(stage: Stage) -> Given:
    """A container that was given the NIC by the device plugin."""
    listing = attrs.evolve(modem(), identity=nic_record().identity, name=DEVICE, kind="nic")
    container = ContainerRef(namespace="default", pod="old", container="main")
    one = given(listing, container=container, bound=True)
    return attrs.evolve(one.with_nic(0, nic_record(stage)), pod_uid="uid-of-old")


@pytest.mark.parametrize("asked", ["default/old", "old", "uid-of-old"])
@pytest.mark.parametrize(
    ("stage", "says"),
    [
        (Stage.ATTACHED, "is in the pod as"),
        (Stage.STAGED, "goes into the pod's sandbox as soon as one is made"),
        (Stage.LENT, "a CNI plugin moves it"),
    ],
)
def test_pod_that_asked_by_its_limits_is_told_of_as_one_with_a_claim(
    asked: str, stage: Stage, says: str
) -> None:
    """How far its NIC is, through which resource."""

    (found,) = why_view(asked, known(given=[asked_for(stage)]))["found"]

    assert (found["kind"], found["name"]) == ("pod", "default/old")
    assert says in found["verdict"]
    assert "resource berth.dev/modem" in found["verdict"]


def test_lent_nic_that_was_not_put_back_tells_why() -> None:
    """Else only the list of holds would say so."""

    one = asked_for(Stage.LENT)
    (nic,) = one.nics
    assert nic is not None
    stuck = one.with_nic(0, attrs.evolve(nic, fault="its name is taken"))
    (found,) = why_view("old", known(given=[stuck]))["found"]

    assert found["verdict"].endswith("which is tried again: its name is taken")


def test_device_is_found_by_its_id_and_tells_who_was_given_it() -> None:
    """The id is what `berth holds` and kubelet show: of a share too, of a NIC or another device."""

    one = asked_for(Stage.LENT)
    listing = attrs.evolve(one.devices[0].peripheral, ids=("0000:41:00.0::0", "0000:41:00.0::1"))
    inventory = attrs.evolve(INVENTORY, listings=(listing,), peripherals=(modem(1),))
    plugged = given(modem(1), uid="g2", bound=True)
    answers = known(inventory=inventory, given=[one, plugged])

    (nic,) = why_view("0000:41:00.0::1", answers)["found"]
    (other,) = why_view("modem-1", answers)["found"]
    assert (nic["name"], other["name"]) == (DEVICE, "modem-1")
    assert [holder["door"] for holder in (*nic["holders"], *other["holders"])] == ["plugin"] * 2


def test_nic_tells_who_was_given_it() -> None:
    """As it tells of a claim."""

    (found,) = why_view(DEVICE, known(given=[asked_for(Stage.ATTACHED)]))["found"]

    (holder,) = found["holders"]
    assert holder["holder"] == "pod default/old, container main"
    assert "is in the pod as" in holder["says"]
