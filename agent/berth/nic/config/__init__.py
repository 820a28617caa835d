"""What a claim asks of a NIC: read, merged with the node's defaults, and checked before any act.

`resolve` leads through it: ``entries`` finds and ``decode`` reads the texts by the table in
``fields``, ``merge`` lays them over each other, ``check``, ``fit`` and ``pod`` look at the result
by itself, on its device, and beside the pod's other NICs. Everything here is pure.
"""

from berth.nic.config.devicefacts import DeviceFacts, HomeSettings, HostFacts, Target
from berth.nic.config.document import from_document, to_document
from berth.nic.config.group import GroupPolicy, check_groups, policies_of
from berth.nic.config.resolve import resolve, wished_names
from berth.nic.config.values import (
    AddressConfig,
    AttachMode,
    InterfaceConfig,
    MacvlanConfig,
    MacvlanMode,
    NeighborConfig,
    NicConfig,
    RdmaUse,
    ResolvedNic,
    RouteConfig,
    RouteScope,
    RuleConfig,
    SysctlConfig,
)

__all__ = [
    "AddressConfig",
    "AttachMode",
    "DeviceFacts",
    "GroupPolicy",
    "HomeSettings",
    "HostFacts",
    "InterfaceConfig",
    "MacvlanConfig",
    "MacvlanMode",
    "NeighborConfig",
    "NicConfig",
    "RdmaUse",
    "ResolvedNic",
    "RouteConfig",
    "RouteScope",
    "RuleConfig",
    "SysctlConfig",
    "Target",
    "check_groups",
    "from_document",
    "policies_of",
    "resolve",
    "to_document",
    "wished_names",
]
