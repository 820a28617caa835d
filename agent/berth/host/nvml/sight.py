"""Looks at the GPUs of an open session: which there are, what they say, whether they answer.

GPUs are walked by index, since a search by name may fail for the sake of another one. An index is
no identity; within a session it is only remembered so that a GPU whose call is out is not asked a
second time under its index. What is listed and was lost or hung when it was walked has none of a
GPU's names; whoever asks for a GPU that nobody knows has those asked again who they are.

Source: GH §1.1, §2.4.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import attrs
import trio

from berth.host.nvml import calls, describe
from berth.host.nvml.calls import Identified
from berth.host.nvml.registry import CLASSIFY_S, LINK_S, PROBE_S, WALK_S, Registry
from berth.host.nvml.silence import INDEX, LIBRARY
from berth.host.nvml.values import NoAnswer, Probe, Refusal, Walk
from berth.model.gpu import Driver, Gpu

WALKERS: Final = 4
"""GPUs that are walked at once."""

UNLISTED: Final = Refusal(code=28, text="NVML does not list it")


class Sight:
    """The handles of a session, and what was last seen of each GPU.

    Args:
        registry: Through which every call goes.

    Attributes:
        came: How many GPUs were found beside the walks.
    """

    def __init__(self, registry: Registry) -> None:
        self.came = 0
        self._registry = registry
        self._handles: dict[str, Any] = {}
        self._index: dict[int, str] = {}
        self._nameless: set[int] = set()
        self._last: dict[str, Gpu] = {}
        self._limiter = trio.CapacityLimiter(WALKERS)

    def handles(self) -> dict[str, Any]:
        """Give the handles by address."""
        return dict(self._handles)

    def uuids(self) -> dict[str, str]:
        """Give the addresses by UUID, as last seen."""
        return {gpu.uuid: address for address, gpu in self._last.items() if gpu.uuid}

    def forget(self) -> None:
        """Drop the handles: their session is over."""
        self._handles.clear()
        self._index.clear()
        self._nameless.clear()

    async def walk(
        self, driver: Driver | None, *, told: Callable[[Gpu], None] = lambda _: None
    ) -> Walk:
        """Look at every GPU; one that does not answer delays the others by nothing.

        Args:
            told: Called with each GPU as soon as it has answered, before the walk is over.
        """
        answers: dict[str, Gpu] = {}

        async def look(address: str) -> None:
            async with self._limiter:
                answers[address] = await self.describe(address)
            told(answers[address])

        silent = await self.identify(then=look)
        for address, text in silent.items():
            if ":" in address:
                answers[address] = self._unanswered(address, text)
        return Walk(
            driver=driver,
            gpus=tuple(answers[address] for address in sorted(answers)),
            nameless=tuple(f"{who}: {text}" for who, text in silent.items() if ":" not in who),
        )

    async def describe(self, address: str) -> Gpu:
        """Look at one GPU anew; when it does not answer, as it was last, with the reason."""
        handle = self._handles.get(address)
        if handle is None:
            return self._unanswered(address, UNLISTED.text)
        answer = await self._registry.ask(
            address,
            "walk",
            partial(describe.gpu, handle, address),
            deadline_s=WALK_S,
            allowed_s=PROBE_S,
        )
        if isinstance(answer, NoAnswer):
            return self._unanswered(address, answer.text)
        self._last[address] = answer
        return answer

    async def probe(
        self, address: str, deadline_s: float = PROBE_S, *, shared: bool = False
    ) -> Probe | Refusal | NoAnswer:
        """Ask whether a GPU is well; a probe that is out answers for this one too.

        Args:
            shared: Others may be asked by the same thread before it.
        """
        return await self._ask_fields(address, "probe", deadline_s, shared=shared)

    async def classify(self, address: str) -> Probe | Refusal | NoAnswer:
        """Ask the same, for someone who cannot wait; the GPU has as long to answer as ever."""
        return await self._ask_fields(address, "classify", CLASSIFY_S)

    async def processes(self, address: str) -> tuple[int, ...] | Refusal | NoAnswer:
        """Ask which processes compute on a GPU."""
        handle = self._handles.get(address)
        if handle is None:
            await trio.lowlevel.checkpoint()
            return UNLISTED
        return await self._registry.ask(
            address, "processes", partial(calls.processes, handle), deadline_s=PROBE_S
        )

    async def links(self, address: str) -> tuple[str, ...] | Refusal | NoAnswer:
        """Ask where a GPU's NVLinks lead: the PCI address at the other end of each that is up.

        Each link is a call of its own, so that what asks whether the GPU is well need not wait for
        all of them.
        """
        handle = self._handles.get(address)
        if handle is None:
            await trio.lowlevel.checkpoint()
            return UNLISTED
        remotes = []
        with trio.move_on_after(WALK_S):
            for number in range(calls.LINKS):
                remote = await self._registry.ask(
                    address, "links", partial(calls.link, handle, number), deadline_s=LINK_S
                )
                if isinstance(remote, NoAnswer):
                    return remote
                if isinstance(remote, Refusal) and remote.code not in calls.NO_LINK:
                    return remote
                if isinstance(remote, str):
                    remotes.append(remote)
            return tuple(remotes)
        return NoAnswer(purpose="links", open_s=WALK_S)

    async def identify(
        self, *, then: Callable[[str], Awaitable[None]] | None = None
    ) -> dict[str, str]:
        """Take the handles anew.

        Args:
            then: What is done with the address of each GPU as soon as it is known.

        Returns:
            What did not answer, in words: by address, or by index where that is not known.
        """
        count = await self._registry.ask(LIBRARY, "count", calls.count, deadline_s=WALK_S)
        if isinstance(count, Refusal | NoAnswer):
            return {"count": count.text, **dict.fromkeys(self._handles, count.text)}
        silent: dict[str, str] = {}
        found: dict[int, Identified] = {}

        async def take(index: int) -> None:
            key = self._index.get(index, f"{INDEX}{index}")
            answer = await self._registry.ask(
                key,
                "identify",
                partial(calls.identify, index),
                deadline_s=WALK_S,
                # The driver takes up a GPU when it is first asked after, which takes seconds.
                allowed_s=PROBE_S if key in self._handles else WALK_S,
            )
            if not isinstance(answer, Identified):
                silent[key] = answer.text
                return
            known = answer.address in {one.address for one in found.values()}
            found[index] = answer
            self._handles[answer.address] = answer.handle
            if then is not None and not known:
                await then(answer.address)

        async with trio.open_nursery() as nursery:
            for index in range(count):
                nursery.start_soon(take, index)
        self._handles = {one.address: one.handle for one in found.values()} | {
            address: self._handles[address] for address in silent if address in self._handles
        }
        self._index.update({index: one.address for index, one in found.items()})
        self._nameless = set(range(count)) - self._index.keys()
        seen = {one.address for one in found.values()}
        return {who: text for who, text in silent.items() if who not in seen}

    async def _ask_fields(
        self, address: str, purpose: str, deadline_s: float, *, shared: bool = False
    ) -> Probe | Refusal | NoAnswer:
        handle = self._handles.get(address)
        if handle is None:
            handle = await self._seek(address, deadline_s)
        if handle is None:
            return UNLISTED
        return await self._registry.ask(
            address,
            purpose,
            partial(calls.probe, handle),
            deadline_s=deadline_s,
            joins="probe",
            allowed_s=PROBE_S if purpose == "classify" else deadline_s,
            shared=shared,
        )

    async def _seek(self, address: str, deadline_s: float) -> Any:
        """Ask whoever could not say before who he is; give the handle if it is the one."""
        await trio.lowlevel.checkpoint()
        for index in sorted(self._nameless):
            answer = await self._registry.ask(
                f"{INDEX}{index}", "identify", partial(calls.identify, index), deadline_s=deadline_s
            )
            if isinstance(answer, Identified) and answer.address not in self._handles:
                self._nameless.discard(index)
                self._index[index] = answer.address
                self._handles[answer.address] = answer.handle
                self.came += 1
        return self._handles.get(address)

    def _unanswered(self, address: str, text: str) -> Gpu:
        last = self._last.get(address, Gpu(address=address))
        return attrs.evolve(last, missing={**last.missing, "answer": text})
