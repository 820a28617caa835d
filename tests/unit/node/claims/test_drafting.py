"""Records of claims before anything is done, above all those that are prepared together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations

import attrs
import pytest

from berth.config.nicgroup import Scrub
from berth.errors import Faults
from berth.model.claim import Claim, ConfigSource, Consumer
from berth.model.device import Nic, NicKind
from berth.model.edits import DeviceNode, Edits, NodeType
from berth.model.inventory import Inventory
from berth.nic.config.values import AttachMode, NicConfig
from berth.nic.facts import Home
from berth.node.claims.admission import Admitted, admit
from berth.node.claims.drafting import Settings, draft, is_scrubbed
from berth.node.inventory.sighting import Memory
from berth.node.inventory.snapshot import Snapshot
from berth.node.ledger import Hold, Ledger
from berth.node.records.record import ClaimRecord
from tests.unit.nic.config.claims import DRIVER, FAST, NIC, claim_of, entry, nic_result, targets_of
from tests.unit.node import machine

POD = Consumer(resource="pods", name="web", uid="pod-1")
SETTINGS = Settings(driver=DRIVER, boot_id="boot", policies={"fast": FAST})
DEVICES = {"a": "nic-1", "b": "nic-2", "c": "nic-3"}
SNAPSHOT = Snapshot(
    inventory=Inventory(
        nics=tuple(
            Nic(identity=f"pci:{name}", name=name, kind=NicKind.PCI, group="fast")
            for name in DEVICES.values()
        ),
        devices=(),
    ),
    facts={name: attrs.evolve(NIC, identity=f"pci:{name}") for name in DEVICES.values()},
    homes={
        name: Home(index=number, parent_device=name, driver="x")
        for number, name in enumerate(DEVICES.values(), start=1)
    },
    hardware_addrs={},
    memory=Memory(),
)


def _claim(name: str, parameters: Mapping[str, object], *, pod: Consumer = POD) -> Claim:
    claim = claim_of(entry(parameters), results=[nic_result(device=DEVICES[name])], name=name)
    return attrs.evolve(claim, consumers=(pod,))


def _draft(
    claim: Claim,
    before: Sequence[ClaimRecord],
    siblings: Sequence[Claim],
    *,
    snapshot: Snapshot = SNAPSHOT,
) -> ClaimRecord:
    targets = targets_of(claim, snapshot.facts[claim.results[0].device])
    hold = Hold(key=targets[0].facts.identity, device=targets[0].result.device, holder=claim.ref)
    return draft(
        claim,
        snapshot,
        Admitted(targets=targets, holds=(hold,)),
        settings=SETTINGS,
        records=before,
        siblings=siblings,
    )


def _names(records: Sequence[ClaimRecord]) -> dict[str, str]:
    return {
        record.claim.name: device.nic.config.interface.name
        for record in records
        for device in record.devices
        if device.nic is not None
    }


@pytest.mark.parametrize("order", [*permutations("abc")])
def test_names_when_claims_of_a_pod_are_prepared_together(order: tuple[str, ...]) -> None:
    """They follow the pod's order, whichever claim is drafted first; a wished one is left free."""

    pod = [_claim("a", {}), _claim("b", {"interface": {"name": "net1"}}), _claim("c", {})]
    claims = {claim.ref.name: claim for claim in pod}
    drafts: list[ClaimRecord] = []
    for name in order:
        drafts.append(_draft(claims[name], drafts, pod))

    assert _names(drafts) == {"a": "net2", "b": "net1", "c": "net3"}


def test_names_when_a_claim_of_the_pod_was_prepared_before() -> None:
    """Its name is taken, and it does not count among those that are prepared now."""

    pod = [_claim("a", {}), _claim("b", {})]
    early = _draft(pod[1], [], [pod[1]])
    late = _draft(pod[0], [early], pod)

    assert _names([early, late]) == {"b": "net1", "a": "net2"}


def test_wish_when_two_claims_that_are_prepared_together_have_it() -> None:
    """The one that is drafted later is refused, and told whose the name is."""

    pod = [_claim(name, {"interface": {"name": "data0"}}) for name in ("a", "b")]
    first = _draft(pod[1], [], pod)

    with pytest.raises(Faults, match=r'"data0" is the name of nic-1 .*nic-2 \(claim team/b'):
        _draft(pod[0], [first], pod)


def test_names_when_claims_are_of_different_pods() -> None:
    """What another pod has is no concern of this one."""

    other = Consumer(resource="pods", name="db", uid="pod-2")
    claims = [_claim("a", {}), _claim("b", {}, pod=other)]
    first = _draft(claims[0], [], claims[:1])
    second = _draft(claims[1], [first], claims[1:])

    assert _names([first, second]) == {"a": "net1", "b": "net1"}


TEAM = Consumer(resource="podgroups", name="team", uid="group-1")
CREW = Consumer(resource="podgroups", name="crew", uid="group-2")


