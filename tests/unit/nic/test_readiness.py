"""What a NIC's link says of whether a pod that was given it may be bound."""

from __future__ import annotations

import pytest

from berth.host.netlink.link import IFF_MULTICAST, IFF_UP, Link
from berth.nic.readiness import link_answer
from tests.unit.nic.links import link_of


@pytest.mark.parametrize(
    ("link", "ready", "reason"),
    [
        (None, False, "LinkElsewhere"),
        (link_of(flags=IFF_MULTICAST, carrier=True, operstate="up"), False, "LinkDown"),
        (link_of(carrier=False, operstate="down"), False, "NoCarrier"),
        (link_of(carrier=True, operstate="lowerlayerdown"), False, "NoCarrier"),
        (link_of(flags=IFF_UP, carrier=True, operstate="up"), True, "LinkUp"),
        (link_of(flags=IFF_UP, carrier=True, operstate="unknown"), True, "LinkUp"),
    ],
)
def test_link_is_ready_when_it_carries_data(link: Link | None, ready: bool, reason: str) -> None:
    """One that is set down is not, whatever its driver says."""

    answer = link_answer(link)

    assert (answer.ready, answer.reason) == (ready, reason)
