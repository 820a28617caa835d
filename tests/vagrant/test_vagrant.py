"""The node in a VM that `vagrant up` gives: like bare metal, with the package installed."""

from __future__ import annotations

import json

import pytest

from tests.nspawn.container import poll
from tests.vagrant.host import LIMIT_S, Host

# Behind the PCIe root of each NUMA node a NIC, and two VFs that are made of it, with their groups.
NICS = {
    "0000:21:00.0": ("pf", ""),
    "0000:21:10.0": ("vf", "numa0"),
    "0000:21:10.2": ("vf", "numa0"),
    "0000:41:00.0": ("pf", ""),
    "0000:41:10.0": ("vf", "numa1"),
    "0000:41:10.2": ("vf", "numa1"),
}
# Each call is a connection, which costs an emulated node seconds: one does all that it can.
_MAKE_VFS = """
systemctl is-active berthd.service berthd.socket
for pf in 0000:21:00.0 0000:41:00.0; do
  cat /sys/bus/pci/devices/$pf/numa_node
  echo 2 >/sys/bus/pci/devices/$pf/sriov_numvfs
done
"""
_GIVE_VF_TO_VFIO = """
cd /sys/bus/pci/devices/0000:41:10.2
echo vfio-pci >driver_override
echo 0000:41:10.2 >driver/unbind
echo 0000:41:10.2 >/sys/bus/pci/drivers_probe
basename "$(readlink iommu_group)"
ls /dev/vfio
"""


@pytest.mark.parametrize("driver", ["kvm", "qemu"])
def test_vagrantfile_is_valid(bare_host: Host, driver: str) -> None:
    """It is valid for either driver, without a package too: a node without one can be ended."""

    said = bare_host.run("vagrant", "validate", BERTH_DRIVER=driver)

    assert said.strip() == "Vagrantfile validated successfully."


@pytest.mark.slow
def test_node_is_like_bare_metal_and_goes_without_a_trace(host: Host) -> None:
    """The node is ready, has hardware on two NUMA nodes, and is gone after `vagrant destroy`."""

    before = host.traces()
    host.run("vagrant", "up", "--provider=libvirt")

    assert host.node(_MAKE_VFS).split() == ["active", "active", "0", "1"]
    seen = poll(
        lambda: _nics(host), lambda nics: len(nics) == len(NICS), what="the VFs", limit_s=LIMIT_S
    )
    assert seen == NICS
    group, *nodes = host.node(_GIVE_VF_TO_VFIO).split()
    assert sorted(nodes) == sorted([group, "vfio"])

    assert host.traces()["machines"] != []
    host.run("vagrant", "destroy", "-f")
    after = host.traces()
    # The next node starts from it, so vagrant keeps the box's own disk.
    kept = [name for name in after["disks"] if "vagrant_box_image" in name]
    assert {**after, "disks": []} == before
    assert kept == after["disks"]


def _nics(host: Host) -> dict[str, tuple[str, str]]:
    """Kind and group of each NIC that the daemon knows, but for the link to the host."""
    told = json.loads(host.node("berth devices --json"))
    assert told["by"] == "daemon"
    return {
        nic["pci"]: (nic["kind"], nic["group"])
        for nic in told["devices"]
        if nic["driver"] != "virtio_net"
    }
