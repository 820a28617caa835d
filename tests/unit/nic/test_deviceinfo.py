"""What containers and CNI plugins are told of NICs that the device plugin gave."""

from __future__ import annotations

import json

import pytest

from berth.model.peripheral import PciInfo
from berth.nic.deviceinfo import environment, file_content, file_name

RESOURCE = "intel.com/sriov_net.a-b"


def info(address: str, **more: str) -> PciInfo:
    """What is told of a NIC."""
    return PciInfo(address=address, sections={"generic": {"deviceID": address}}, **more)


def test_environment_has_addresses_sorted_and_all_that_is_told() -> None:
    """Capitals, underscores for dots, and nothing else of the name is changed."""

    infos = [info("0000:41:10.3"), info("0000:41:10.1")]
    addresses, told = environment(RESOURCE, infos)

    assert addresses == "PCIDEVICE_INTEL_COM_SRIOV_NET_A-B=0000:41:10.1,0000:41:10.3"
    name, _, value = told.partition("=")
    assert name == "PCIDEVICE_INTEL_COM_SRIOV_NET_A-B_INFO"
    assert value == (
        '{"0000:41:10.1":{"generic":{"deviceID":"0000:41:10.1"}},'
        '"0000:41:10.3":{"generic":{"deviceID":"0000:41:10.3"}}}'
    )


def test_what_is_no_nic_is_told_nothing_of() -> None:
    """A container with GPUs finds no variable of NICs."""

    assert environment("nvidia.com/gpu", []) == ()


def test_file_tells_a_cni_plugin_what_it_needs() -> None:
    """As the device information specification has it; what is unknown is left out."""

    vf = info("0000:41:10.1", pf="0000:41:00.0", rdma_device="mlx5_3", vhost="/dev/vhost-net")

    assert json.loads(file_content(vf)) == {
        "type": "pci",
        "version": "1.1.0",
        "pci": {
            "pci-address": "0000:41:10.1",
            "pf-pci-address": "0000:41:00.0",
            "rdma-device": "mlx5_3",
            "vhost-net": "/dev/vhost-net",
        },
    }
    assert json.loads(file_content(info("0000:41:10.1")))["pci"] == {"pci-address": "0000:41:10.1"}


def test_virtual_link_has_no_file() -> None:
    """The form knows no device without an address."""

    assert file_content(info("nic-lab-left")) == b""


@pytest.mark.parametrize(
    ("id_", "name"),
    [
        ("0000:41:10.1", "intel.com-sriov_net.a-b-0000:41:10.1-device.json"),
        ("0000:41:10.1::3", "intel.com-sriov_net.a-b-0000:41:10.1::3-device.json"),
        ("0000:41:00.0/1", "intel.com-sriov_net.a-b-0000:41:00.0-1-device.json"),
        ("x" * 250, ""),
    ],
)
def test_file_is_named_by_resource_and_id(id_: str, name: str) -> None:
    """One name for each id, and none that leads out of the folder."""

    assert file_name(RESOURCE, id_) == name
