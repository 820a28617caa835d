"""Ethtool's bit sets and RDMA's attributes, as far as no captured message shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from berth.errors import RemoteProtocolError
from berth.host.netlink import attributes as nla
from berth.host.netlink import generic, rdma
from berth.host.netlink.message import Message

if TYPE_CHECKING:
    from collections.abc import Callable

FAMILY = 21


def _answer(*attributes: bytes) -> Message:
    return Message(type=FAMILY, body=b"\x0c\x01\0\0" + b"".join(attributes))


def _bits(kind: int, *names: str, nomask: bool = False, on: tuple[str, ...] = ()) -> bytes:
    listed = [
        nla.nest(1, nla.u32(1, 0), nla.text(2, name), nla.flag(3) if name in on else b"")
        for name in names
    ]
    return nla.nest(kind, nla.flag(1) if nomask else b"", nla.nest(3, *listed))


def test_features_are_set_by_name_with_a_mask() -> None:
    """Listed bits count, and those with a value are switched on."""

    request = generic.set_features(FAMILY, 3, {"rx-gro": True, "tx-checksum-ip-generic": False})

    assert (request.type, request.label) == (FAMILY, "ETHTOOL_MSG_FEATURES_SET 3")
    assert request.body == b"\x0c\x01\0\0" + nla.nest(1, nla.u32(1, 3)) + nla.nest(
        3,
        nla.nest(
            3,
            nla.nest(1, nla.text(2, "rx-gro"), nla.flag(3)),
            nla.nest(1, nla.text(2, "tx-checksum-ip-generic")),
        ),
    )


def test_features_that_were_not_switched_are_listed() -> None:
    """The kernel acknowledges them all the same, so the list decides."""

    assert generic.parse_refused_features(_answer(_bits(3, "rx-lro"))) == {"rx-lro"}
    assert generic.parse_refused_features(_answer()) == frozenset()


def test_private_flags_are_told_on_or_off() -> None:
    """With a mask each flag has its state; without one the listed ones are on."""

    masked = _answer(_bits(2, "legacy-rx", "vf-vlan-pruning", on=("legacy-rx",)))

    assert generic.parse_private_flags(masked) == {"legacy-rx": True, "vf-vlan-pruning": False}
    assert generic.parse_private_flags(_answer(_bits(2, "a", nomask=True))) == {"a": True}
    request = generic.set_private_flags(FAMILY, 3, {"legacy-rx": False})
    assert request.body.endswith(nla.nest(2, nla.nest(3, nla.nest(1, nla.text(2, "legacy-rx")))))
    assert generic.get_private_flags(FAMILY, 3).body[0] == 13


@pytest.mark.parametrize("speed", [0, 0xFFFFFFFF])
def test_unknown_speed_is_none(speed: int) -> None:
    """A link without carrier has no speed, whichever way its driver says so."""

    modes = generic.parse_link_modes(_answer(nla.u32(5, speed), nla.u8(6, 0xFF)))

    assert (modes.speed_mbps, modes.duplex) == (None, "")


def test_modes_are_listed() -> None:
    """Those that the link can do, whether they are advertised or not."""

    told = _answer(
        nla.u8(2, 1), _bits(3, "25000baseCR/Full", on=()), nla.u32(5, 25000), nla.u8(6, 0)
    )

    assert generic.parse_link_modes(told) == generic.LinkModes(
        speed_mbps=25000,
        duplex="half",
        autonegotiation=True,
        supported=frozenset({"25000baseCR/Full"}),
    )


def test_family_must_have_a_number_of_its_own() -> None:
    """An answer without number would send ethtool's messages to the control family."""

    with pytest.raises(RemoteProtocolError, match="a generic family with the number 0"):
        generic.parse_family(_answer())
    with pytest.raises(RemoteProtocolError, match="a generic message of 2 bytes"):
        generic.parse_family(Message(type=16, body=bytes(2)))


def test_rdma_requests_have_no_head() -> None:
    """Client 5 and the command make the type, and attributes begin at once."""

    assert rdma.dump_devices().type == 0x1401
    assert rdma.dump_devices().body == b""
    assert rdma.get_system().type == 0x1406
    assert rdma.get_port(2, 1).body == nla.u32(1, 2) + nla.u32(3, 1)
    move = rdma.move_device(2, 9, label="mlx5_0")
    assert (move.type, move.body) == (0x1402, nla.u32(1, 2) + nla.u32(68, 9))
    assert move.label == "RDMA_NLDEV_CMD_SET mlx5_0"
    umad = rdma.get_character_device(2, "umad", port=1)
    assert (umad.type, umad.body) == (
        0x140F,
        nla.text(69, "umad") + nla.u32(1, 2) + nla.u32(3, 1),
    )
    assert rdma.get_character_device(2, "uverbs").body == nla.text(69, "uverbs") + nla.u32(1, 2)


def test_rdma_answers_are_told() -> None:
    """Devices, ports, nodes and the namespace mode."""

    def answer(*attributes: bytes) -> Message:
        return Message(type=0x1401, body=b"".join(attributes))

    guid = nla.attribute(6, (7).to_bytes(8, "little"))
    assert rdma.parse_device(
        answer(nla.u32(1, 2), nla.text(2, "mlx5_0"), nla.u32(3, 1), guid)
    ) == rdma.RdmaDevice(index=2, name="mlx5_0", ports=1, node_guid=7)
    assert rdma.parse_port(
        answer(nla.u32(1, 2), nla.u32(3, 1), nla.u8(12, 4), nla.u32(50, 8))
    ) == rdma.RdmaPort(device=2, port=1, state=rdma.PORT_ACTIVE, link=8)
    assert rdma.parse_character_device(
        answer(nla.text(70, "uverbs0"), nla.attribute(72, (0xE7C0).to_bytes(8, "little")))
    ) == rdma.CharacterDevice(name="uverbs0", number=0xE7C0)
    assert rdma.parse_shared(answer(nla.u8(66, 1)))
    assert not rdma.parse_shared(answer(nla.u8(66, 0)))
    with pytest.raises(RemoteProtocolError, match="without the namespace mode"):
        rdma.parse_shared(answer())


@pytest.mark.parametrize(
    "parse",
    [
        generic.parse_features,
        generic.parse_link_modes,
        generic.parse_private_flags,
        generic.parse_refused_features,
    ],
)
def test_torn_bit_set_is_refused(parse: Callable[[Message], object]) -> None:
    """A nest whose length lies is the kernel's fault at any depth."""

    torn = [nla.attribute(kind, nla.attribute(3, b"\xff\0\x01\0")) for kind in (2, 3, 4, 5)]
    with pytest.raises(RemoteProtocolError):
        parse(_answer(*torn))
