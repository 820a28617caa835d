"""What the groups select of this machine.

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
from berth.node.views.mends import mend_for

TOPIC: Final = "NICs"


def check_selection(machine: Machine) -> Iterator[Line]:
    """How many NICs each group takes, and what is not offered of them."""
    table = machine.config.nic
    inventory = machine.inventory
    if machine.scan is None:
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
    for text in inventory.warnings:
        mend = "`berth devices` lists what there is" if "selects no NIC" in text else ""
        yield Line(topic=TOPIC, level=Level.WARNING, text=text, mend=mend)


def check_shared(machine: Machine) -> Iterator[Line]:
    """What the host must leave alone of parents that stay with it."""
    if any(group.mode is NicMode.SHARED for group in machine.config.nic.groups):
        yield Line(
            topic=TOPIC,
            level=Level.NOTE,
            text="shared parents stay with the host: nothing else may rename them or set them down",
        )


def groups_summary(machine: Machine) -> list[dict[str, Any]]:
    """The groups for programs: how many NICs each takes, and what is not offered of them."""
    inventory = machine.inventory
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
