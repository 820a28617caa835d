"""What several devices add to one container."""

from __future__ import annotations

import attrs

from berth.model.edits import DeviceNode, Edits, Mount, NodeType, clash

NODE = DeviceNode(
    path="/dev/modem0", host_path="/dev/ttyUSB0", type=NodeType.CHAR, major=188, minor=0
)
MOUNT = Mount(host_path="/etc/alsa", container_path="/etc/alsa", options=("ro",))


def test_what_several_devices_share_is_no_clash() -> None:
    """Control nodes and libraries are the same for all of them."""

    one = Edits(nodes=(NODE,), mounts=(MOUNT,))

    assert clash([one, one, Edits(nodes=(attrs.evolve(NODE, permissions="r"),))]) == ""


def test_path_that_would_be_two_things_is_named() -> None:
    """Two nodes, two mounts, or one of each."""

    other = attrs.evolve(NODE, host_path="/dev/ttyUSB1", minor=1)
    elsewhere = attrs.evolve(MOUNT, host_path="/etc/other")
    over = attrs.evolve(MOUNT, container_path="/dev/modem0")

    assert clash([Edits(nodes=(NODE,)), Edits(nodes=(other,))]) == "/dev/modem0"
    assert clash([Edits(mounts=(MOUNT,)), Edits(mounts=(elsewhere,))]) == "/etc/alsa"
    assert clash([Edits(nodes=(NODE,), mounts=(over,))]) == "/dev/modem0"
