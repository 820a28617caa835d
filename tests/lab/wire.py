"""The wire of a function, by the bytes that are on it: what tags frames have outside the guest."""

from __future__ import annotations

import socket
import struct
import time

import attrs

from tests.cluster.boxes import Box

_ALL, _ARP, _VLAN = 0x0003, 0x0806, 0x8100
_EVERYBODY = b"\xff" * 6
# linux/if_packet.h of 6.12: the kernel takes a frame's tag off and tells it beside the frame.
_SOL_PACKET, _AUXDATA, _AUXDATA_FORM, _TAG_VALID = 263, 8, "=IIIHHHH", 0x10
_REPLY = 2


@attrs.frozen
class Tag:
    """What is in a VLAN's tag."""

    vlan: int
    priority: int = attrs.field(default=0, kw_only=True)

    @property
    def word(self) -> int:
        """As it is on the wire."""
        return self.priority << 13 | self.vlan


@attrs.frozen(kw_only=True)
class Answer:
    """Who said that an address is theirs, and with which tag; ``None``: with none."""

    mac: str
    tag: Tag | None


class Wire:
    """The outer end of a function's wire.

    Args:
        box: In whose network it is.
        link: Its name there.
    """

    def __init__(self, box: Box, link: str) -> None:
        self._box = box
        self._link = link

    def who_has(self, address: str, tag: Tag | None, limit_s: float = 10.0) -> Answer | None:
        """Ask for an address with that tag, again and again; gives the first answer, if any."""
        with self._box.socket(socket.AF_PACKET, socket.SOCK_RAW) as wire:
            wire.bind((self._link, _ALL))
            wire.setsockopt(_SOL_PACKET, _AUXDATA, 1)
            wire.settimeout(0.5)
            own: bytes = wire.getsockname()[4]
            end = time.monotonic() + limit_s
            while time.monotonic() < end:
                wire.send(_question(own, address, tag))
                if answer := _hear(wire, address):
                    return answer
        return None


def _question(own: bytes, address: str, tag: Tag | None) -> bytes:
    tagged = struct.pack("!HH", _VLAN, tag.word) if tag else b""
    asked = struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1) + own + b"\0" * 4
    asked += b"\0" * 6 + socket.inet_aton(address)
    return _EVERYBODY + own + tagged + struct.pack("!H", _ARP) + asked


def _hear(wire: socket.socket, address: str) -> Answer | None:
    """The next answer for that address; ``None`` when nothing has come for a while."""
    while True:
        try:
            frame, beside, _, _ = wire.recvmsg(2048, socket.CMSG_SPACE(32))
        except TimeoutError:
            return None
        kind, body = struct.unpack_from("!H", frame, 12)[0], frame[14:]
        is_reply = kind == _ARP and body[7] == _REPLY
        if is_reply and body[14:18] == socket.inet_aton(address):
            return Answer(mac=body[8:14].hex(":"), tag=_tag(beside))


def _tag(beside: list[tuple[int, int, bytes]]) -> Tag | None:
    for level, kind, told in beside:
        if (level, kind) == (_SOL_PACKET, _AUXDATA):
            status, *_, word, _protocol = struct.unpack_from(_AUXDATA_FORM, told)
            if status & _TAG_VALID:
                return Tag(word & 0xFFF, priority=word >> 13)
    return None
