"""Attributes: what comes can be written again, and no length is believed unproven."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.errors import LocalProtocolError, RemoteProtocolError
from berth.host.netlink import attributes as nla
from berth.host.netlink.attributes import (
    MAX_ATTRIBUTES,
    MAX_DEPTH,
    MAX_PAYLOAD,
    Attributes,
    decode_text,
    encode_text,
    pack_attributes,
    parse_attributes,
)
from tests.unit.host.netlink.strategies import FUZZ, U16

ITEMS = st.lists(st.tuples(U16, st.binary(max_size=40)), max_size=12)


def test_bytes_are_those_of_the_kernel() -> None:
    """A name, a number and a nest lie as struct nlattr says: length, type, payload, padding."""

    data = nla.text(3, "ens1") + nla.u32(4, 1500) + nla.nest(18, nla.u8(1, 7))

    assert data == (
        b"\x09\x00\x03\x00ens1\x00\x00\x00\x00"
        b"\x08\x00\x04\x00\xdc\x05\x00\x00"
        b"\x0c\x00\x12\x80\x05\x00\x01\x00\x07\x00\x00\x00"
    )


@FUZZ
@given(ITEMS)
def test_unknown_attributes_survive_the_round_trip(items: list[tuple[int, bytes]]) -> None:
    """Every attribute, its flag bits and its order are kept, whether known here or not."""

    data = b"".join(nla.attribute(kind, payload) for kind, payload in items)
    parsed = parse_attributes(data)

    assert list(parsed.items) == items
    assert pack_attributes(parsed) == data
    assert parsed == Attributes(items)
    assert hash(parsed) == hash(Attributes(items))


@FUZZ
@given(st.binary(max_size=200))
def test_garbage_is_decoded_or_refused(data: bytes) -> None:
    """Any bytes give attributes that fit into them, or the peer's fault."""

    try:
        parsed = parse_attributes(data)
    except RemoteProtocolError:
        return

    assert sum(4 + len(payload) for _, payload in parsed) <= len(data)


@FUZZ
@given(ITEMS.filter(bool), st.data())
def test_cut_attributes_are_refused(items: list[tuple[int, bytes]], data: st.DataObject) -> None:
    """A cut anywhere but between two attributes or inside padding is a lie about a length."""

    whole = b"".join(nla.attribute(kind, payload) for kind, payload in items)
    cut = data.draw(st.integers(1, len(whole) - 1))
    ends: set[int] = set()
    offset = 0
    for _, payload in items:
        needed = offset + 4 + len(payload)
        offset += 4 + len(payload) + -len(payload) % 4
        ends.update(range(needed, offset + 1))

    if cut in ends:
        assert parse_attributes(whole[:cut]).items
    else:
        with pytest.raises(RemoteProtocolError):
            parse_attributes(whole[:cut])


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"\x00\x00\x03\x00", "claims a length of 0 bytes"),
        (b"\x03\x00\x03\x00", "claims a length of 3 bytes"),
        (b"\x09\x00\x03\x00\x00\x00\x00\x00", "it must be from 4 to the 8 that are left"),
        (b"\x04\x00\x03\x00\x01\x02\x03", "3 bytes left over"),
    ],
)
def test_lying_length_is_refused_with_what_was_found(data: bytes, told: str) -> None:
    """The error names the attribute's claim and what would have been possible."""

    with pytest.raises(RemoteProtocolError, match=told):
        parse_attributes(data)


def test_nests_are_read_to_the_limit_and_not_below() -> None:
    """Seven nests in each other are read, the eighth is the peer's fault."""

    data = nla.u8(1, 7)
    for _ in range(MAX_DEPTH):
        data = nla.nest(1, data)
    found = parse_attributes(data)
    for _ in range(MAX_DEPTH - 1):
        found = found.nest(1)

    with pytest.raises(RemoteProtocolError, match="nested 8 deep"):
        found.nest(1)


def test_too_many_attributes_are_refused() -> None:
    """A row may hold 65535 attributes and not one more."""

    one = nla.flag(1)

    assert len(parse_attributes(one * MAX_ATTRIBUTES).items) == MAX_ATTRIBUTES
    with pytest.raises(RemoteProtocolError, match="more than 65535"):
        parse_attributes(one * (MAX_ATTRIBUTES + 1))


def test_payload_fits_to_its_last_byte() -> None:
    """An attribute carries 65531 bytes; one more is our fault, not the peer's."""

    assert parse_attributes(nla.attribute(9, bytes(MAX_PAYLOAD))).raw(9) == bytes(MAX_PAYLOAD)
    with pytest.raises(LocalProtocolError, match="65532 bytes for attribute 9"):
        nla.attribute(9, bytes(MAX_PAYLOAD + 1))


def test_numbers_are_read_as_written() -> None:
    """Each width comes back, big-endian ones too, and absence gives the default."""

    found = parse_attributes(
        nla.u8(1, 0xFE)
        + nla.u16(2, 0xFEDC)
        + nla.u16_big(3, 0x8100)
        + nla.u32(4, 0xFEDCBA98)
        + nla.s32(5, -2)
        + nla.attribute(6, (2**63).to_bytes(8, "little"))
    )

    assert (found.u8(1), found.u16(2), found.u16_big(3)) == (0xFE, 0xFEDC, 0x8100)
    assert (found.u32(4), found.s32(5), found.u64(6)) == (0xFEDCBA98, -2, 2**63)
    assert found.raw(3) == b"\x81\x00"
    assert found.u32(99, 12) == 12


def test_number_of_another_width_is_refused() -> None:
    """Two bytes where four belong are not padded."""

    with pytest.raises(RemoteProtocolError, match=r"carries 2 bytes: a number of 4 bytes"):
        parse_attributes(nla.u16(4, 1)).u32(4)


def test_number_beyond_its_width_is_our_fault() -> None:
    """A value that does not fit is told before it is sent."""

    with pytest.raises(LocalProtocolError, match="-1 for attribute 4: it must fit 4 bytes"):
        nla.u32(4, -1)


def test_name_with_a_nul_is_our_fault() -> None:
    """The kernel would see a shorter name than the one that was meant."""

    with pytest.raises(LocalProtocolError, match="a NUL inside"):
        nla.text(3, "eth0\0x")


@FUZZ
@given(st.binary(max_size=15).filter(lambda data: b"\0" not in data))
def test_names_that_are_no_text_come_back(data: bytes) -> None:
    """The kernel takes any bytes as a name, and a path made from it must find it again."""

    assert encode_text(decode_text(data + b"\0rest")) == data


def test_repeated_attributes_are_all_there() -> None:
    """A list has several attributes of a type; the last one counts where one is meant."""

    found = parse_attributes(nla.text(53, "a") + nla.u8(1, 1) + nla.text(53, "b"))

    assert found.each(53) == (b"a\0", b"b\0")
    assert found.text(53) == "b"
    assert 53 in found
    assert 54 not in found
    assert found.nest(54) == Attributes()


def test_representation_shows_what_is_inside() -> None:
    """A failed assertion over attributes is readable."""

    assert repr(parse_attributes(nla.u8(1, 7))) == "Attributes(((1, b'\\x07'),))"
