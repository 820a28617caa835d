"""A machine with nothing but its loopback."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.nic.machine import Machine


@pytest.fixture(name="machine")
def _machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "machine")
