"""What the node asks of NVML, and of whom: one owner, whose answers are values.

The daemon makes the owner when it sees the first GPU, and tests put their own in its place.

Source: gpu-and-health.md §2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

import trio

from berth.gpu.told import session_finding
from berth.host.nvml.session import Session
from berth.host.nvml.silence import Silence
from berth.host.nvml.values import NoAnswer, NvmlEvent, Probe, Refusal, Walk
from berth.model.gpu import Gpu

_NO_SESSION: Final = 1


class Tells(Protocol):
    """Takes a GPU that has answered."""

    def __call__(self, gpu: Gpu, /) -> None:
        """Take it."""
        ...


class Nvml(Protocol):
    """NVML's one owner; see `berth.host.nvml.owner.Nvml` for what each method promises."""

    @property
    def session(self) -> Session:
        """Its state."""

    @property
    def version(self) -> int:
        """How often the session changed."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep the session."""
        ...

    def notice(self, *, functions: int, bind: bool = False) -> None:
        """Take note of the PCI inventory."""
        ...

    async def wait_session_changed(self, since: int) -> int:
        """Wait until the session is another."""
        ...

    async def walk(self, *, told: Tells) -> Walk:
        """Look at all GPUs."""
        ...

    async def links(self, address: str) -> tuple[str, ...] | Refusal | NoAnswer:
        """Where a GPU's NVLinks lead."""
        ...

    async def processes(self, address: str) -> tuple[int, ...] | Refusal | NoAnswer:
        """Who computes on a GPU."""
        ...

    async def probe(
        self, address: str, *, deadline_s: float, shared: bool = False
    ) -> Probe | Refusal | NoAnswer:
        """Whether a GPU is well."""
        ...

    async def classify(self, address: str) -> Probe | Refusal | NoAnswer:
        """The same, for someone who cannot wait."""
        ...

    async def silences(self) -> Mapping[str, Silence]:
        """What the silence of GPUs means."""
        ...

    async def receive_event(self) -> NvmlEvent:
        """Wait for the next event."""
        ...

    async def successor(self) -> str:
        """What only a new process could load, after a mismatch; empty when there is nothing."""
        ...

    async def release(self, for_s: float) -> None:
        """Give the session up for a time."""
        ...

    def resume(self) -> None:
        """End a release before its time."""
        ...


async def probe_when_open(
    nvml: Nvml, address: str, *, deadline_s: float, within_s: float
) -> Probe | Refusal | NoAnswer:
    """Ask whether a GPU is well; a session that is let go of for a moment is waited for.

    It is let go of while a claim's GPU is taken from the driver, which is no reason to call all the
    others unknown: what they said last holds so long.

    Args:
        deadline_s: For the answer.
        within_s: How long the session may be away.
    """
    answer = await nvml.probe(address, deadline_s=deadline_s, shared=True)
    with trio.move_on_after(within_s):
        while is_closed(answer) and session_finding(nvml.session) is None:
            await nvml.wait_session_changed(nvml.version)
            answer = await nvml.probe(address, deadline_s=deadline_s, shared=True)
    return answer


def is_closed(answer: Probe | Refusal | NoAnswer) -> bool:
    """Whether there was no session to ask in, which says nothing of the GPU."""
    return isinstance(answer, Refusal) and answer.code == _NO_SESSION
