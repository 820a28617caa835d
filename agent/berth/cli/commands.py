"""Every command, in the order in which help lists them."""

from __future__ import annotations

from typing import Final

from berth.cli import (
    check,
    convert,
    device,
    devices,
    facts,
    gpu,
    health,
    holds,
    plan,
    rehearse,
    reload,
    status,
    topology,
    why,
)
from berth.cli.parsing import Command

COMMANDS: Final[tuple[Command, ...]] = (
    check.COMMAND,
    devices.COMMAND,
    status.COMMAND,
    why.COMMAND,
    holds.COMMAND,
    topology.COMMAND,
    health.COMMAND,
    gpu.COMMAND,
    device.COMMAND,
    plan.COMMAND,
    reload.COMMAND,
    rehearse.COMMAND,
    facts.COMMAND,
    convert.COMMAND,
)
