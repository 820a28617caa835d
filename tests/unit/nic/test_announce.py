"""Which addresses the kernel tells of when it is made to ask for them."""

from __future__ import annotations

from ipaddress import ip_address, ip_interface

import pytest

from berth.host.netlink.address import IFA_F_SECONDARY, Address
from berth.nic.announce import own_askers


def on_link(text: str, *, peer: str = "", scope: int = 0, flags: int = 0) -> Address:
    """An address of a link."""
    other = ip_address(peer) if peer else None
    return Address(index=7, ip=ip_interface(text), peer=other, scope=scope, flags=flags)


@pytest.mark.parametrize(
    ("addresses", "told"),
    [
        ([on_link("192.0.2.5/24"), on_link("198.51.100.5/32")], "192.0.2.5 198.51.100.5"),
        ([on_link("192.0.2.5/24"), on_link("192.0.2.6/24", flags=IFA_F_SECONDARY)], "192.0.2.5"),
        ([on_link("10.0.0.5/8"), on_link("10.0.0.7/32")], "10.0.0.5"),
        ([on_link("10.0.0.7/32"), on_link("10.0.0.5/8")], "10.0.0.7 10.0.0.5"),
        ([on_link("192.0.2.1/32", peer="192.0.2.2")], ""),
        ([on_link("192.0.2.1/24", peer="192.0.2.2")], "192.0.2.1"),
        ([on_link("192.0.2.1/24", peer="198.51.100.2"), on_link("198.51.100.5/32")], ""),
        ([on_link("192.0.2.5/24", scope=254)], ""),
        ([on_link("169.254.0.5/16", scope=253), on_link("2001:db8::5/64")], "169.254.0.5"),
    ],
)
def test_addresses_that_are_asked_for_in_their_own_name(
    addresses: list[Address], told: str
) -> None:
    """By the first of the link's that has them in its network, and none of the host's scope."""

    assert [str(ip) for ip in own_askers(addresses)] == told.split()
