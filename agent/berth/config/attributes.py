"""The operator's own attributes of devices: names that may be taken, values that slices hold."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

import attrs
from typing_extensions import override

from berth.config.finding import Cursor
from berth.config.forms import Form
from berth.model.device import Attribute, Version
from berth.model.names import is_qualified_name

VALUE_LIMIT: Final = 64
"""Longest string or version, in bytes. Source: ``resource.k8s.io/v1`` DeviceAttribute."""

RESERVED: Final = frozenset(
    {
        *("type", "group", "kind", "ifName", "driver", "linkType", "portName", "vendorID"),
        *("deviceID", "subsystemID", "productName", "mac", "mtu", "maxMTU", "speedMbps", "sriov"),
        *("numVFs", "totalVFs", "pfName", "pfPciBusID", "vfIndex", "pfDeviceID", "switchID"),
        *("rdma", "rdmaDevice", "rdmaNetns", "iommuGroup", "ptp", "carrier", "operState"),
        *("ipv4", "ipv6", "slots", "bandwidth"),
        *("pciAddress", "numaNode", "encapsulation", "virtual", "sriovVfs", "isSriovVf"),
    }
)
"""Bare names that berth publishes itself, aliases and capacities included (network.md §2)."""

RESERVED_DOMAINS: Final = ("kubernetes.io", "k8s.io", "cni.cncf.io", "k8snetworkplumbingwg.io")
"""Domains whose names have a meaning that is not the operator's to give."""

_SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(-(0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)(\.(0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*))*)?"
    r"(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?"
)


@attrs.frozen
class OwnAttributes(Form["Mapping[str, Attribute]"]):
    """A table of attributes: text, whole numbers, true or false, or ``{ version = "1.2.3" }``.

    Attributes:
        reserved: Names that berth gives to devices of this sort itself.
    """

    reserved: frozenset[str] = RESERVED

    @property
    @override
    def label(self) -> str:
        return "table of attributes"

    @override
    def read(self, value: object, cursor: Cursor) -> Mapping[str, Attribute] | None:
        if not isinstance(value, Mapping):
            cursor.refuse(value, rule='it must be a table such as { rail = 3, rack = "b7" }')
            return None
        attributes: dict[str, Attribute] = {}
        for name, raw in value.items():
            _check_name(name, self.reserved, cursor.at(name))
            read = _value(raw, cursor.at(name))
            if read is not None:
                attributes[name] = read
        return attributes


def _check_name(name: str, reserved: Collection[str], cursor: Cursor) -> None:
    domain = name.rpartition("/")[0]
    if not is_qualified_name(name):
        cursor.say(
            "is no name for an attribute",
            rule="at most 32 letters, digits and underscores, not beginning with a digit; "
            "a DNS name and a slash may stand before it",
        )
    elif name in reserved:
        cursor.say("is a name that berth publishes itself", mend="choose another name")
    elif any(f".{domain}".endswith(f".{reserved}") for reserved in RESERVED_DOMAINS):
        cursor.say(f"lies in {domain}, whose names are not free", mend="choose another domain")


def _value(raw: object, cursor: Cursor) -> Attribute | None:
    if isinstance(raw, bool):
        return raw
    if isinstance(raw, int) and -(2**63) <= raw < 2**63:
        return raw
    if isinstance(raw, str) and len(raw.encode()) <= VALUE_LIMIT:
        return raw
    if isinstance(raw, Mapping) and set(raw) == {"version"}:
        return _version(raw["version"], cursor.at("version"))
    if isinstance(raw, str):
        found = f"has {len(raw.encode())} bytes"
        cursor.say(found, rule=f"a value may have {VALUE_LIMIT}", mend="shorten it")
        return None
    rule = 'it must be text, a whole number of 64 bits, true, false, or { version = "1.2.3" }'
    cursor.refuse(raw, rule=rule)
    return None


def _version(raw: object, cursor: Cursor) -> Version | None:
    if isinstance(raw, str) and len(raw) <= VALUE_LIMIT and _SEMVER.fullmatch(raw):
        return Version(raw)
    cursor.refuse(raw, rule='it must be a semantic version such as "1.2.3", without v')
    return None
