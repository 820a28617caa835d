"""How a PCI function is, asked in threads that may hang: one for each function is out at most.

Those that are asked for at one moment have one thread (`berth.host.nvml.convoy`).

Source: `berth.host.pcihealth` for what is read; the kernel may hang in a read of config space.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from berth.host.nvml.registry import Registry
from berth.host.nvml.values import NoAnswer
from berth.host.pcihealth import FunctionSight, PciHealth


class PciSigns:
    """Looks at functions; made and used in one trio run.

    Args:
        root: Where sysfs is mounted.
    """

    def __init__(self, root: Path = Path("/sys")) -> None:
        self._functions = PciHealth(root)
        self._registry: Registry | None = None

    async def of(self, address: str, deadline_s: float) -> FunctionSight | NoAnswer:
        """Look at one function, and give up waiting after a time; the look then stays out."""
        if self._registry is None:
            self._registry = Registry(threads="pci")
        return await self._registry.ask(
            address,
            "config",
            partial(self._functions.look, address),
            deadline_s=deadline_s,
            shared=True,
        )
