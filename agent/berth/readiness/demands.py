"""Which devices a pod's binding waits for, as the configuration says of their groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs
from typing_extensions import Self

from berth.config.bind import Bind, Ungated
from berth.config.schema import Config
from berth.model.device import Device, Nic
from berth.model.peripheral import Peripheral

_NIC = "nic"
_GENERIC = "generic"
_NICS: Final = frozenset({"nic", "nic-shared", "nic-vfio", "rdma"})


@attrs.frozen(kw_only=True)
class Demands:
    """What groups ask for.

    Attributes:
        groups: By kind and name; those that ask for nothing are not among them.
    """

    groups: Mapping[tuple[str, str], Bind] = attrs.field(factory=dict)

    @classmethod
    def of(cls, config: Config) -> Self:
        """What a configuration comes to."""
        binds: dict[tuple[str, str], Bind] = {
            (_NIC, group.name): group.bind for group in config.nic.groups
        }
        binds |= {(_GENERIC, group.name): group.bind for group in config.generic}
        return cls(groups={key: bind for key, bind in binds.items() if bind.is_wanted})

    def of_device(self, device: Device) -> Bind | None:
        """What is asked of a published device; ``None`` for nothing."""
        kind = _GENERIC if device.type == _GENERIC else _NIC if device.type in _NICS else ""
        return self.groups.get((kind, device.group))

    def of_seen(self, one: Nic | Peripheral) -> Bind | None:
        """What is asked of a device that is seen, offered or not."""
        kind = _NIC if isinstance(one, Nic) else one.kind
        return self.groups.get((kind, one.group))


def is_left_out(bind: Bind | None) -> bool:
    """Whether a device is not offered where nobody lets the scheduler wait."""
    return bind is not None and bind.ungated is Ungated.LEAVE_OUT
