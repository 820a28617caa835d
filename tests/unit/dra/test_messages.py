"""Claims from kubelet's messages, and what became of them back into messages."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.dra.messages import (
    CLAIMS_LIMIT,
    DIALECTS,
    Dialect,
    Requested,
    read_claims,
    read_ended_claims,
)
from berth.errors import RemoteProtocolError
from berth.model.claim import ClaimRef, PreparedClaim, PreparedDevice
from berth.model.names import TEXT_LIMIT
from berth.pb import dra_v1_pb2

UID = "7f0f7b8e-5a3f-4a58-9a4b-6d7a2c9b0b11"
REF = ClaimRef(namespace="ns", name="claim", uid=UID)
PREPARED = PreparedClaim(
    ref=REF,
    devices=(
        PreparedDevice(
            requests=("nic",),
            pool="n/nic",
            device="nic-1",
            cdi_ids=("berth.dev/nic=a", "berth.dev/metadata=b"),
            share_id="share-1",
        ),
        PreparedDevice(requests=("gpu",), pool="n", device="gpu-1", cdi_ids=()),
    ),
)


def claim(uid: str = UID, namespace: str = "ns", name: str = "claim") -> dra_v1_pb2.Claim:
    """Give a claim as kubelet sends it."""
    return dra_v1_pb2.Claim(namespace=namespace, uid=uid, name=name)


def test_read_claims_gives_each_claim_once_in_order() -> None:
    """A claim that is asked for twice is worked on once."""

    requested = read_claims([claim("b"), claim("a"), claim("b")])

    assert [ref.uid for ref in requested.claims] == ["b", "a"]
    assert requested.settled == {}


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        (claim(""), "UID ''"),
        (claim("../../etc"), "UID '../../etc'"),
        (claim("a/b"), "UID 'a/b'"),
        (claim("."), "UID '.'"),
        (claim("a" * 129), "UID 'aaaa"),
        (claim("x", namespace=""), "namespace has 0 characters"),
        (claim("x", name="n" * 254), "name has 254 characters"),
        (
            claim("x", namespace="../../../api/v1/secrets"),
            "namespace '../../../api/v1/secrets' is not",
        ),
        (claim("x", name="../c"), "name '../c' is not one: it must be a DNS subdomain"),
        (claim("x", name="a..b"), "name 'a..b' is not"),
        (claim("x", name="c?limit=1"), "name 'c?limit=1' is not"),
        (claim("x", name="c\n"), r"name 'c\n' is not"),
        (claim(UID, name="other"), "twice, as ns/claim and as ns/other"),
    ],
)
def test_read_claims_answers_what_cannot_be_a_claim(bad: dra_v1_pb2.Claim, text: str) -> None:
    """What becomes a path and is no name is refused by name, beside the healthy claims."""

    requested = read_claims([claim("healthy"), claim(), bad])

    assert ClaimRef(namespace="ns", name="claim", uid="healthy") in requested.claims
    assert text in str(requested.settled[bad.uid])
    assert bad.uid not in {ref.uid for ref in requested.claims}


@pytest.mark.parametrize("read", [read_claims, read_ended_claims])
def test_claims_of_a_request_are_bounded(read: Callable[[list[Any]], Requested]) -> None:
    """More than a pod can have are refused as a whole, without an entry for each."""

    many = [claim(f"u{number}") for number in range(CLAIMS_LIMIT + 1)]

    assert len(read(many[:-1]).claims) == CLAIMS_LIMIT
    with pytest.raises(RemoteProtocolError, match=f"{CLAIMS_LIMIT + 1} claims: .* at most"):
        read(many)


def test_read_ended_claims_never_holds_up_a_pod() -> None:
    """What cannot have been prepared is undone; names do not matter any more."""

    requested = read_ended_claims([claim("a", name=""), claim("../x"), claim("")])

    assert [ref.uid for ref in requested.claims] == ["a"]
    assert requested.settled == {"../x": None, "": None}


@given(st.lists(st.tuples(st.text(), st.text(), st.text()), max_size=20))
def test_read_claims_settles_every_uid_whatever_comes(texts: list[tuple[str, str, str]]) -> None:
    """Each UID of the request is worked on or answered, and never both."""

    claims = [
        claim(uid, namespace, name)
        for uid, namespace, name in texts
        if all(text.isprintable() for text in (uid, namespace, name))
    ]
    for requested in (read_claims(claims), read_ended_claims(claims)):
        taken = {ref.uid for ref in requested.claims}

        assert taken | set(requested.settled) == {item.uid for item in claims}
        assert taken.isdisjoint(requested.settled)


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.version)
def test_prepare_answer_tells_devices_and_errors(dialect: Dialect) -> None:
    """An entry for every UID, devices verbatim, the share where there is one and v1 only."""

    answer = dialect.prepare_answer({UID: PREPARED, "bad": "no such device"})
    read = dialect.prepare_reply.FromString(answer.SerializeToString())
    entries = read.claims  # type: ignore[attr-defined] # either version has it
    first, second = entries[UID].devices

    assert set(entries) == {UID, "bad"}
    assert (entries["bad"].error, len(entries["bad"].devices)) == ("no such device", 0)
    assert entries[UID].error == ""
    assert list(first.request_names) == ["nic"]
    assert (first.pool_name, first.device_name) == ("n/nic", "nic-1")
    assert list(first.cdi_device_ids) == ["berth.dev/nic=a", "berth.dev/metadata=b"]
    assert getattr(first, "share_id", "none") == ("share-1" if dialect.shares else "none")
    assert not (dialect.shares and second.HasField("share_id"))


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.version)
def test_unprepare_answer_tells_success_by_an_empty_entry(dialect: Dialect) -> None:
    """Kubelet misses a UID that has no entry."""

    answer = dialect.unprepare_answer({UID: None, "bad": "still in use"})
    entries = dialect.unprepare_reply.FromString(answer.SerializeToString()).claims  # type: ignore[attr-defined] # either version has it

    assert {uid: entry.error for uid, entry in entries.items()} == {UID: "", "bad": "still in use"}


def test_prepare_answer_cuts_a_long_error_in_the_middle() -> None:
    """Place and mend stand at the ends of our errors; both survive."""

    answer = DIALECTS[0].prepare_answer({"a": "where " + "x" * 9000 + " mend"})
    text = answer.claims["a"].error  # type: ignore[attr-defined] # v1 has it

    assert text.startswith("where ")
    assert text.endswith(" mend")
    assert len(text) <= TEXT_LIMIT + 1
