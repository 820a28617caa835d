"""What a container and CNI plugins are told of NICs that the device plugin gave.

A container reads it in its environment, a CNI plugin in a file for each id. Programs and plugins
that were made for other device plugins find both where they look for them.

Source: network.md §9; k8snetworkplumbingwg device-info specification 1.1.0 for the files.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from berth.model.names import is_pci_address
from berth.model.peripheral import PciInfo

VERSION: Final = "1.1.0"
"""Of the form of the files."""

_NAME_LIMIT: Final = 255
# Longest name of a file, in bytes.


def environment(resource: str, infos: Sequence[PciInfo]) -> tuple[str, ...]:
    """Entries of a container's environment; none for what is no NIC."""
    if not infos:
        return ()
    told = {info.address: info.sections for info in sorted(infos, key=lambda info: info.address)}
    name = _variable(resource)
    return (
        f"{name}={','.join(told)}",
        f"{name}_INFO={json.dumps(told, separators=(',', ':'))}",
    )


def _variable(resource: str) -> str:
    """Prefix and name in capitals, with ``_`` for dots; nothing else is changed."""
    prefix, _, name = resource.partition("/")
    return f"PCIDEVICE_{prefix}_{name}".upper().replace(".", "_")


def file_name(resource: str, id_: str) -> str:
    """The file of one id; empty when no file can have that name."""
    name = f"{resource.replace('/', '-')}-{id_.replace('/', '-')}-device.json"
    return name if len(name.encode()) <= _NAME_LIMIT else ""


def file_content(info: PciInfo) -> bytes:
    """What stands in the file of a NIC; nothing for one that is not on the PCI bus."""
    if not is_pci_address(info.address):
        return b""
    told = {
        "pci-address": info.address,
        "pf-pci-address": info.pf,
        "rdma-device": info.rdma_device,
        "vhost-net": info.vhost,
    }
    pci = {name: value for name, value in told.items() if value}
    return json.dumps({"type": "pci", "version": VERSION, "pci": pci}).encode() + b"\n"
