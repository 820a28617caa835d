"""Records to bytes and back: every value survives, and nothing else is taken for one."""

from __future__ import annotations

import json
from collections.abc import Callable
from ipaddress import ip_interface
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.errors import StateError
from berth.model.device import Version
from berth.model.envelope import Damaged
from berth.nic.record import NicRecord, Stage
from berth.node.records.document import claim_from_bytes, nic_from_bytes, to_bytes
from berth.node.records.record import SCHEMA, ClaimRecord
from tests.unit.nic.links import SANDBOX
from tests.unit.node.claimrecords import NIC, ORIGINALS, RECORD

WHERE = "/state/claims/u1.json"
texts = st.text(max_size=20)
numbers = st.integers(min_value=-(2**63), max_value=2**63)
interfaces = st.ip_addresses(v=4).map(lambda ip: ip_interface(f"{ip}/20")) | st.ip_addresses(
    v=6
).map(lambda ip: ip_interface(f"{ip}/60"))
networks = interfaces.map(lambda interface: interface.network)
attributes = st.booleans() | numbers | texts | st.builds(Version, texts)
jsons = st.recursive(
    st.none() | st.booleans() | numbers | st.floats(allow_nan=True) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@st.composite
def records(draw: Callable[[st.SearchStrategy[Any]], Any]) -> ClaimRecord:
    """Claim records with drawn values in each kind of field."""
    originals = attrs.evolve(
        ORIGINALS,
        name=draw(texts),
        mtu=draw(numbers),
        altnames=tuple(draw(st.lists(texts, max_size=3))),
        addresses=tuple(
            attrs.evolve(ORIGINALS.addresses[0], ip=ip)
            for ip in draw(st.lists(interfaces, max_size=3))
        ),
        routes=tuple(
            attrs.evolve(ORIGINALS.routes[0], destination=to)
            for to in draw(st.lists(networks, max_size=3))
        ),
        sysctls=draw(st.dictionaries(texts, numbers, max_size=3)),
        switches=draw(st.dictionaries(texts, st.booleans(), max_size=3)),
    )
    nic = attrs.evolve(
        NIC,
        originals=draw(st.none() | st.just(originals)),
        stage=draw(st.sampled_from(Stage)),
        sandbox=draw(st.none() | st.just(SANDBOX)),
        fault=draw(texts),
    )
    device = attrs.evolve(
        RECORD.devices[0],
        nic=draw(st.none() | st.just(nic)),
        attributes=draw(st.dictionaries(texts, attributes, max_size=4)),
    )
    devices = tuple(device for _ in range(draw(st.integers(0, 3))))
    return attrs.evolve(RECORD, devices=devices, revoked=draw(st.booleans()))


@given(records())
def test_record_round_trip(record: ClaimRecord) -> None:
    """Whatever a record holds is read as it was written."""

    assert claim_from_bytes(to_bytes(record), where=WHERE) == record


def test_nic_round_trip() -> None:
    """A NIC's record alone has a file of the same form."""

    assert nic_from_bytes(to_bytes(NIC), where=WHERE) == NIC
    with pytest.raises(Damaged):
        nic_from_bytes(to_bytes(RECORD), where=WHERE)


def test_file_is_readable_text() -> None:
    """A person with an editor finds the claim, the stage and the addresses."""

    document = json.loads(to_bytes(RECORD))

    assert document["schema"] == SCHEMA
    assert document["record"]["claim"] == {"namespace": "team", "name": "claim", "uid": "u1"}
    nic = document["record"]["devices"][0]["nic"]
    assert (nic["stage"], nic["originals"]["addresses"][0]["ip"]) == ("attached", "192.0.2.1/24")


@given(st.binary(max_size=200))
def test_random_bytes(content: bytes) -> None:
    """They are damaged, whatever they are."""

    with pytest.raises(Damaged):
        claim_from_bytes(content, where=WHERE)


@given(jsons)
def test_json_of_another_shape(value: Any) -> None:
    """So is any JSON that is not a record."""

    for document in (value, {"schema": SCHEMA, "record": value}):
        with pytest.raises(Damaged):
            claim_from_bytes(json.dumps(document).encode(), where=WHERE)


@given(st.data())
def test_cut_file(data: st.DataObject) -> None:
    """A file that was cut anywhere is damaged, but for the line's end."""

    content = to_bytes(RECORD)
    length = data.draw(st.integers(0, len(content) - 2))
    with pytest.raises(Damaged):
        claim_from_bytes(content[:length], where=WHERE)


def test_deep_nesting() -> None:
    """A file that would exhaust the parser is damaged as well."""

    with pytest.raises(Damaged, match="is no JSON"):
        claim_from_bytes(b"[" * 200_000, where=WHERE)


def changed(path: str, value: Any, *, remove: bool = False) -> bytes:
    """The record's file with another value at a path."""
    document = json.loads(to_bytes(RECORD))
    *steps, last = path.split(".")
    place = document["record"]
    for step in steps:
        place = place[int(step)] if isinstance(place, list) else place[step]
    if remove:
        del place[last]
    elif isinstance(place, list):
        place[int(last)] = value
    else:
        place[last] = value
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("prepared", 1, "record.prepared: is int where bool belongs"),
        ("generation", True, "record.generation: is bool where int belongs"),
        ("generation", "3", "record.generation: is str where int belongs"),
        ("devices.0.nic.stage", "gone", "record.devices[0].nic.stage: 'gone' is not a valid Stage"),
        (
            "devices.0.nic.originals.addresses.0.ip",
            "192.0.2.1/99",
            "record.devices[0].nic.originals.addresses[0].ip: ",
        ),
        ("devices.0.nic.originals.routes.0.metrics.0", [2], "metrics[0]: has 1 items where 2"),
        ("devices.0.nic.more", 1, "record.devices[0].nic.more: is not known"),
        ("devices", {}, "record.devices: is dict where list belongs"),
        ("claim", None, "record.claim: is no object"),
        ("devices.0.attributes.mtu", 1.5, "record.devices[0].attributes.mtu:"),
    ],
)
def test_value_of_another_type(path: str, value: Any, words: str) -> None:
    """A damaged file is told by the path of its first fault; nothing is guessed into a record."""

    with pytest.raises(Damaged) as caught:
        claim_from_bytes(changed(path, value), where=WHERE)

    assert str(caught.value).startswith(f"{WHERE}: ")
    assert words in str(caught.value)


