"""Which attributes generic devices carry, and what each of them says.

Every own attribute stands on all generic devices, those that other groups name too, with a neutral
value where it is unknown: a CEL selector that reads a key which one matching device lacks stops the
allocation of every pod that uses it. Only the standard ones are left out when unknown.

Source: GH §1.3, §4; KC §4.7 for the standard ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from berth.config.generic import GenericGroup
from berth.errors import printable
from berth.host.nodefacts import DevNode
from berth.model.device import Attribute, Version

TYPE: Final = "generic"
"""Value of the attribute ``type``, and the kind in CDI."""

STANDARD: Final = "resource.kubernetes.io"
"""Domain of the attributes that drivers have in common."""

TEXT_LIMIT: Final = 64
"""Longest text, in bytes."""


def neutral(groups: Iterable[GenericGroup]) -> Mapping[str, Attribute]:
    """The operators' own attributes with their neutral values."""
    return {name: _neutral(value) for group in groups for name, value in group.attributes.items()}


def attributes(
    node: DevNode, group: GenericGroup, own: Mapping[str, Attribute]
) -> Mapping[str, Attribute]:
    """All attributes of a device, the standard ones as far as they are known.

    Args:
        own: What `neutral` gave for all groups.
    """
    usb = node.usb
    serial = (usb.serial if usb else "") or node.properties.get("ID_SERIAL_SHORT", "")
    model = (usb.name if usb else "") or node.properties.get("ID_MODEL", "")
    return {
        **own,
        **standard(node),
        "type": TYPE,
        "group": group.name,
        "node": _exact(node.path),
        "subsystem": _exact(node.subsystem),
        "usbVendor": usb.vendor if usb else "",
        "usbProduct": usb.product if usb else "",
        "serial": _exact(serial),
        "model": _cut(model),
        **group.attributes,
    }


def standard(node: DevNode) -> Mapping[str, Attribute]:
    """The attributes that drivers have in common, of the PCI function above a node."""
    function = node.pci
    values: dict[str, Attribute] = {}
    if function is None:
        return values
    if function.is_standard:
        values[f"{STANDARD}/pciBusID"] = function.address
        if function.pcie_root:
            values[f"{STANDARD}/pcieRoot"] = function.pcie_root
    if function.numa_node is not None:
        values[f"{STANDARD}/numaNode"] = function.numa_node
    return values


def _neutral(value: Attribute) -> Attribute:
    if isinstance(value, Version):
        return Version("0.0.0")
    if isinstance(value, bool):
        return False
    return 0 if isinstance(value, int) else ""


def _exact(text: str) -> str:
    """A text that selectors compare; the neutral value where it does not fit whole."""
    return text if text.isprintable() and len(text.encode()) <= TEXT_LIMIT else ""


def _cut(text: str) -> str:
    """A description, cut at a character."""
    return printable(text).encode()[:TEXT_LIMIT].decode(errors="ignore")
