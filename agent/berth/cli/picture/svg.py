"""SVG as text: shapes and words at whole pixels, written in the order in which they are drawn.

Source: SVG 1.1 (``rect``, ``text``, ``title``); XML 1.0 for what has to be escaped.
"""

from __future__ import annotations

from typing import Final
from xml.sax.saxutils import escape, quoteattr

from berth.errors import printable

_CUT: Final = "…"


class Canvas:
    """Collects what is drawn."""

    def __init__(self) -> None:
        self._parts: list[str] = []

    def box(
        self,
        x: int,
        y: int,
        width: int,
        height: int,
        *,
        role: str,
        fill: str = "",
        tip: str = "",
    ) -> None:
        """Draw a rectangle.

        Args:
            role: Its class in the style sheet, which also rounds it.
            fill: A colour of its own.
            tip: What is told where the pointer rests on it.
        """
        colour = f" style={quoteattr(f'fill:{fill}')}" if fill else ""
        shape = f'<rect class="{role}" x="{x}" y="{y}" width="{width}" height="{height}"{colour}'
        self._parts.append(f"{shape}>{_tip(tip)}</rect>" if tip else f"{shape}/>")

    def write(
        self, x: int, y: int, text: str, *, role: str, anchor: str = "start", tip: str = ""
    ) -> None:
        """Write one line; ``y`` is its base line."""
        end = "" if anchor == "start" else f' text-anchor="{anchor}"'
        words = f"{_tip(tip)}{escape(printable(text))}"
        self._parts.append(f'<text class="{role}" x="{x}" y="{y}"{end}>{words}</text>')

    def document(self, width: int, height: int, *, title: str, style: str) -> str:
        """Give the whole file; its ground has the class ``ground``."""
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" role="img">'
        )
        ground = f'<rect class="ground" width="{width}" height="{height}"/>'
        parts = (head, _tip(title), f"<style>{style}</style>", ground, *self._parts, "</svg>\n")
        return "\n".join(parts)


def cut(text: str, length: int) -> str:
    """The text, or so much of it as has room, with a sign that it goes on."""
    return text if len(text) <= length else text[: max(length - 1, 0)] + _CUT


def _tip(text: str) -> str:
    return f"<title>{escape(printable(text))}</title>" if text else ""
