"""Addresses for the far end of a cable."""

from __future__ import annotations

from ipaddress import ip_interface

import pytest

from berth.rehearsal.wire import neighbor_in


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("192.0.2.10/24", "192.0.2.2/24"),
        ("192.0.2.2/24", "192.0.2.3/24"),
        ("192.0.2.1/30", "192.0.2.2/30"),
        ("192.0.2.0/31", None),
        ("192.0.2.4/31", "192.0.2.5/31"),
        ("192.0.2.10/32", None),
        ("2001:db8::7/64", "2001:db8::2/64"),
        ("2001:db8::7/128", None),
    ],
)
def test_neighbor_is_another_host_of_the_network(address: str, expected: str | None) -> None:
    """It is in the network, is not the pod's, and is not what most people give a router."""

    assert neighbor_in(ip_interface(address)) == (expected and ip_interface(expected))