@pytest.mark.parametrize(
    ("first", "second", "template", "name"),
    [
        (TEAM, POD, None, "net2"),
        (TEAM, TEAM, "uplink", "net2"),
        (TEAM, CREW, None, "net1"),
        (POD, TEAM, None, "net2"),
        (POD, TEAM, "uplink", "net1"),
    ],
)
def test_number_is_left_to_what_a_pod_may_have_too(
    first: Consumer, second: Consumer, template: str | None, name: str
) -> None:
    """Pods of one group may have both; a claim of a pod's own template is that pod's alone."""

    before = _draft(attrs.evolve(_claim("a", {}, pod=first), pod_claim_name=template), [], [])
    elsewhere = attrs.evolve(before.claim, namespace="elsewhere")
    mine = _claim("b", {}, pod=second)

    assert _names([_draft(mine, [before], [mine])]) == {"b": name}
    assert _names([_draft(mine, [attrs.evolve(before, claim=elsewhere)], [mine])]) == {"b": "net1"}
    assert _names([_draft(mine, [attrs.evolve(before, revoked=True)], [mine])]) == {"b": "net1"}


def test_name_that_is_wished_is_no_fault_while_nobody_tells_of_one_pod() -> None:
    """A group's claim in the same namespace may be of other pods."""

    before = _draft(_claim("a", {"interface": {"name": "data0"}}, pod=TEAM), [], [])
    mine = _claim("b", {"interface": {"name": "data0"}})

    assert _names([_draft(mine, [before], [mine])]) == {"b": "data0"}


def test_slots_of_two_shares_of_one_parent_are_told_apart() -> None:
    """A claim may take a large and a small share of the same parent."""

    wanted = machine.claim(
        machine.share(1, "large", slots=2), machine.share(2, "small"), machine.result()
    )
    admitted = admit(wanted, machine.look(), Ledger())
    assert isinstance(admitted, Admitted)

    made = draft(wanted, machine.look(), admitted, settings=machine.SETTINGS, records=())

    assert [(each.result.request, each.slots, each.slot_limit) for each in made.devices] == [
        ("large", 2, machine.SLOTS),
        ("small", 1, machine.SLOTS),
        ("nic", 1, 1),
    ]
    children = [each.nic for each in made.devices if each.nic is not None and each.nic.is_child]
    assert {nic.parent_index for nic in children} == {machine.NAMES.index(machine.PARENT) + 2}


def test_observed_device_takes_nothing() -> None:
    """Admin access gives attributes, and neither a slot nor a link."""

    wanted = machine.claim(machine.result(admin_access=True))
    admitted = admit(wanted, machine.look(), Ledger())
    assert isinstance(admitted, Admitted)

    made = draft(wanted, machine.look(), admitted, settings=machine.SETTINGS, records=())

    assert [(each.nic, each.slots, each.attributes["numaNode"]) for each in made.devices] == [
        (None, 0, 0)
    ]


def test_hardware_address_of_another_claims_child_is_taken() -> None:
    """The record tells of a child that no look at the host can see."""

    wish = attrs.evolve(
        machine.config(interface={"hardwareAddr": "02:00:00:00:00:11"}), source=ConfigSource.CLASS
    )
    claims = [
        machine.claim(
            machine.share(n), name=f"child{n}", configs=[wish], consumers=[machine.pod(f"p{n}")]
        )
        for n in (1, 2)
    ]
    ledger = Ledger()
    admitted = [admit(each, machine.look(), ledger) for each in claims]
    assert isinstance(admitted[0], Admitted)
    assert isinstance(admitted[1], Admitted)
    first = draft(claims[0], machine.look(), admitted[0], settings=machine.SETTINGS, records=())

    with pytest.raises(Faults, match=r"02:00:00:00:00:11.*claim default/child1"):
        draft(claims[1], machine.look(), admitted[1], settings=machine.SETTINGS, records=(first,))


NODE = DeviceNode(
    path="/dev/infiniband/uverbs0",
    host_path="/dev/infiniband/uverbs0",
    type=NodeType.CHAR,
    major=231,
    minor=192,
)


@pytest.mark.parametrize(
    ("parameters", "netns", "nodes"),
    [
        ({}, "shared", (NODE,)),
        ({"rdma": "required"}, "shared", (NODE,)),
        ({"rdma": "none"}, "shared", ()),
        ({}, "exclusive", ()),
    ],
)
def test_rdma_nodes_are_the_containers(
    parameters: dict[str, str], netns: str, nodes: tuple[DeviceNode, ...]
) -> None:
    """They stand in the record, so that each file and answer made of it has them."""

    facts = attrs.evolve(SNAPSHOT.facts["nic-1"], rdma=("mlx5_0",), rdma_netns=netns)
    snapshot = attrs.evolve(
        SNAPSHOT, facts={**SNAPSHOT.facts, "nic-1": facts}, rdma={"nic-1": (NODE,)}
    )
    record = _draft(_claim("a", parameters), [], [], snapshot=snapshot)

    assert record.devices[0].nodes == nodes
    assert record.devices[0].edits == Edits(nodes=nodes)


@pytest.mark.parametrize(
    ("kind", "scrub", "wanted"),
    [
        (NicKind.VF, Scrub.REBIND, True),
        (NicKind.VF, Scrub.RESTORE, False),
        (NicKind.PF, Scrub.REBIND, False),
    ],
)
def test_driver_is_bound_anew_for_a_vf_alone(kind: NicKind, scrub: Scrub, *, wanted: bool) -> None:
    """A PF's driver would take its VFs along; it is restored as ever."""

    assert is_scrubbed(NicConfig(), kind, scrub) is wanted
    assert not is_scrubbed(NicConfig(mode=AttachMode.MACVLAN), kind, scrub)
