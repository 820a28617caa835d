"""A card for each container: what it has, and whether that lies together."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any, Final

from berth.cli.picture.owners import Owner
from berth.cli.picture.sentences import sentences
from berth.cli.picture.svg import Canvas, cut
from berth.cli.picture.theme import PAD
from berth.cli.wording import memory_size
from berth.model.numa import cpus_text, numbers_text

LINE: Final = 20
HEAD: Final = 48
PILL: Final = 104

_LETTER: Final = 7.3
_OWNER_LETTER: Final = 8.1


def height_of(owner: Owner, width: int) -> int:
    """How high a container's card of that width is."""
    return HEAD + len(list(_lines(owner.entry, width))) * LINE + PAD // 2


def draw_card(canvas: Canvas, owner: Owner, *, x: int, y: int, width: int, height: int) -> None:
    """Draw one card: number, name and verdicts, then what it has."""
    canvas.box(x, y, width, height, role="card")
    canvas.box(x + PAD, y + 14, 26, 22, role="badge", fill=owner.colour)
    canvas.write(x + PAD + 13, y + 30, str(owner.number), role="on", anchor="middle")
    verdicts = tuple(_verdicts(owner.entry))
    room = int((width - 2 * PAD - len(verdicts) * (PILL + 6) - 46) / _OWNER_LETTER)
    canvas.write(x + PAD + 36, y + 30, cut(owner.name, room), role="owner", tip=owner.name)
    left = x + width - PAD + 6
    for subject, verdict in reversed(verdicts):
        left -= PILL + 6
        canvas.box(left, y + 16, PILL, 19, role=verdict)
        words = f"{subject} {verdict}"
        canvas.write(left + PILL // 2, y + 30, words, role="on", anchor="middle")
    for number, (role, text) in enumerate(_lines(owner.entry, width)):
        canvas.write(x + PAD, y + HEAD + 14 + number * LINE, text, role=role)


def _verdicts(container: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What of it has a place at all."""
    for subject, key in (("NUMA", "numa"), ("PCIe", "pcie")):
        verdict = container[key]["verdict"]
        if verdict != "none":
            yield subject, verdict


def _lines(container: Mapping[str, Any], width: int) -> Iterator[tuple[str, str]]:
    """What is written, each line with its role."""
    room = int((width - 2 * PAD) / _LETTER)
    if container["cpus"]:
        pods = ", the pod's" if container["cpus_of"] == "pod" else ""
        yield "plain", cut(f"{cpus_text(container['cpus'])}{pods}", room)
    for block in container["memory"]:
        where = f" from node {numbers_text(block['numa'])}" if block["numa"] else ""
        pods = ", the pod's" if container["memory_of"] == "pod" else ""
        yield "plain", cut(f"{block['type']} {memory_size(block['bytes'])}{where}{pods}", room)
    for device in container["devices"]:
        yield "name", cut(f"{device['name']} ({device['claim'] or device['resource']})", room)
    for sentence in sentences(container):
        for line in textwrap.wrap(sentence, room):
            yield "soft", line
