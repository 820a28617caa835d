"""The table of features holds together, and names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from berth.features.feature import VERSIONS, Feature, Stage, number, since
from berth.features.registry import BY_KEY, FEATURES

CLUSTER = Path(__file__).parents[2] / "cluster"


def test_each_feature_has_a_name_and_a_gate_of_its_own() -> None:
    """What is told by key is told of one feature."""

    assert len(BY_KEY) == len({feature.gate for feature in FEATURES}) == len(FEATURES)


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.key)
def test_row_is_whole(feature: Feature) -> None:
    """Each version has its stage, no later one knows less, and what is alpha says what it costs."""

    order = list(Stage)
    stages = [feature.stages[version] for version in VERSIONS]
    assert stages == sorted(stages, key=order.index)
    assert bool(feature.cost) is not stages[-1].is_on
    assert re.fullmatch(r"[A-Z][^.]*", feature.title.replace("resources.limits", ""))


@pytest.mark.parametrize(
    "feature", [one for one in FEATURES if one.test], ids=lambda feature: feature.key
)
def test_test_of_a_row_exists(feature: Feature) -> None:
    """Whoever renames a test is told which feature it showed."""

    file, name = feature.test.split("::")
    source = (CLUSTER / file).read_text(encoding="utf-8")
    assert re.search(rf"^def {name}\(", source, re.MULTILINE)


@pytest.mark.parametrize(
    ("version", "stage"),
    [
        ("1.33", Stage.ABSENT),
        ("1.34", Stage.ALPHA_OFF),
        ("1.35", Stage.ALPHA_OFF),
        ("1.36", Stage.BETA_ON),
        ("1.37", Stage.STABLE),
        ("1.40", Stage.STABLE),
    ],
)
def test_stage_of_a_version(version: str, stage: Stage) -> None:
    """A version keeps what the one before had, and a newer one than all counts as the last."""

    assert BY_KEY["device-taints"].stage(number(version)) is stage


def test_since_when_a_version_is_unknown() -> None:
    """A slip in the table is told and not passed over."""

    with pytest.raises(ValueError, match="no such versions"):
        since(v1_3=Stage.STABLE)
