"""Claims on devices that stay where they are, beside NICs and beside the device plugin."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from berth.cdi.store import CdiStore
from berth.errors import ClaimError, Faults
from berth.metadata.store import MetadataStore
from berth.model.claim import ConfigSource, DeviceResult, OpaqueConfig
from berth.model.device import Exclusion
from berth.model.edits import Edits
from berth.model.peripheral import ABSENT, Peripheral
from berth.node.claims.handout import Handout
from berth.node.claims.recovery import holds_of
from berth.node.records.document import claim_from_bytes, to_bytes
from tests.unit.node.conftest import Node
from tests.unit.node.machine import FAST, claim, look, pod, result
from tests.unit.node.peripherals import USER, given, kvm, modem, renamed

MODEM = claim(result("modem-0", "serial"), name="serial")
MIXED = claim(result("modem-0", "serial"), result(FAST, "nic"), name="mixed")


def show(node: Node, *peripherals: Peripheral) -> None:
    """Let the machine have these, and its NICs."""
    node.eyes.show(look(peripherals=peripherals))


def kvm_share(number: int) -> DeviceResult:
    """One share of what several may hold."""
    return result(
        "kvm-dev-kvm",
        "kvm",
        share_id=f"0000000{number}-0000-4000-8000-000000000000",
        consumed={"berth.dev/slots": "1"},
    )


async def test_prepare_holds_and_remembers_what_is_given(node: Node) -> None:
    """Keys, nodes and attributes are in the record, so a restart needs nobody to ask."""

    show(node, modem())
    answer = await node.prepare(MODEM)

    assert [device.device for device in answer.devices] == ["modem-0"]
    record = node.record(MODEM)
    assert record.devices[0].peripheral == modem()
    assert [hold.key for hold in node.ledger.holds()] == list(modem().keys)
    assert claim_from_bytes(to_bytes(record), where="here") == record
    assert holds_of(record) == node.ledger.holds()


async def test_two_devices_of_one_path_inside_are_refused_for_one_request(node: Node) -> None:
    """A container gets all of a request; what two requests were given may be for two containers."""

    show(node, renamed(0), renamed(1))
    both = claim(result("modem-0", "serial"), result("modem-1", "serial"), name="both")
    each = claim(result("modem-0", "a"), result("modem-1", "b"), name="each")

    with pytest.raises(ClaimError, match=r"request serial: has two devices .* both be /dev/modem0"):
        await node.prepare(both)
    await node.prepare(each)


async def test_configuration_that_is_none_is_refused_for_any_device(node: Node) -> None:
    """All of a claim's faults at once, by their places, and nothing is left of the attempt."""

    show(node, modem())
    texts: list[Any] = [[], "x", None, 7, {"kind": "NicConfig"}, {"x": {}}, {"x": "y" * 2**20}]
    configs = [
        OpaqueConfig(index=number, source=ConfigSource.CLAIM, requests=(), parameters=text)
        for number, text in enumerate(texts)
    ]
    wish = claim(result("modem-0", "serial"), configs=configs)

    with pytest.raises(Faults) as refused:
        await node.prepare(wish)

    told = [str(fault) for fault in refused.value.faults]
    assert {text.partition("]")[0] for text in told} == {
        f"config[{number}" for number in range(len(texts))
    }
    assert node.traces() == {}


async def test_unprepare_leaves_nothing(node: Node) -> None:
    """There is nothing to bring home."""

    show(node, modem())
    await node.prepare(MIXED)
    await node.claims.unprepare(MIXED.ref)

    assert node.traces() == {}


async def test_no_runtime_is_needed_without_a_nic(node: Node) -> None:
    """Only NICs are moved by the runtime's hook."""

    node.closed.set("away")
    show(node, modem())

    await node.prepare(MODEM, limit_s=2)


async def test_several_pods_may_use_one_claim(node: Node) -> None:
    """What is not moved can be in two pods at once."""

    show(node, modem())
    both = attrs.evolve(MODEM, consumers=(pod("a"), pod("b")))
    await node.prepare(both)

    assert node.record(both).consumers == (pod("a"), pod("b"))


async def test_shares_up_to_the_slots(node: Node, autojump_clock: MockClock) -> None:
    """Three claims have the device, the fourth waits in vain."""

    show(node, kvm())
    for number in range(3):
        await node.prepare(claim(kvm_share(number), name=f"kvm-{number}"))

    with pytest.raises(ClaimError, match="kvm-dev-kvm"):
        await node.prepare(claim(kvm_share(3), name="kvm-3"))
    assert len(node.ledger.holds()) == 3


async def test_container_that_has_it_is_named_at_once(node: Node) -> None:
    """L2: the other door's holder, with its resource and since when."""

    show(node, modem())
    node.ledger.restore(given(modem(), bound=True, container=USER).holds)

    with pytest.raises(ClaimError) as caught:
        await node.prepare(MODEM)
    assert str(caught.value).startswith(
        "modem-0: is held by pod team/user, container main, through berth.dev/modem since 2026"
    )


