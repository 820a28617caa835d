"""The daemon: the one place that wires. ``berthd`` calls `main`."""

from berth.daemon.start import main

__all__ = ["main"]
