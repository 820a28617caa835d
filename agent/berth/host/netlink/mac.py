"""Hardware addresses as text: lower case with colons, six octets or InfiniBand's twenty."""

from __future__ import annotations

from berth.errors import LocalProtocolError


def parse_mac(data: bytes) -> str:
    """Give an address as text, empty for no bytes."""
    return data.hex(":") if data else ""


def pack_mac(mac: str) -> bytes:
    """Give the bytes of an address.

    Raises:
        LocalProtocolError: The text is no hardware address.
    """
    try:
        return bytes.fromhex(mac.replace(":", ""))
    except ValueError as error:
        raise LocalProtocolError("netlink", f"{mac!r} is no hardware address") from error
