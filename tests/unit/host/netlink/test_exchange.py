"""The exchange core: which messages answer, and what ends it."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.errors import LocalProtocolError, RemoteProtocolError
from berth.host.netlink import attributes as nla
from berth.host.netlink.exchange import Exchange
from berth.host.netlink.message import (
    NLM_F_ACK_TLVS,
    NLM_F_CAPPED,
    NLM_F_DUMP,
    NLM_F_DUMP_INTR,
    NLMSG_DONE,
    NLMSG_ERROR,
    NLMSG_NOOP,
    NLMSG_OVERRUN,
    Message,
    Request,
    encode_message,
    parse_messages,
)
from tests.unit.host.netlink.strategies import FUZZ

ASK = Request(type=18, body=bytes(16), label="RTM_GETLINK 3")
DUMP = Request(type=18, flags=NLM_F_DUMP, body=bytes(16), label="RTM_GETLINK")


def _answer(kind: int, *, body: bytes = bytes(4), flags: int = 0, **key: int) -> bytes:
    key = {"sequence": 7, "port": 9} | key
    return encode_message(Message(type=kind, flags=flags, body=body, **key))


def test_request_asks_for_an_acknowledgement_and_a_dump_does_not() -> None:
    """REQUEST is on both; an acknowledgement after DONE would answer the next exchange."""

    (single,) = parse_messages(Exchange(ASK, sequence=7, port=9).data)
    (dump,) = parse_messages(Exchange(DUMP, sequence=7, port=9).data)

    assert (single.flags, single.sequence, single.port) == (0x5, 7, 9)
    assert dump.flags == 0x301


def test_request_ends_with_its_acknowledgement() -> None:
    """Answers are gathered till the ERROR message with number zero."""

    exchange = Exchange(ASK, sequence=7, port=9)

    assert not exchange.feed(_answer(16))
    assert exchange.feed(_answer(NLMSG_ERROR, body=bytes(20), flags=NLM_F_CAPPED))
    assert [message.type for message in exchange.answers] == [16]
    assert exchange.refusal is not None
    assert exchange.refusal.errno == 0
    assert exchange.blame() == ""


def test_dump_ends_with_done_in_any_datagram() -> None:
    """Parts and DONE may share a datagram or not."""

    exchange = Exchange(DUMP, sequence=7, port=9)

    assert not exchange.feed(_answer(16) + _answer(16))
    assert exchange.feed(_answer(16) + _answer(NLMSG_DONE))
    assert len(exchange.answers) == 3
    assert not exchange.interrupted


def test_answers_of_an_earlier_exchange_are_passed_over() -> None:
    """A reply left unread by a cancelled request must not answer the next one."""

    exchange = Exchange(ASK, sequence=7, port=9)

    assert not exchange.feed(_answer(16, sequence=6) + _answer(NLMSG_ERROR, sequence=6))
    assert not exchange.feed(_answer(16, port=8))
    assert not exchange.feed(_answer(NLMSG_NOOP))
    assert exchange.answers == []


@pytest.mark.parametrize("kind", [16, NLMSG_DONE])
def test_interrupted_dump_is_marked_and_read_to_its_end(kind: int) -> None:
    """One marked part voids the whole, and the exchange still goes on to DONE."""

    exchange = Exchange(DUMP, sequence=7, port=9)
    exchange.feed(_answer(16, flags=NLM_F_DUMP_INTR if kind == 16 else 0))

    assert exchange.feed(_answer(NLMSG_DONE, flags=NLM_F_DUMP_INTR if kind == NLMSG_DONE else 0))
    assert exchange.interrupted


def test_refusal_ends_a_dump_and_names_the_blamed_attribute() -> None:
    """The kernel's words come with the attribute that its offset leads to."""

    request = Request(type=16, body=bytes(16) + nla.text(3, "lo"), label="RTM_NEWLINK lo")
    exchange = Exchange(request, sequence=7, port=9)
    body = (-17).to_bytes(4, "little", signed=True) + exchange.data
    body += nla.text(1, "Name taken") + nla.u32(2, 32) + nla.u32(5, 50)

    assert exchange.feed(_answer(NLMSG_ERROR, body=body, flags=NLM_F_ACK_TLVS))
    assert exchange.refusal is not None
    assert exchange.refusal.errno == 17
    assert exchange.blame() == "Name taken (attribute 3) (attribute 50 is missing)"


def test_lost_data_is_the_kernels_fault() -> None:
    """OVERRUN says that an answer is missing: what is there cannot be trusted."""

    with pytest.raises(RemoteProtocolError, match="lost data"):
        Exchange(ASK, sequence=7, port=9).feed(_answer(NLMSG_OVERRUN))


@pytest.mark.parametrize("last", [_answer(NLMSG_DONE), b"\x01"])
def test_exchange_takes_nothing_after_its_end(last: bytes) -> None:
    """After the end, or after an error, further bytes are our mistake."""

    exchange = Exchange(DUMP, sequence=7, port=9)
    try:
        exchange.feed(last)
    except RemoteProtocolError:
        assert last == b"\x01"

    with pytest.raises(LocalProtocolError, match="after its end"):
        exchange.feed(_answer(16))


def test_nothing_is_blamed_before_the_end() -> None:
    """An exchange that goes on has no refusal to explain."""

    assert Exchange(ASK, sequence=7, port=9).blame() == ""


@FUZZ
@given(st.lists(st.binary(max_size=60), max_size=6))
def test_garbage_never_does_more_than_refuse(datagrams: list[bytes]) -> None:
    """Datagrams of any bytes end the exchange, go on, or are the peer's fault."""

    exchange = Exchange(DUMP, sequence=7, port=9)
    ended = False
    with contextlib.suppress(RemoteProtocolError):
        ended = any(exchange.feed(datagram) for datagram in datagrams)

    assert ended == (exchange.refusal is not None)
