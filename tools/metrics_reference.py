"""Write docs/reference/metrics.md from the table of families, or see that it is current.

Usage: python -m tools.metrics_reference [--check]
"""

from __future__ import annotations

import sys
from typing import Final

from berth.metrics.families import FAMILIES, Family
from berth.model.meter import BUCKETS_S
from tools.page import FOLDER, make

PAGE: Final = FOLDER / "metrics.md"

INTRODUCTION: Final = f"""\
# Figures

<!-- Made by tools/metrics_reference.py (make docs) from agent/berth/metrics/families.py. -->

`berthd` tells figures in Prometheus' text format 0.0.4: by HTTP at `[metrics] listen`, path \
`/metrics`, and in the file `[metrics] textfile`, which is written every 15 seconds.
Both are off by default; [how to switch them on](../how-to/watch-a-node-with-prometheus.md).
A page is made when somebody asks, at most once a second.

`device` is a device's name in slices; `kind` is `gpu`, `mig`, `vfio`, `generic` or `nic`.
No label tells pods, claims or users apart.
Counters begin anew with the daemon; a part that is switched off tells nothing.
Histograms are in seconds, with bounds at {", ".join(f"{bound_s:g}" for bound_s in BUCKETS_S)}.

| family | type | labels | meaning |
| --- | --- | --- | --- |
"""


def page() -> str:
    """The whole page."""
    return INTRODUCTION + "".join(map(_row, FAMILIES))


def _row(family: Family) -> str:
    labels = ", ".join(f"`{label}`" for label in family.labels)
    meaning = family.help.replace("|", r"\|")
    return f"| `{family.name}` | {family.kind.value} | {labels} | {meaning} |\n"


if __name__ == "__main__":
    sys.exit(make(PAGE, page, sys.argv[1:]))
