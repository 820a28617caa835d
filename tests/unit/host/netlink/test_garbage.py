"""Every decoder against bytes that no kernel sent: a value, or the peer's fault, nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.errors import RemoteProtocolError
from berth.host.netlink import generic, rdma
from berth.host.netlink.address import parse_address
from berth.host.netlink.events import parse_event
from berth.host.netlink.link import parse_link
from berth.host.netlink.message import Message, parse_messages, parse_refusal
from berth.host.netlink.neighbor import parse_neighbor
from berth.host.netlink.nexthop import parse_next_hop
from berth.host.netlink.nsid import parse_nsid
from berth.host.netlink.route import parse_route
from berth.host.netlink.rule import parse_rule
from tests.unit.host.netlink.capture import load, load_bytes
from tests.unit.host.netlink.strategies import FUZZ, U16

if TYPE_CHECKING:
    from collections.abc import Callable

PARSERS: dict[str, Callable[[Message], object]] = {
    "link": parse_link,
    "address": parse_address,
    "route": parse_route,
    "rule": parse_rule,
    "neighbor": parse_neighbor,
    "nexthop": parse_next_hop,
    "nsid": parse_nsid,
    "refusal": parse_refusal,
    "family": generic.parse_family,
    "features": generic.parse_features,
    "linkmodes": generic.parse_link_modes,
}
HEADLESS: dict[str, Callable[[Message], object]] = {
    "privateflags": generic.parse_private_flags,
    "refusedfeatures": generic.parse_refused_features,
    "rdmadevice": rdma.parse_device,
    "rdmaport": rdma.parse_port,
    "rdmashared": rdma.parse_shared,
    "rdmanode": rdma.parse_character_device,
}
MESSAGES = load()
DATAGRAMS = load_bytes()


T = TypeVar("T")


def _outcome(parse: Callable[[T], object], data: T) -> object:
    """Give what a decoder makes of its input: a value, or the fault that it finds with it."""
    try:
        return parse(data)
    except RemoteProtocolError as error:
        return error


def _events(datagram: bytes) -> list[object]:
    return [parse_event(message, 3) for message in parse_messages(datagram)]


@pytest.mark.parametrize("table", sorted(PARSERS | HEADLESS))
@FUZZ
@given(U16, st.binary(max_size=120))
def test_random_body_is_decoded_or_refused(table: str, kind: int, body: bytes) -> None:
    """No body makes a decoder fail in another way, or not end."""

    assert repr(_outcome((PARSERS | HEADLESS)[table], Message(type=kind, body=body)))


@pytest.mark.parametrize("table", sorted(PARSERS))
@FUZZ
@given(st.data())
def test_changed_message_is_decoded_or_refused(table: str, data: st.DataObject) -> None:
    """Real messages with some bytes changed reach deeper than random ones."""

    whole = bytearray(data.draw(st.sampled_from(MESSAGES[table])).body)
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    changed = Message(type=MESSAGES[table][0].type, body=bytes(whole))

    assert repr(_outcome(PARSERS[table], changed))


@pytest.mark.parametrize("table", sorted(PARSERS))
def test_message_cut_anywhere_is_decoded_or_refused(table: str) -> None:
    """A body that ends early never reads beyond its end."""

    message = MESSAGES[table][-1]
    outcomes = [
        _outcome(PARSERS[table], attrs.evolve(message, body=message.body[:cut]))
        for cut in range(0, len(message.body), 3)
    ]

    assert any(isinstance(outcome, RemoteProtocolError) for outcome in outcomes)


@FUZZ
@given(st.sampled_from(sorted(DATAGRAMS)), st.data())
def test_changed_datagram_makes_events_or_is_refused(table: str, data: st.DataObject) -> None:
    """The same through heads and dispatch, as an event socket reads it."""

    whole = bytearray(b"".join(DATAGRAMS[table][:3]))
    for _ in range(data.draw(st.integers(0, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))

    outcome = _outcome(_events, bytes(whole))

    assert isinstance(outcome, (list, RemoteProtocolError))
