"""Device nodes by which a function comes into its machine."""

from __future__ import annotations

import pytest

from berth.host.nvidiafiles import HostNode
from berth.model.edits import NodeType
from berth.vfio.wayin import WayIn, addresses_entry, handed, node_paths


@pytest.mark.parametrize(
    ("way", "noiommu", "paths"),
    [
        (WayIn(), False, ("/dev/vfio/vfio", "/dev/vfio/40")),
        (WayIn(api_device=False), False, ("/dev/vfio/40",)),
        (WayIn(), True, ("/dev/vfio/vfio", "/dev/vfio/noiommu-40")),
        (WayIn(iommufd=True), False, ("/dev/iommu", "/dev/vfio/devices/vfio2")),
    ],
)
def test_nodes_follow_from_the_way(way: WayIn, noiommu: bool, paths: tuple[str, ...]) -> None:
    """By the group, without the interface's node, without an IOMMU, or by iommufd."""

    assert node_paths(way, group=40, name="vfio2", noiommu=noiommu) == paths


def test_what_is_not_known_is_no_path_of_a_node() -> None:
    """A function that is not bound yet has neither."""

    assert node_paths(WayIn(), group=None, name="")[-1] == "/dev/vfio/?"
    assert node_paths(WayIn(iommufd=True), group=None, name="")[-1] == "/dev/vfio/devices/?"


def test_node_is_handed_as_the_host_has_it() -> None:
    """Numbers, mode and owner: whoever may open it here may open it there."""

    node = HostNode(
        path="/dev/vfio/40", type=NodeType.CHAR, major=236, minor=0, mode=0o600, uid=1, gid=2
    )

    given = handed(node)

    assert (given.path, given.host_path, given.major, given.minor) == (
        *("/dev/vfio/40", "/dev/vfio/40"),
        *(236, 0),
    )
    assert (given.file_mode, given.uid, given.gid) == (0o600, 1, 2)


def test_addresses_stand_where_kubevirt_looks() -> None:
    """It writes underscores for slashes and dots alone: a hyphen stays in the name."""

    addresses = ["0000:81:00.0", "0000:3b:00.0"]

    assert addresses_entry("nvidia.com/mig-1g.5gb", addresses) == (
        "PCI_RESOURCE_NVIDIA_COM_MIG-1G_5GB=0000:3b:00.0,0000:81:00.0"
    )
