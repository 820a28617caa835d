"""Where the NVLinks of GPUs lead, asked beside everything else, once for each layout.

Such questions may take seconds, and a GPU that is ill may not answer them at all. So nobody waits
for an answer: until there is one, and where there is none, GPUs are near by NUMA and PCIe root
alone. Each GPU is asked for itself, so that one that is silent keeps nothing from the others.

Source: gpu-and-health.md §1.1 (topology), §5.1, §9 row 20.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import attrs
import trio

from berth.host.nvml.values import NoAnswer, Refusal
from berth.model.gpu import Driver, Gpu
from berth.node.gpus.nvml import Nvml
from berth.runtime.logs import get_log

AGAIN_S: Final = 600.0
"""After which a GPU that gave no answer is asked again, when it is seen."""

_log = get_log(__name__)


@attrs.frozen(kw_only=True)
class _Layout:
    """What links depend on: which GPUs are there undivided, and under which driver."""

    driver: Driver | None
    gpus: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, gpus: tuple[Gpu, ...], driver: Driver | None) -> _Layout:
        whole = (gpu for gpu in gpus if not gpu.mig_current)
        return cls(driver=driver, gpus=frozenset((gpu.address, gpu.uuid) for gpu in whole))

    def stayed(self, before: _Layout) -> frozenset[str]:
        """Addresses of the GPUs that are the same as in another layout."""
        if self.driver != before.driver:
            return frozenset()
        return frozenset(address for address, _ in self.gpus & before.gpus)


class GpuLinks:
    """What is known of the links in the layout of now.

    In another layout every GPU is asked anew; until it answers, one that was there before has the
    links that it told then.

    Args:
        changed: Called when more is known, or less.

    Attributes:
        remotes: PCI addresses at the other ends of a GPU's links, one for each, by its own.
    """

    def __init__(self, *, changed: Callable[[], None]) -> None:
        self.remotes: Mapping[str, tuple[str, ...]] = {}
        self._changed = changed
        self._nvml: Nvml | None = None
        self._layout = _Layout(driver=None, gpus=frozenset())
        self._asked_s: dict[str, float] = {}
        self._answered: set[str] = set()
        self._seen = trio.Event()

    def see(self, nvml: Nvml, gpus: tuple[Gpu, ...], driver: Driver | None) -> None:
        """These GPUs are there; who is to be asked is found out later."""
        layout = _Layout.of(gpus, driver)
        if layout != self._layout:
            self._asked_s.clear()
            self._answered.clear()
            stay = layout.stayed(self._layout)
            self._take({gpu: ends for gpu, ends in self.remotes.items() if gpu in stay})
        self._nvml, self._layout = nvml, layout
        self._seen.set()

    async def run(self) -> None:
        """Ask who has not answered in this layout, until cancelled."""
        async with trio.open_nursery() as nursery:
            while True:
                await self._seen.wait()
                self._seen = trio.Event()
                for address in self._due():
                    self._asked_s[address] = trio.current_time()
                    nursery.start_soon(self._ask, address, self._layout)

    def _due(self) -> tuple[str, ...]:
        """Whom to ask; a GPU that is alone has no links that matter."""
        if len(self._layout.gpus) < 2:
            return ()
        now_s = trio.current_time()
        return tuple(
            address
            for address, _ in sorted(self._layout.gpus)
            if address not in self._answered
            and now_s - self._asked_s.get(address, float("-inf")) >= AGAIN_S
        )

    async def _ask(self, address: str, layout: _Layout) -> None:
        if self._nvml is None:
            return
        answer = await self._nvml.links(address)
        if layout != self._layout:
            return  # `see` let the next turn ask anew
        if isinstance(answer, Refusal | NoAnswer):
            _log.info("links of a GPU not known", gpu=address, reason=answer.text)
            return
        self._answered.add(address)
        self._take({**self.remotes, address: answer})

    def _take(self, remotes: Mapping[str, tuple[str, ...]]) -> None:
        before, self.remotes = self.remotes, remotes
        if before != remotes and (any(before.values()) or any(remotes.values())):
            self._changed()
