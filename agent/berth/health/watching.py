"""By which terms each device is watched, as the configuration says.

What is said of the device holds, then what is said of its group, then of its kind.

Source: GH §6.1, §6.4; network.md §7.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from typing import Final

import attrs
from typing_extensions import Self

from berth.config.health import DeviceTimes, HealthTable, Times
from berth.config.schema import Config
from berth.health.terms import Terms
from berth.model.device import Nic
from berth.model.peripheral import Peripheral

NODES_RECOVER_S: Final = 2
"""How long device nodes without a command must be well: what is there again is well (GH §6.4)."""


@attrs.frozen(kw_only=True)
class Watching:
    """The terms of all devices.

    Attributes:
        kinds: Of each kind of device, and of groups with a command.
        groups: By kind and name: what the group says, whole by its kind; GPUs in their two kinds.
        commands: Groups of device nodes that have a command.
        devices: By slice name, what is said of single ones.
    """

    kinds: HealthTable
    groups: Mapping[tuple[str, str], Times]
    commands: frozenset[str]
    devices: Mapping[str, DeviceTimes]

    @classmethod
    def of(cls, config: Config) -> Self:
        """What a configuration comes to."""
        kinds = config.health
        groups: dict[tuple[str, str], Times] = {}
        for gpus in config.gpu.groups:
            groups["gpu", gpus.name] = gpus.health.over(kinds.gpu)
            groups["vfio", gpus.name] = gpus.health.over(kinds.vfio)
        for nodes in config.generic:
            kind = kinds.command if nodes.health.command else kinds.generic
            groups["generic", nodes.name] = nodes.health.over(kind)
        for nics in config.nic.groups:
            groups["nic", nics.name] = nics.health.over(kinds.nic)
        return cls(
            kinds=kinds,
            groups=groups,
            commands=frozenset(each.name for each in config.generic if each.health.command),
            devices={each.name: each for each in kinds.devices},
        )

    def remarks(self, names: Collection[str]) -> tuple[str, ...]:
        """What is said of devices that are not among these, one sentence each."""
        return tuple(
            f"[[health.device]] names {name}, and no device here is so called{_near(name, names)}"
            for name in self.devices
            if name not in names
        )

    def of_peripheral(self, one: Peripheral) -> Terms:
        """Terms of a GPU, a part of one, a function for a virtual machine, or device nodes."""
        kind, name, group = one.kind, one.name, one.group
        recover_s: float = self.kinds.recover_after_s
        if kind == "generic" and group not in self.commands:
            recover_s = min(NODES_RECOVER_S, recover_s)
        return self._terms(kind, name, group, recover_s)

    def of_nic(self, nic: Nic) -> Terms:
        """Terms of a NIC."""
        return self._terms("nic", nic.name, nic.group, self.kinds.recover_after_s)

    def _terms(self, kind: str, name: str, group: str, recover_after_s: float) -> Terms:
        times = self.groups.get((kind, group)) or self._of_kind(kind)
        nearest = self.devices.get(name)
        whole = (times if nearest is None else nearest.over(times)).whole()
        return Terms(
            interval_s=whole.interval_s,
            deadline_s=whole.deadline_s,
            timeout_s=max(whole.timeout_s, whole.least_timeout_s),
            recover_after_s=recover_after_s,
        )

    def _of_kind(self, kind: str) -> Times:
        """Of a device that no group selects."""
        kinds: Mapping[str, Times] = {
            "gpu": self.kinds.gpu,
            "vfio": self.kinds.vfio,
            "generic": self.kinds.generic,
        }
        return kinds.get(kind, self.kinds.nic)


def _near(name: str, names: Collection[str]) -> str:
    found = difflib.get_close_matches(name, sorted(names), n=1)
    return f"; do you mean {found[0]}?" if found else ""
