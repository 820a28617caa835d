"""The files under configs/monitoring: every figure that they name is told, with those labels."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from berth.metrics.families import BY_NAME, Family, Kind

FOLDER: Final = Path(__file__).parents[3] / "configs" / "monitoring"
RULES: Final = FOLDER / "berth-rules.yaml"
DASHBOARD: Final = FOLDER / "berth-dashboard.json"

OF_THE_SCRAPE: Final = frozenset({"instance", "job", "le"})
"""Labels that Prometheus adds, and the one of buckets."""

NAME: Final = re.compile(r"\b((?:berth|dra)_[a-z_]+)\b(?:\{([^{}]*)\})?")


def _alerts() -> list[dict[str, Any]]:
    document = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    return [rule for group in document["groups"] for rule in group["rules"]]


def _panels() -> list[dict[str, Any]]:
    panels: list[dict[str, Any]] = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    return panels


def _expressions() -> Iterator[tuple[str, str]]:
    for alert in _alerts():
        yield alert["alert"], alert["expr"]
    for panel in _panels():
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]


def _family(name: str) -> Family | None:
    """The family that a name of PromQL is of; a histogram is asked for by its parts."""
    base = re.sub(r"_(bucket|sum|count)$", "", name)
    found = BY_NAME.get(name) or BY_NAME.get(base)
    histogram = found is not None and found.kind is Kind.HISTOGRAM
    return found if histogram == (base != name) else None


@pytest.mark.parametrize(("where", "expression"), list(_expressions()), ids=lambda text: text[:40])
def test_every_figure_that_is_asked_for_is_told(where: str, expression: str) -> None:
    """Under its name, by its parts, and with the labels that it has."""
    found = NAME.findall(expression)
    assert found, where
    for name, selector in found:
        family = _family(name)
        assert family is not None, f"{where}: {name}"
        labels = set(re.findall(r"([a-z]+)\s*(?:=~|!~|!=|=)", selector))
        assert labels <= {*family.labels, *OF_THE_SCRAPE}, f"{where}: {name}{{{selector}}}"
    for listed in re.findall(r"\bby \(([^)]*)\)", expression):
        known = {label for name, _ in found for label in BY_NAME[_base(name)].labels}
        assert set(listed.replace(" ", "").split(",")) <= known | OF_THE_SCRAPE, where


def _base(name: str) -> str:
    return name if name in BY_NAME else re.sub(r"_(bucket|sum|count)$", "", name)


def test_every_alert_says_how_bad_it_is_and_what_to_do() -> None:
    """Names are one's own; what they show of the series, it has."""
    alerts = _alerts()
    assert len({alert["alert"] for alert in alerts}) == len(alerts) > 10
    for alert in alerts:
        assert alert["labels"]["severity"] in {"warning", "critical"}
        assert alert["annotations"].keys() == {"summary", "description"}
        assert "{{ $labels.instance }}" in alert["annotations"]["summary"]
        shown = re.findall(r"\$labels\.([a-z]+)", str(alert["annotations"]))
        assert set(shown) - {"instance"} <= _labels_of(alert["expr"]), alert["alert"]
        assert "for" in alert or re.search(r"\[\d+[mh]\]", alert["expr"]), alert["alert"]


def _labels_of(expression: str) -> set[str]:
    """Labels that the series of an alert have."""
    listed = re.findall(r"\bby \(([^)]*)\)", expression)
    if listed:
        return {label.strip() for each in listed for label in each.split(",")}
    return {label for name, _ in NAME.findall(expression) for label in BY_NAME[_base(name)].labels}


def test_dashboard_is_of_whichever_prometheus_and_node_is_chosen() -> None:
    """No panel names a data source of somebody's, and ids are unique."""
    document = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    variables = {each["name"] for each in document["templating"]["list"]}
    panels = _panels()

    assert variables == {"datasource", "instance"}
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        if panel["type"] != "row":
            assert panel["datasource"]["uid"] == "${datasource}"
            assert all('instance=~"$instance"' in each["expr"] for each in panel["targets"])
