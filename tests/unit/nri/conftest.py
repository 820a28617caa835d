"""What several tests of the NRI plugin start from."""

from __future__ import annotations

import pytest

from tests.unit.nri.scripted import ScriptedHooks


@pytest.fixture
def hooks() -> ScriptedHooks:
    """Hooks that agree to everything, until a test says otherwise."""
    return ScriptedHooks()
