"""What the groups select of this machine, and what the kernel must have for them.

Source: cases.md 13, 19; network.md §1.4.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from berth.cli.checks.line import Level, Line
from berth.cli.checks.machine import Machine
from berth.cli.wording import counted, tallied
from berth.config.nicgroup import NicGroup
from berth.model.device import Nic, NicMode
from berth.model.inventory import Inventory
from berth.node.sighting import Memory, Outlook
from berth.node.snapshot import judge
from berth.node.views.mends import mend_for
from berth.vfio.binding import VFIO

TOPIC: Final = "NICs"


def check_selection(machine: Machine) -> Iterator[Line]:
    """How many NICs each group takes, and what is not offered of them."""
    table = machine.config.nic
    inventory = inventory_of(machine)
    if inventory is None:
        yield Line(topic=TOPIC, level=Level.WARNING, text=f"not looked at: {machine.scan_fault}")
        return
    if not table.groups:
        yield Line(
            topic=TOPIC,
            level=Level.NOTE,
            text=f"{counted(len(inventory.nics), 'NIC')}, and no [[nic.group]]: none is offered",
        )
    for number, group in enumerate(table.groups, start=1):
        # Of a group without any the inventory itself warns, and shows what it looks for.
        if nics := _of_group(group, inventory):
            yield _group_line(number, group, nics)
    away = ((machine.status or {}).get("claims") or {}).get("nics_away", 0)
    if away:
        text = f"{counted(away, 'NIC')} away in pods, which are not seen here"
        yield Line(topic=TOPIC, level=Level.NOTE, text=text)
    for nic in inventory.nics:
        if nic.exclusion is not None and nic.exclusion.reason in {"overlap", "ambiguous"}:
            text = f"{nic.name} ({nic.ifname}) is not offered: {nic.exclusion}"
            yield Line(topic=TOPIC, level=Level.FAULT, text=text, mend=mend_for(nic))
    yield from (Line(topic=TOPIC, level=Level.WARNING, text=text) for text in inventory.warnings)


def check_kernel(machine: Machine) -> Iterator[Line]:
    """Whether the kernel can make what shared groups hand out, and bind what others do."""
    kinds = {
        child.value
        for group in machine.config.nic.groups
        if group.mode is NicMode.SHARED
        for child in group.shared.children
    }
    for kind in sorted(kinds):
        if not _has_module(machine, kind):
            yield Line(
                topic=TOPIC,
                level=Level.FAULT,
                text=f"kernel {machine.kernel} has no module {kind}, which shared groups need",
                mend="install the package with the kernel's further modules",
            )
    bound = [g.name for g in machine.config.nic.groups if g.mode is NicMode.VFIO]
    if bound and not (machine.root / "sys/bus/pci/drivers" / VFIO).exists():
        names = ", ".join(f'"{name}"' for name in bound)
        yield Line(
            topic=TOPIC,
            level=Level.WARNING,
            text=f"{VFIO} is not loaded: NICs of group {names} cannot be bound",
            mend=f"modprobe {VFIO}, and a line {VFIO} in /etc/modules-load.d/",
        )
    if kinds:
        yield Line(
            topic=TOPIC,
            level=Level.NOTE,
            text="shared parents stay with the host: nothing else may rename them or set them down",
        )


def inventory_of(machine: Machine) -> Inventory | None:
    """What a daemon would find; ``None`` when the machine could not be looked at."""
    if machine.scan is None:
        return None
    return judge(machine.scan, Outlook(table=machine.config.nic), Memory()).inventory


def groups_summary(machine: Machine) -> list[dict[str, Any]]:
    """The groups for programs: how many NICs each takes, and what is not offered of them."""
    inventory = inventory_of(machine) or Inventory()
    return [
        {
            "name": group.name,
            "mode": group.mode.value,
            "nics": len(nics),
            "offered": sum(nic.exclusion is None for nic in nics),
            "excluded": _excluded(nics),
        }
        for group in machine.config.nic.groups
        for nics in [_of_group(group, inventory)]
    ]


def _of_group(group: NicGroup, inventory: Inventory) -> Sequence[Nic]:
    return [nic for nic in inventory.nics if nic.group == group.name]


def _excluded(nics: Sequence[Nic]) -> dict[str, int]:
    return dict(Counter(nic.exclusion.reason for nic in nics if nic.exclusion))


def _group_line(number: int, group: NicGroup, nics: Sequence[Nic]) -> Line:
    place = f'[[nic.group]] {number} "{group.name}"'
    excluded = _excluded(nics)
    offered = len(nics) - sum(excluded.values())
    rest = f"; not offered: {tallied(excluded)}" if excluded else ""
    return Line(
        topic=TOPIC,
        level=Level.OK if offered else Level.WARNING,
        text=f"{place} selects {counted(len(nics), 'NIC')}, {offered} to offer{rest}",
        mend="" if offered else "`berth devices` tells the reason of each",
    )


def _has_module(machine: Machine, name: str) -> bool:
    """Whether the kernel has a module, loaded, built in, or to be loaded by the kernel itself."""
    if machine.at(f"/sys/module/{name}").exists():
        return True
    folder = f"/lib/modules/{machine.kernel}"
    known = [machine.read(f"{folder}/{file}") for file in ("modules.dep", "modules.builtin")]
    if known == [None, None]:
        # Nothing says what the kernel has; that it lacks it would be a guess.
        return True
    return any(f"/{name}.ko" in (text or "") for text in known)
