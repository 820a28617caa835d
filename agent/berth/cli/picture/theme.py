"""Colours, letters and measures of the picture, in pixels."""

from __future__ import annotations

from typing import Final

WIDTH: Final = 1200
MARGIN: Final = 32
GAP: Final = 20
PAD: Final = 18

COLOURS: Final = (
    "#0b6e99",
    "#7b3fa0",
    "#8a6d00",
    "#0f766e",
    "#b91c5c",
    "#4f46e5",
    "#92400e",
    "#475569",
)
"""One for each owner in turn, each dark enough for white letters; numbers tell owners apart too."""

STYLE: Final = """
text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;fill:#1c2733}
.ground{fill:#f4f6f8}
.card{fill:#fff;stroke:#cfd8e0;rx:12px}
.root{fill:#f8fafb;stroke:#dde4ea;rx:8px}
.row{fill:#fff;stroke:#e3e9ee;rx:5px}
.cpu{fill:#e9eef2;rx:4px}
.badge{rx:5px}
.headline{font-size:24px;font-weight:600}
.head{font-size:16px;font-weight:600}
.plain{font-size:13px}
.soft{font-size:12px;fill:#5b6b7a}
.name{font-size:12px;font-family:ui-monospace,"DejaVu Sans Mono",Menlo,Consolas,monospace}
.owner{font-size:13px;font-weight:600;font-family:ui-monospace,"DejaVu Sans Mono",Menlo,monospace}
.soft-name{font-size:11px;fill:#5b6b7a;font-family:ui-monospace,"DejaVu Sans Mono",Menlo,monospace}
.number{font-size:11px;fill:#5b6b7a}
.on{font-size:11px;font-weight:600;fill:#fff}
.aligned{fill:#1b7f4b;rx:9px}
.spread{fill:#c2410c;rx:9px}
.unknown{fill:#64748b;rx:9px}
.none{fill:#64748b;rx:9px}
@media (prefers-color-scheme:dark){
text{fill:#e6edf3}
.ground{fill:#10161c}
.card{fill:#182028;stroke:#2c3945}
.root{fill:#1d2731;stroke:#31404d}
.row{fill:#232f3a;stroke:#31404d}
.cpu{fill:#2b3844}
.soft,.soft-name,.number{fill:#9fb0bf}
.on{fill:#fff}
}
"""
