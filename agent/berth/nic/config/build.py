"""From settings by path to the value that the rest of the program knows, and back to JSON.

Both ways follow the table of fields: the attribute of a field is named as the field is.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
)
from typing import Any, Final

from berth.model.jsontext import Json
from berth.nic.config.field import attribute
from berth.nic.config.fields import MEMBERS, join
from berth.nic.config.kinds import Objects
from berth.nic.config.values import (
    EthtoolConfig,
    InterfaceConfig,
    IpvlanConfig,
    MacvlanConfig,
    NicConfig,
    SysctlConfig,
    VfConfig,
    VlanConfig,
    VrfConfig,
)
from berth.vfio.wayin import WayIn

_SECTIONS: Final[Mapping[str, type[Any]]] = {
    "interface": InterfaceConfig,
    "macvlan": MacvlanConfig,
    "ipvlan": IpvlanConfig,
    "vlan": VlanConfig,
    "vf": VfConfig,
    "vfio": WayIn,
    "ethtool": EthtoolConfig,
    "vrf": VrfConfig,
}
_ADDRESSES: Final = (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
)


def build(values: Mapping[str, Any]) -> NicConfig:
    """A configuration from its fields' values; what is absent has the built-in default."""
    given: dict[str, Any] = {path: value for path, value in values.items() if "." not in path}
    for name, section in _SECTIONS.items():
        fields = _below(name, values)
        given[name] = section(**{attribute(key): value for key, value in fields.items()})
    families = {name: _below(f"sysctls.{name}", values) for name in ("ipv4", "ipv6")}
    return NicConfig(**given, sysctls=SysctlConfig(**families))


def plain(config: NicConfig) -> dict[str, Json]:
    """A configuration as JSON, every field that has a value in it; `build` reads it back."""
    return plain_object(config, "")


def plain_object(value: object, path: str) -> dict[str, Json]:
    """A part of a configuration as JSON: the object at ``path``, ``[]`` behind a list's name."""
    result: dict[str, Json] = {}
    for name, field in MEMBERS[path].items():
        inner = join(path, name)
        member = _member(value, name)
        if member is None or member in ("", {}):
            continue
        if field is None:
            result[name] = plain_object(member, inner)
        elif isinstance(field.form, Objects):
            result[name] = [plain_object(item, f"{inner}[]") for item in member]
        else:
            result[name] = _plain_value(member)
    return result


def _member(value: object, name: str) -> Any:
    """A field's value; ``None`` where it is not set, and for fields of a later version."""
    if isinstance(value, Mapping):
        return value.get(name)
    return getattr(value, attribute(name), None)


def _plain_value(value: Any) -> Json:
    if isinstance(value, Enum):
        word: str = value.value
        return word
    if isinstance(value, _ADDRESSES):
        return str(value)
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, Mapping):
        return dict(value)
    scalar: bool | int | str = value
    return scalar


def _below(path: str, values: Mapping[str, Any]) -> dict[str, Any]:
    head = f"{path}."
    return {key[len(head) :]: value for key, value in values.items() if key.startswith(head)}
