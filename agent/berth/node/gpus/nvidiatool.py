"""What nvidia-ctk says of containers, asked beside everything else when it may be another answer.

Nobody waits for it: until it has answered, and where it fails a check, berth's own list is used. An
answer about another driver or layout holds no more: the libraries that it names may be gone.

Source: gpu-and-health.md §3.2.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from berth.config.gpu import CdiSource
from berth.errors import BerthError
from berth.gpu.toolkit import Toolkit, ToolkitKey, checked, key_of, paths_of, read_answer
from berth.host.nvidiactk import ask_tool, find_tool, stamps
from berth.host.nvidiafiles import NodeFacts, NvidiaFiles
from berth.model.gpu import Driver, Gpu
from berth.node.inventory.stock import Aside
from berth.runtime.logs import get_log

_log = get_log(__name__)


class NvidiaTool:
    """The newest answer of nvidia-ctk.

    Args:
        files: What the machine has of the driver.
        aside: Runs what blocks.
        changed: Called when there is another answer, or none any more.
        find: Says where the tool is.

    Attributes:
        answer: ``None`` while there is none of use.
    """

    def __init__(
        self,
        files: NvidiaFiles,
        *,
        aside: Aside,
        changed: Callable[[], None],
        find: Callable[[], str] = find_tool,
    ) -> None:
        self.answer: Toolkit | None = None
        self._find = find
        self._files = files
        self._aside = aside
        self._changed = changed
        self._key: ToolkitKey | None = None
        self._gpus: tuple[Gpu, ...] = ()
        self._driver: Driver | None = None
        self._source = CdiSource.AUTO
        self._seen = trio.Event()

    def see(self, gpus: tuple[Gpu, ...], driver: Driver | None, source: CdiSource) -> None:
        """These GPUs are there; whether the tool is to be asked is found out later."""
        self._gpus, self._driver, self._source = gpus, driver, source
        self._seen.set()

    async def run(self) -> None:
        """Ask when the answer may be another, until cancelled."""
        while True:
            await self._seen.wait()
            self._seen = trio.Event()
            if self._source is CdiSource.BUILTIN or not self._gpus:
                continue
            facts = await self._facts()
            key = key_of(
                self._gpus,
                boot_id=facts.boot_id,
                version=self._version,
                stamps=await self._aside("gpus", stamps),
            )
            if key != self._key:
                self._key = key
                self._take(None)
                self._take(await self._ask(facts))

    def _take(self, answer: Toolkit | None) -> None:
        if answer != self.answer:
            self.answer = answer
            self._changed()

    @property
    def _version(self) -> str:
        return self._driver.version if self._driver is not None else ""

    async def _facts(self) -> NodeFacts:
        return await self._aside("gpus", self._files.read, version=self._version, addresses=())

    async def _ask(self, facts: NodeFacts) -> Toolkit | None:
        tool = await self._aside("gpus", self._find)
        if not tool:
            if self._source is CdiSource.NVIDIA_CTK:
                _log.warning("nvidia-ctk is not installed, berth's own list is used")
            return None
        try:
            answer = read_answer(await ask_tool(tool))
            existing = await self._aside("gpus", self._files.existing, paths_of(answer))
            return checked(answer, facts, existing)
        except BerthError as error:
            _log.warning("nvidia-ctk's answer is not used, berth's own list is", reason=error)
            return None
