"""Which devices a pod's binding waits for."""

from __future__ import annotations

import pytest

from berth.config.bind import BindWhen, GenericBind, NicBind
from berth.model.device import Device
from berth.readiness.demands import Demands

LINK_UP = NicBind(when=BindWhen.LINK_UP)
COMMAND = GenericBind(within_s=7)
DEMANDS = Demands(groups={("nic", "fast"): LINK_UP, ("generic", "fast"): COMMAND})


@pytest.mark.parametrize(
    ("type_", "asked"),
    [
        *((name, LINK_UP) for name in ("nic", "nic-shared", "nic-vfio", "rdma")),
        ("generic", COMMAND),
        *((name, None) for name in ("gpu", "mig", "vfio")),
    ],
)
def test_groups_of_one_name_ask_for_their_own_devices(
    type_: str, asked: NicBind | GenericBind | None
) -> None:
    """A group of GPUs may be called as one of NICs is."""

    device = Device(name="a", identity="a", type=type_, group="fast", attributes={})

    assert DEMANDS.of_device(device) == asked