async def test_container_not_named_yet_is_waited_for(
    node: Node, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """It may be free in a moment: a failed prepare costs its pod a minute."""

    show(node, modem())
    node.ledger.restore(given(modem()).holds)
    nursery.start_soon(node.prepare, MODEM)
    await wait_all_tasks_blocked()
    assert node.records.all() == ()

    node.ledger.release("g1")
    await wait_all_tasks_blocked()

    assert node.record(MODEM).prepared


async def test_admin_access_looks_beside_the_holder(node: Node) -> None:
    """No hold, and no second holder for whoever comes; it may look at what is not well."""

    show(node, modem())
    await node.prepare(MODEM)
    show(node, attrs.evolve(modem(), unhealthy="lost", held_by=("default/serial",)))
    admin = claim(result("modem-0", "look", admin_access=True), name="admin")
    await node.prepare(admin)

    assert [hold.holder for hold in node.ledger.holds()] == [MODEM.ref]
    assert holds_of(node.record(admin)) == ()


@pytest.mark.parametrize(
    "seen",
    [
        (),
        (attrs.evolve(modem(), unhealthy=ABSENT),),
        (attrs.evolve(modem(), exclusion=Exclusion(reason="ambiguous")),),
        (attrs.evolve(modem(), lacking=("/dev/nvidia-uvm",)),),
        (attrs.evolve(modem(), unhealthy="driver-mismatch"),),
    ],
)
async def test_what_is_not_there_is_waited_for(
    node: Node, nursery: trio.Nursery, autojump_clock: MockClock, seen: tuple[Peripheral, ...]
) -> None:
    """A device that is plugged in a moment later serves its claim."""

    show(node, *seen)
    nursery.start_soon(node.prepare, MODEM)
    await wait_all_tasks_blocked()
    assert node.records.all() == ()

    show(node, modem())
    await wait_all_tasks_blocked()

    assert node.record(MODEM).prepared


async def test_repeated_prepare_hands_out_the_nodes_of_now(node: Node) -> None:
    """Plugged in again, the same adapter has another number."""

    show(node, modem())
    await node.prepare(MODEM)
    show(node, modem(minor=7))

    await node.prepare(MODEM)

    held = node.record(MODEM).devices[0].peripheral
    assert held is not None
    assert held.edits.nodes[0].minor == 7


@pytest.mark.parametrize(
    "changes",
    [
        {"unhealthy": ABSENT},
        {"exclusion": Exclusion(reason="overlap")},
        {"lacking": ("/dev/nvidia-uvm",)},
        {"unhealthy": "lost"},
    ],
)
async def test_repeated_prepare_takes_no_nodes_away(node: Node, changes: dict[str, Any]) -> None:
    """A device that nobody could be given now has no nodes, and its claim would have none."""

    show(node, modem())
    await node.prepare(MODEM)
    before = node.record(MODEM)

    show(node, attrs.evolve(modem(), edits=Edits(), held_by=("default/serial",), **changes))
    await node.prepare(MODEM)

    assert node.record(MODEM) == before


async def test_start_writes_changed_nodes_anew(node: Node) -> None:
    """A driver may have been loaded anew while we were away; what is as it was is not written."""

    show(node, modem(), modem(1))
    await node.prepare(MODEM)
    await node.prepare(claim(result("modem-1", "serial"), name="other"))
    show(node, modem(minor=9), modem(1))
    node.papers.files.clear()

    await node.claims.renew()

    assert {uid for uid, _ in node.papers.files} == {MODEM.ref.uid}


async def test_files_give_each_kind_its_own(tmp_path: Path, node: Node) -> None:
    """A container that asks for the serial port gets its node, the marker, and nothing of NICs."""

    show(node, modem())
    await node.prepare(MIXED)
    handout = Handout(CdiStore("berth.dev", tmp_path), MetadataStore("berth.dev", tmp_path))
    await handout.write(node.record(MIXED))

    files = _files(tmp_path)
    uid = MIXED.ref.uid
    edits = _edits(files[f"berth.dev-generic_{uid}.json"])
    assert edits["env"] == [f"BERTH_CLAIM_{uid.replace('-', '')}=modem-0,{FAST}"]
    assert [(n["path"], n["major"], n["minor"]) for n in edits["deviceNodes"]] == [
        ("/dev/ttyUSB0", 188, 0)
    ]
    assert "deviceNodes" not in _edits(files[f"berth.dev-nic_{uid}.json"])
    ids = [device.cdi_ids[0] for device in handout.answer(node.record(MIXED)).devices]
    assert ids == [f"berth.dev/generic={uid}_modem-0", f"berth.dev/nic={uid}_{FAST}"]
    assert await handout.devices(uid) == ("modem-0", FAST)


async def test_files_of_an_onlooker_let_it_read(tmp_path: Path, node: Node) -> None:
    """Whoever only looks gets its own nodes, says so in the environment, and holds nothing."""

    show(node, modem())
    admin = claim(result("modem-0", "look", admin_access=True), name="admin")
    await node.prepare(admin)
    handout = Handout(CdiStore("berth.dev", tmp_path), MetadataStore("berth.dev", tmp_path))
    await handout.write(node.record(admin))

    edits = _edits(_files(tmp_path)["berth.dev-generic_uid-of-admin.json"])
    assert edits["env"] == ["DRA_ADMIN_ACCESS=true"]
    assert edits["deviceNodes"][0]["permissions"] == "r"


def _files(folder: Path) -> dict[str, Any]:
    return {path.name: json.loads(path.read_text()) for path in folder.glob("*.json")}


def _edits(document: Any) -> Any:
    (device,) = document["devices"]
    return device["containerEdits"]
