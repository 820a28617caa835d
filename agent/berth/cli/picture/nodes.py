"""A card for each NUMA node: its CPUs, and below each PCIe root the devices there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from berth.cli.picture.owners import Owners
from berth.cli.picture.svg import Canvas, cut
from berth.cli.picture.theme import PAD
from berth.cli.wording import counted, memory_size

CELL: Final = 26
STEP: Final = 30
ROW: Final = 28
HEAD: Final = 46
FREE_SHOWN: Final = 6
"""How many free devices of one root are drawn one by one; of hundreds nobody reads each."""

_LETTER: Final = 7.3
_SMALL_LETTER: Final = 6.7


@attrs.frozen(kw_only=True)
class Card:
    """One NUMA node with what lies there; ``node`` is ``None`` for what lies nobody knows where."""

    node: Mapping[str, Any] | None
    devices: tuple[Mapping[str, Any], ...]

    @property
    def roots(self) -> dict[str, list[Mapping[str, Any]]]:
        """Devices by the root that they are below; what is below none comes last."""
        found: dict[str, list[Mapping[str, Any]]] = {}
        for device in sorted(self.devices, key=lambda one: one["pcie_root"] or "~"):
            found.setdefault(device["pcie_root"], []).append(device)
        return found


def cards_of(answer: Mapping[str, Any]) -> tuple[Card, ...]:
    """A card for each node, and one for devices of which nobody says where they are."""
    by_node: dict[int | None, list[Mapping[str, Any]]] = {}
    for device in answer["devices"]:
        by_node.setdefault(min(device["numa"], default=None), []).append(device)
    cards = [Card(node=node, devices=tuple(by_node.pop(node["id"], ()))) for node in answer["numa"]]
    # A device may tell of a node that has neither CPUs nor memory, and is no node to the kernel.
    lost = tuple(device for devices in by_node.values() for device in devices)
    return (*cards, *((Card(node=None, devices=lost),) if lost else ()))


def height_of(card: Card, width: int) -> int:
    """How high a card of that width is."""
    cpus = len(card.node["cpus"]) if card.node is not None else 0
    rows = -(-cpus // _per_row(width))
    roots = sum(_root_height(each) for each in card.roots.values())
    return HEAD + rows * STEP + (8 if rows else 0) + roots + PAD // 2


def draw_card(
    canvas: Canvas, card: Card, owners: Owners, *, x: int, y: int, width: int, height: int
) -> None:
    """Draw one card."""
    canvas.box(x, y, width, height, role="card")
    node = card.node
    title = f"NUMA node {node['id']}" if node is not None else "No NUMA node known"
    canvas.write(x + PAD, y + 30, title, role="head")
    if node is not None:
        canvas.write(x + width - PAD, y + 30, _amounts(node), role="soft", anchor="end")
    top = y + HEAD
    if node is not None and node["cpus"]:
        top = _draw_cpus(canvas, node["cpus"], owners, x=x + PAD, y=top, width=width) + 8
    for root, devices in card.roots.items():
        _draw_root(canvas, root, devices, owners, x=x + PAD, y=top, width=width - 2 * PAD)
        top += _root_height(devices)


def _amounts(node: Mapping[str, Any]) -> str:
    memory = [memory_size(node["memory_bytes"])] if node["memory_bytes"] else []
    return " · ".join([counted(len(node["cpus"]), "CPU"), *memory])


def _per_row(width: int) -> int:
    return (width - 2 * PAD + STEP - CELL) // STEP


def _draw_cpus(
    canvas: Canvas, cpus: Sequence[int], owners: Owners, *, x: int, y: int, width: int
) -> int:
    """Draw a cell for each CPU, in its owner's colour; gives where they end."""
    for place, cpu in enumerate(cpus):
        line, column = divmod(place, _per_row(width))
        left, top = x + column * STEP, y + line * STEP
        having = owners.of_cpu(cpu)
        tip = f"CPU {cpu}: {', '.join(owner.name for owner in having) or 'shared'}"
        fill = having[0].colour if having else ""
        canvas.box(left, top, CELL, CELL, role="cpu", fill=fill, tip=tip)
        role = "on" if having else "number"
        canvas.write(left + CELL // 2, top + 17, str(cpu), role=role, anchor="middle")
    return y + -(-len(cpus) // _per_row(width)) * STEP


def _drawn(devices: Iterable[Mapping[str, Any]]) -> tuple[list[Mapping[str, Any]], int]:
    """Devices that are drawn, and how many more there are: all that somebody has, few others."""
    devices = list(devices)
    had = [device for device in devices if _is_had(device)]
    free = [device for device in devices if not _is_had(device)]
    shown = free if len(free) <= FREE_SHOWN else free[: FREE_SHOWN - 1]
    return [*had, *shown], len(free) - len(shown)


def _is_had(device: Mapping[str, Any]) -> bool:
    return bool(device["containers"] or device["held_by"])


def _root_height(devices: Iterable[Mapping[str, Any]]) -> int:
    drawn, more = _drawn(devices)
    return 32 + (len(drawn) + bool(more)) * ROW + 16


def _draw_root(
    canvas: Canvas,
    root: str,
    devices: Sequence[Mapping[str, Any]],
    owners: Owners,
    *,
    x: int,
    y: int,
    width: int,
) -> None:
    canvas.box(x, y, width, _root_height(devices) - 10, role="root")
    canvas.write(x + 12, y + 20, root or "below no PCIe root", role="soft-name")
    drawn, more = _drawn(devices)
    top = y + 30
    for device in drawn:
        _draw_device(canvas, device, owners, x=x + 8, y=top, width=width - 16)
        top += ROW
    if more:
        text = f"and {counted(more, 'device')} more that nobody has"
        canvas.write(x + 20, top + 17, text, role="soft")


def _draw_device(
    canvas: Canvas,
    device: Mapping[str, Any],
    owners: Owners,
    *,
    x: int,
    y: int,
    width: int,
) -> None:
    holders = ", ".join((*device["containers"], *device["held_by"])) or "nobody has it"
    canvas.box(x, y, width, ROW - 4, role="row", tip=f"{device['name']}: {holders}")
    left = x + 6
    for owner in owners.of_device(device):
        canvas.box(left, y + 3, 22, 18, role="badge", fill=owner.colour, tip=owner.name)
        canvas.write(left + 11, y + 16, str(owner.number), role="on", anchor="middle")
        left += 26
    told = " · ".join(_told(device))
    room = x + width - 8 - left
    told = cut(
        told, int(max(room * 0.35, room - len(device["name"]) * _LETTER - 12) / _SMALL_LETTER)
    )
    name = cut(device["name"], int((room - len(told) * _SMALL_LETTER - 12) / _LETTER))
    canvas.write(left + 2, y + 16, name, role="name")
    canvas.write(x + width - 8, y + 16, told, role="soft-name", anchor="end")


def _told(device: Mapping[str, Any]) -> Iterator[str]:
    yield device["kind"]
    yield from filter(None, (device["ifname"] or device["path"],))
    if device["pci"] and device["pci"] not in {device["path"], device["name"]}:
        yield device["pci"]
