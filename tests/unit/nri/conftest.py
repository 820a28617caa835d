"""What several tests of the NRI plugin start from."""

from __future__ import annotations

import pytest
from hypothesis import settings

from tests.unit.nri.scripted import ScriptedHooks

# An example that waits for a busy machine is no fault of the code.
settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")


@pytest.fixture
def hooks() -> ScriptedHooks:
    """Hooks that agree to everything, until a test says otherwise."""
    return ScriptedHooks()
