"""Message heads, the kernel's refusals, and what it says with them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.errors import LocalProtocolError, RemoteProtocolError
from berth.host.netlink import attributes as nla
from berth.host.netlink.message import (
    NLM_F_ACK_TLVS,
    NLM_F_CAPPED,
    NLMSG_DONE,
    NLMSG_ERROR,
    Message,
    Refusal,
    attribute_at,
    encode_message,
    parse_messages,
    parse_refusal,
)
from tests.unit.host.netlink.strategies import FUZZ, U16, U32

MESSAGES = st.lists(
    st.builds(
        Message,
        type=U16,
        flags=U16,
        sequence=U32,
        port=U32,
        body=st.binary(max_size=40).map(lambda body: body + bytes(-len(body) % 4)),
    ),
    max_size=5,
)


@FUZZ
@given(MESSAGES)
def test_several_messages_in_one_datagram_come_back(messages: list[Message]) -> None:
    """A datagram is taken apart into exactly what was put into it."""

    assert list(parse_messages(b"".join(map(encode_message, messages)))) == messages


@FUZZ
@given(st.binary(max_size=120))
def test_garbage_is_decoded_or_refused(data: bytes) -> None:
    """Any bytes give messages that fit into them, or the peer's fault."""

    try:
        messages = parse_messages(data)
    except RemoteProtocolError:
        return

    assert sum(16 + len(message.body) for message in messages) <= len(data)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (bytes(15), "15 bytes left over"),
        (bytes(16), "claims a length of 0 bytes"),
        (b"\x0f" + bytes(15), "claims a length of 15 bytes"),
        (b"\x11" + bytes(15), "it must be from 16 to the 16 that are left"),
    ],
)
def test_lying_message_length_is_refused(data: bytes, told: str) -> None:
    """The error names the claim and what would have been possible."""

    with pytest.raises(RemoteProtocolError, match=told):
        parse_messages(data)


def test_field_that_does_not_fit_is_our_fault() -> None:
    """A message type has 16 bits."""

    with pytest.raises(LocalProtocolError, match="message 65536 cannot be written"):
        encode_message(Message(type=65536))


def _error(
    number: int, *tells: bytes, request: bytes = bytes(16), flags: int = NLM_F_ACK_TLVS
) -> Message:
    body = number.to_bytes(4, "little", signed=True) + request + b"".join(tells)
    return Message(type=NLMSG_ERROR, flags=flags, body=body)


def test_acknowledgement_is_a_refusal_with_number_zero() -> None:
    """The kernel acknowledges by an ERROR message, with our head repeated."""

    assert parse_refusal(_error(0, flags=NLM_F_CAPPED)) == Refusal(errno=0)


def test_refusal_tells_number_words_and_attribute() -> None:
    """The kernel's words and the offset of what it objects to follow the repeated request."""

    request = encode_message(Message(type=16, body=bytes(16) + nla.text(3, "eth0")))
    told = parse_refusal(_error(-17, nla.text(1, "Unable to use"), nla.u32(2, 32), request=request))

    assert told == Refusal(errno=17, words="Unable to use", offset=32)
    assert attribute_at(request, told.offset) == 3


def test_capped_refusal_repeats_only_the_head() -> None:
    """With CAPPED the explanation begins behind the head, whatever length the head tells."""

    head = encode_message(Message(type=16, body=bytes(40)))[:16]
    flags = NLM_F_ACK_TLVS | NLM_F_CAPPED
    told = parse_refusal(_error(-22, nla.u32(5, 50), request=head, flags=flags))

    assert told == Refusal(errno=22, missing=50)


def test_dump_ends_with_a_number_of_its_own() -> None:
    """A DONE message may refuse as well; its explanation follows the number at once."""

    body = (-16).to_bytes(4, "little", signed=True) + nla.text(1, "busy")
    done = Message(type=NLMSG_DONE, flags=NLM_F_ACK_TLVS, body=body)

    assert parse_refusal(done) == Refusal(errno=16, words="busy")
    assert parse_refusal(Message(type=NLMSG_DONE)) == Refusal(errno=0)
    assert parse_refusal(Message(type=NLMSG_DONE, body=bytes(4))) == Refusal(errno=0)


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (Message(type=NLMSG_ERROR, body=b"\x01"), "an answer of 1 bytes without number"),
        (_error(1), "error number 1: it must not be positive"),
        (_error(-1, request=bytes(8)), "repeats 8 bytes of the request"),
        (_error(-1, request=b"\xff" + bytes(15)), "repeats a request of 255 bytes"),
        (_error(-1, request=b"\x08" + bytes(15)), "repeats a request of 8 bytes"),
        (_error(-1, b"\x01\x00\x00\x00", request=b"\x10" + bytes(15)), "claims a length of 1"),
    ],
)
def test_malformed_refusal_is_the_kernels_fault(message: Message, told: str) -> None:
    """A refusal is believed no more than any other message."""

    with pytest.raises(RemoteProtocolError, match=told):
        parse_refusal(message)


@FUZZ
@given(st.sampled_from([NLMSG_ERROR, NLMSG_DONE]), U16, st.binary(max_size=80))
def test_garbage_refusal_is_read_or_refused(kind: int, flags: int, body: bytes) -> None:
    """Any body gives a refusal or the peer's fault."""

    try:
        told = parse_refusal(Message(type=kind, flags=flags, body=body))
    except RemoteProtocolError:
        return

    assert told.errno >= 0


@pytest.mark.parametrize("offset", [0, 15, 33, 1000])
def test_offset_beside_the_request_names_no_attribute(offset: int) -> None:
    """A wrong offset is not followed."""

    assert attribute_at(bytes(36), offset) is None
