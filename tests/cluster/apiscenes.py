"""All scenes, and what kube-apiserver 1.37.2 was seen to answer in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from tests.cluster.claimscenes import CLAIM_SCENES
from tests.cluster.rightscenes import RIGHT_SCENES
from tests.cluster.slicescenes import SLICE_SCENES

SCENES: Final = {**SLICE_SCENES, **CLAIM_SCENES, **RIGHT_SCENES}
SEEN: Final = Path(__file__).with_name("apiscenes-1.37.2.json")
"""Answers of the real server by scene; `test_api.py` compares it with the real one."""


def recorded(seen: list[Any]) -> list[Any]:
    """What was seen, as JSON gives it back."""
    result: list[Any] = json.loads(json.dumps(seen))
    return result