def test_missing_values() -> None:
    """What has a default may be missing, as in a file of an older program; nothing else may."""

    older = claim_from_bytes(changed("revoked", None, remove=True), where=WHERE)

    assert older == RECORD
    with pytest.raises(Damaged, match=r"record\.boot_id: is missing"):
        claim_from_bytes(changed("boot_id", None, remove=True), where=WHERE)


@pytest.mark.parametrize("schema", [None, "1", 0, -1, True, 1.0, [1]])
def test_schema_that_never_was(schema: Any) -> None:
    """A file without a number that some program wrote is damaged, not of a newer program."""

    content = json.dumps({"schema": schema, "record": {}}).encode()
    with pytest.raises(Damaged):
        claim_from_bytes(content, where=WHERE)


def test_schema_of_a_newer_program() -> None:
    """Such a file is refused and left alone: it may hold what we would have to undo."""

    content = json.dumps({"schema": SCHEMA + 1, "record": {"new": 1}}).encode()
    with pytest.raises(StateError) as caught:
        claim_from_bytes(content, where=WHERE)

    assert not isinstance(caught.value, Damaged)
    assert str(caught.value) == (
        f"{WHERE}: has schema {SCHEMA + 1}: this program reads up to {SCHEMA}; "
        "install the berthd that wrote it, or unprepare its claim there first"
    )


def test_identity_follows_the_nic() -> None:
    """A virtual link under another index is another key, in the record as in the ledger."""

    moved: NicRecord = attrs.evolve(NIC, identity="link:boot:9")
    record = RECORD.with_nic(0, moved)

    assert record.devices[0].identity == "link:boot:9"
    assert record.devices[1] == RECORD.devices[1]
