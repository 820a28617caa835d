"""The stand-in, held to what kube-apiserver 1.37.2 answered in the same scenes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cluster.apiscenes import SCENES, SEEN, recorded
from tests.cluster.apistage import open_stand_in


@pytest.mark.parametrize("name", SCENES)
async def test_stand_in_answers_as_the_real_server_did(name: str, tmp_path: Path) -> None:
    """`tests/cluster/test_api.py` plays the same scenes on the real server and records them."""

    async with open_stand_in(tmp_path) as stage:
        found = recorded(await SCENES[name](stage))

    assert found == json.loads(SEEN.read_text())[name]
