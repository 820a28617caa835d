"""Measures how late the daemon's loop runs what is due: what holds it up delays every pod."""

from __future__ import annotations

from typing import Final

import trio

from berth.model.meter import Timing

EVERY_S: Final = 5.0
"""Between two looks, in seconds."""


async def measure_lag(figure: Timing) -> None:
    """Enter by how much a sleep was longer than asked, until cancelled."""
    while True:
        due = trio.current_time() + EVERY_S
        await trio.sleep_until(due)
        figure.observe(trio.current_time() - due)
