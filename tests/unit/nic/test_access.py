"""By which nodes a container reaches a NIC, and that all who are told of them are told alike."""

from __future__ import annotations

from typing import Any

import pytest

from berth.host.hardware import PciFunction
from berth.host.nicnodes import TUN, VHOST_NET, NicNodes
from berth.model.device import NicKind, NicMode
from berth.model.edits import DeviceNode, NodeType
from berth.nic.access import access_to, info_of
from berth.nic.survey import Found
from tests.unit.nic.machine import group

PF = "0000:41:00.0"
PATHS = ("/dev/vfio/vfio", "/dev/vfio/7", VHOST_NET, TUN)
NODES = NicNodes(
    known={
        path: DeviceNode(path=path, host_path=path, type=NodeType.CHAR, major=10, minor=1)
        for path in PATHS
    }
)
BOUND = Found(
    identity=f"pci:{PF}",
    kind=NicKind.PF,
    function=PciFunction(address=PF, driver="vfio-pci", iommu_group=7),
)


@pytest.mark.parametrize(
    ("keys", "paths"),
    [
        ({}, PATHS[:2]),
        ({"vhost": True}, PATHS),
        ({"defaults": {"vfio": {"vhost": True}}}, PATHS),
        ({"defaults": {"vfio": {"apiDevice": False}}}, PATHS[1:2]),
    ],
)
def test_cni_plugin_is_told_of_what_the_container_gets(
    keys: dict[str, Any], paths: tuple[str, ...]
) -> None:
    """However the group says that the host's packet queue goes with its functions."""

    machines = group("fast", mode=NicMode.VFIO, **keys)

    access = access_to(BOUND, machines, NODES)
    told = info_of(BOUND, machines, PF, access)

    assert tuple(each.path for each in access.nodes) == paths
    assert (told.vhost == VHOST_NET) == (VHOST_NET in paths) == ("vhost" in told.sections)
