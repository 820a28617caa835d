"""The message by which an IPv6 address tells its link where it is."""

from __future__ import annotations

from ipaddress import IPv6Address

import pytest

from berth.errors import HostError
from berth.host.advertisement import advertise, encode_advertisement

IP = IPv6Address("2001:db8::5")
MAC = "02:00:00:00:00:07"


@pytest.mark.parametrize(("router", "flags"), [(False, "20"), (True, "a0")])
def test_advertisement(*, router: bool, flags: str) -> None:
    """It overrides what is known, as RFC 4861 has it; the sum is left to the kernel."""

    message = encode_advertisement(IP, MAC, router=router)

    assert message.hex() == f"88000000{flags}000000{IP.packed.hex()}0201020000000007"


def test_advertisement_of_infiniband() -> None:
    """Twenty octets, behind two that are nothing: three units of eight (RFC 4391 §9.3)."""

    mac = ":".join(["0a"] * 20)

    assert encode_advertisement(IP, mac, router=False)[24:].hex() == f"02030000{'0a' * 20}"


def test_link_that_is_not_there() -> None:
    """The error names the link, and what the system said."""

    with pytest.raises(HostError, match="by link 2147483647: cannot be sent: "):
        advertise(2**31 - 1, [IP], MAC, router=False)
