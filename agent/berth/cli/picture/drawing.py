"""The whole picture: the node's name, its NUMA nodes side by side, its containers below."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from berth.cli.picture import containers, nodes
from berth.cli.picture.owners import Owner, Owners, owners_of
from berth.cli.picture.svg import Canvas, cut
from berth.cli.picture.theme import GAP, MARGIN, STYLE, WIDTH
from berth.cli.wording import counted

_TOP: Final = 96

T = TypeVar("T")


def draw(answer: Mapping[str, Any]) -> str:
    """The picture of one answer of the daemon's to ``topology``, as a whole SVG file."""
    canvas = Canvas()
    title = answer["node"] or "This node"
    owners = owners_of(answer["pods"])
    cards = nodes.cards_of(answer)
    canvas.write(MARGIN, 48, cut(title, 70), role="headline")
    canvas.write(MARGIN, 74, _summary(answer, owners), role="soft")

    def draw_node(card: nodes.Card, x: int, y: int, width: int, height: int) -> None:
        nodes.draw_card(canvas, card, owners, x=x, y=y, width=width, height=height)

    def draw_container(owner: Owner, x: int, y: int, width: int, height: int) -> None:
        containers.draw_card(canvas, owner, x=x, y=y, width=width, height=height)

    bottom = _place(cards, _TOP, height_of=nodes.height_of, draw_one=draw_node)
    if owners.all:
        canvas.write(MARGIN, bottom + 26, "Containers", role="head")
        bottom += 40
    bottom = _place(owners.all, bottom, height_of=containers.height_of, draw_one=draw_container)
    return canvas.document(WIDTH, bottom + MARGIN - GAP, title=f"Topology of {title}", style=STYLE)


def _summary(answer: Mapping[str, Any], owners: Owners) -> str:
    parts = (
        counted(len(answer["numa"]), "NUMA node"),
        counted(sum(len(node["cpus"]) for node in answer["numa"]), "CPU"),
        counted(len(answer["devices"]), "device"),
        f"{counted(len(owners.all), 'container')} with something of their own"
        if len(owners.all) != 1
        else "1 container with something of its own",
    )
    return " · ".join(parts)


def _place(
    things: Sequence[T],
    top: int,
    *,
    height_of: Callable[[T, int], int],
    draw_one: Callable[[T, int, int, int, int], None],
) -> int:
    """Draw cards in rows of two, those of a row equally high; gives where the next row begins."""
    columns = min(len(things), 2) or 1
    width = (WIDTH - 2 * MARGIN - (columns - 1) * GAP) // columns
    for start in range(0, len(things), columns):
        row = things[start : start + columns]
        height = max(height_of(each, width) for each in row)
        for column, each in enumerate(row):
            draw_one(each, MARGIN + column * (width + GAP), top, width, height)
        top += height + GAP
    return top
