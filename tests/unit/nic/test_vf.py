"""What was set of a VF through its PF, of what the PF shows."""

from __future__ import annotations

import attrs
import pytest

from berth.host.netlink.vf import Vf
from berth.nic.vf import NO_MAC, own_values
from berth.nic.view import View, take_originals
from tests.unit.nic.links import MAC, link_of

VF = Vf(number=1, vlan=7, spoof_check=True)
OTHER = "02:00:00:00:00:77"


@pytest.mark.parametrize(
    ("shown", "made_up", "was_set"),
    [
        (NO_MAC, True, NO_MAC),
        ("", False, NO_MAC),
        (MAC, True, NO_MAC),
        (MAC, False, MAC),
        (OTHER, True, OTHER),
    ],
)
def test_address_that_counts_as_set(shown: str, was_set: str, *, made_up: bool) -> None:
    """What the link has because its driver made it up was set by nobody; in doubt it was."""

    found = own_values(attrs.evolve(VF, mac=shown), link_of(), made_up=made_up)

    assert found == attrs.evolve(VF, mac=was_set)


def test_originals_of_a_vf_hold_what_was_set() -> None:
    """They stand beside the link's; of a NIC without a PF there are none."""

    view = View(link=link_of(), vf=attrs.evolve(VF, mac=MAC))

    assert take_originals(view, made_up=True).vf == attrs.evolve(VF, mac=NO_MAC)
    assert take_originals(view).vf == view.vf
    assert take_originals(View(link=link_of())).vf is None
