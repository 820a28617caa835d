"""The table of families is that of the specification, and the reference page says the same."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from berth.metrics import families
from berth.metrics.families import BY_NAME, FAMILIES, Kind
from tools.metrics_reference import PAGE, page

SINCE: Final = frozenset({"berth_feature_state"})
# Asked for later, with the features of Kubernetes.
GOLDEN: Final = Path(__file__).parent / "golden"

FORBIDDEN: Final = frozenset({"pod", "claim", "uid", "namespace", "container"})
"""What has no bounds, or is nobody's business."""


def _golden() -> list[tuple[str, ...]]:
    """Name, type and labels of each family, as GH §7 has them."""
    lines = (GOLDEN / "families.txt").read_text(encoding="utf-8").splitlines()
    return [tuple(line.split()) for line in lines]


def test_names_types_and_labels_are_those_of_the_specification() -> None:
    """In its order, so that people find what they have read of."""

    assert _golden() == [(each.name, each.kind.value, *each.labels) for each in FAMILIES]


def test_golden_names_are_those_of_the_specification_s_table() -> None:
    """``table.md`` is GH §7, word by word; its last row names the KEP's by their beginning."""
    text = (GOLDEN / "table.md").read_text(encoding="utf-8")
    rows = (line.split(" | ")[0] for line in text.splitlines() if line.startswith("| `"))
    names = [name for row in rows for name in re.findall(r"`([a-z_]+)`", row)]

    assert names == [family[0] for family in _golden() if family[0] not in SINCE]


def test_names_follow_prometheus_customs() -> None:
    """Counters end with ``_total``, times with their unit; no label tells pods apart."""
    for family in FAMILIES:
        assert family.name.endswith("_total") == (family.kind is Kind.COUNTER), family
        assert family.kind is not Kind.HISTOGRAM or family.name.endswith("_seconds"), family
        assert not FORBIDDEN & set(family.labels), family
        assert family.help[-1] == ".", family
    assert len(BY_NAME) == len(FAMILIES)


def test_every_family_is_entered_by_somebody() -> None:
    """A row of the table that nobody fills would promise what is never told."""
    package = Path(families.__file__).parent
    sources = "".join(
        path.read_text(encoding="utf-8")
        for path in (*package.glob("*.py"), *(package.parent / "daemon").glob("*.py"))
        if path != Path(families.__file__)
    )

    assert [each.name for each in FAMILIES if f'"{each.name}"' not in sources] == []


def test_reference_page_is_up_to_date() -> None:
    """``make docs`` was run after the last change of the table."""

    assert page() == PAGE.read_text(encoding="utf-8")


def test_reference_page_tells_every_family() -> None:
    """One row each."""
    for family in FAMILIES:
        labels = ", ".join(f"`{label}`" for label in family.labels)
        assert f"| `{family.name}` | {family.kind.value} | {labels} |" in page()
