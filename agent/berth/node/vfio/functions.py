"""What is done to one function: taken from its driver for vfio-pci, and given back.

Each step is announced in its claim's record first, then done in a thread of its own, then looked
at. What the kernel shows decides what is due next, so it is all the same how far things went.

A GPU is taken from its driver only while nobody computes on it, and with berth's own session let go
of, since that has it open too.

Source: network.md §4.6; gpu-and-health.md §1.6, §2.6.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol

import attrs
import trio

from berth.errors import BerthError, ClaimError, HostError
from berth.host.driverbind import Bound, DriverCalls
from berth.host.vfiofiles import VfioFiles
from berth.model.edits import DeviceNode
from berth.nic.homecoming import Homecoming
from berth.nic.record import NicRecord
from berth.nic.record import Stage as Link
from berth.node.records.record import ClaimRecord, HeldDevice
from berth.node.records.records import Records
from berth.runtime.logs import get_log
from berth.runtime.threads import run_in_thread
from berth.vfio.binding import VFIO, Binding, Stage, Step, Verb, back, forth
from berth.vfio.group import hindrance, members
from berth.vfio.wayin import handed, node_paths

NODES_S: Final = 5.0
"""How long the nodes of a function are waited for after vfio-pci has it."""

LINK_S: Final = 5.0
"""How long the link of a NIC is waited for after its driver has it again."""

_PAUSE_S: Final = 0.1
_THREADS: Final = "bindings"
_log = get_log(__name__)


class Grips(Protocol):
    """Who has the session with the GPUs' driver; see `berth.node.gpus.grip.Grip`."""

    async def require_idle(self, address: str) -> None:
        """Refuse a GPU on which somebody computes."""
        ...

    def let_go(self) -> AbstractAsyncContextManager[None]:
        """Let go of the driver for a block."""
        ...


class Links(Protocol):
    """Who puts links back; see `berth.node.nics.nics.Nics`."""

    async def restore(self, nic: NicRecord) -> Homecoming:
        """Put a link back as it was."""
        ...


class Functions:
    """The functions of claims; whoever calls holds the claim's lock.

    Args:
        records: The claims' records.
        grip: The session with the GPUs' driver; ``None`` where GPUs are off.
        links: Who puts links back that come with their driver; ``None`` where none goes.
        files: What the machine shows of vfio-pci.
        calls: Where drivers are changed.
    """

    def __init__(
        self,
        records: Records,
        *,
        grip: Grips | None,
        links: Links | None,
        files: VfioFiles,
        calls: DriverCalls,
    ) -> None:
        self._records = records
        self._links = links
        self._grip = grip
        self._files = files
        self._calls = calls
        self._turn = trio.Lock()

    async def require_apart(self, device: HeldDevice, binding: Binding) -> None:
        """Refuse a function that the IOMMU does not keep apart from what is used elsewhere.

        Raises:
            ClaimError: The same, or vfio-pci is not loaded.
        """
        around = await run_in_thread(_THREADS, self._files.around, binding.address)
        own = next((each for each in around if each.address == binding.address), None)
        name = device.result.device
        if own is None:
            raise ClaimError(name, f"is not in the machine any more ({binding.address})")
        hindered = hindrance(own, members(own, around), allow_noiommu=binding.allow_noiommu)
        if hindered:
            raise ClaimError(
                name,
                f"cannot be bound to {VFIO}: {hindered}",
                rule="the IOMMU keeps groups apart, and nothing within one",
                mend=f"bind that to {VFIO} or to no driver, or take its device out of the group",
            )
        if not await run_in_thread(_THREADS, self._files.knows, VFIO):
            raise ClaimError(
                name,
                f"cannot be bound: {VFIO} is not loaded",
                mend=f"modprobe {VFIO}, and a line {VFIO} in /etc/modules-load.d/",
            )

    async def seen(self, binding: Binding) -> Bound:
        """What has the function now.

        Raises:
            ClaimError: It is gone.
            HostError: An earlier call for it has not returned.
        """
        now = await self._calls.bound(binding.address)
        if now is None:
            raise ClaimError(f"PCI function {binding.address}", "is not in the machine any more")
        return now

    async def take(self, record: ClaimRecord, due: Sequence[int]) -> ClaimRecord:
        """Bind what is not bound yet; one claim at a time, since all share the driver's session.

        Args:
            due: Indexes of its devices.

        Raises:
            ClaimError: Somebody uses one.
            HostError: The kernel or the disk refused.
        """
        gpus = [_binding(record, index).address for index in due if _is_gpu(record, index)]
        async with self._turn, contextlib.AsyncExitStack() as stack:
            if self._grip is not None and gpus:
                for address in gpus:
                    await self._grip.require_idle(address)
                await stack.enter_async_context(self._grip.let_go())
            for index in due:
                record = await self._take_one(record, index)
        return record

    async def _take_one(self, record: ClaimRecord, index: int) -> ClaimRecord:
        binding = _binding(record, index)
        now = await self.seen(binding)
        former = binding.former or now
        binding = attrs.evolve(binding, former=former, stage=Stage.BINDING, fault="")
        for step in forth(now):
            binding = attrs.evolve(binding, step=str(step))
            record = record.with_binding(index, binding)
            await self._records.put(record)
            await self._do(binding.address, step)
        after = await self.seen(binding)
        if after.driver != VFIO:
            raise HostError(
                f"PCI function {binding.address}",
                f"is bound to {after.driver or 'no driver'} after a probe for {VFIO}",
                mend="the kernel's log tells why; the IOMMU has to be on",
            )
        _log.info("function bound", address=binding.address, driver=VFIO, was=former.driver)
        return record

    async def wait_nodes(self, device: HeldDevice, binding: Binding) -> tuple[DeviceNode, ...]:
        """The nodes of a bound function, as soon as all of them are there.

        Raises:
            HostError: It does not come.
        """
        missing: tuple[str, ...] = ()
        pause_s = 0.02
        with trio.move_on_after(NODES_S):
            while True:
                nodes, missing = await run_in_thread(_THREADS, self._nodes, binding)
                if not missing:
                    return nodes
                await trio.sleep(pause_s)
                pause_s = min(2 * pause_s, 0.5)
        raise HostError(
            device.result.device,
            f"is bound to {VFIO}, and {', '.join(missing)} did not come in {NODES_S:.0f} s",
            rule="with iommufd the kernel has to have VFIO device nodes (6.6)"
            if binding.way.iommufd
            else "",
        )

    async def bring(self, record: ClaimRecord, index: int) -> ClaimRecord:
        """Give one back; what keeps it from home is its fault in the record."""
        binding = _binding(record, index)
        former = binding.former or Bound()
        now, fault = None, ""
        try:
            now = await self._calls.bound(binding.address)
            if now is not None:
                async with self._away(record, index, due=bool(back(now, former))):
                    for step in back(now, former):
                        record = await self.note(
                            record, index, attrs.evolve(_binding(record, index), step=str(step))
                        )
                        await self._do(binding.address, step)
                now = await self._calls.bound(binding.address)
        except BerthError as error:
            return await self._stay(record, index, str(error))
        if now is not None and back(now, former):
            fault = f"{former.driver} does not take it: {now.driver or 'no driver'} has it"
            return await self._stay(record, index, fault)
        if now is not None and (fault := await self._restore(record.devices[index])):
            return await self._stay(record, index, fault)
        stage = Stage.LOST if now is None else Stage.HOME
        _log.info("function given back", address=binding.address, driver=former.driver)
        done = attrs.evolve(binding, stage=stage, step="", fault="")
        return await self.note(record, index, done)

    async def _restore(self, device: HeldDevice) -> str:
        """Put the link of a function back as it was; gives what keeps it from being so.

        It appears in its own time, which is waited for a while; then another try is due later.
        """
        if device.link is None or device.link.originals is None or self._links is None:
            return ""
        fault = ""
        with trio.move_on_after(LINK_S):
            while True:
                result = await self._links.restore(device.link)
                if result.record.stage is Link.HOME:
                    return ""
                fault = result.record.fault
                if result.seen:
                    return fault
                await trio.sleep(_PAUSE_S)
        return fault

    def _nodes(self, binding: Binding) -> tuple[tuple[DeviceNode, ...], tuple[str, ...]]:
        """What there is of a function's nodes, and which are missing; blocks."""
        facts = self._files.facts(binding.address)
        if facts.noiommu and not binding.allow_noiommu:
            return (), ("an IOMMU",)
        paths = node_paths(binding.way, group=facts.group, name=facts.name, noiommu=facts.noiommu)
        found = {path: node for path in paths if (node := self._files.node(path)) is not None}
        nodes = tuple(map(handed, found.values()))
        return nodes, tuple(path for path in paths if path not in found)

    async def _stay(self, record: ClaimRecord, index: int, fault: str) -> ClaimRecord:
        binding = _binding(record, index)
        if binding.fault != fault:
            _log.warning("function not given back yet", address=binding.address, reason=fault)
        return await self.note(record, index, attrs.evolve(binding, fault=fault))

    @contextlib.asynccontextmanager
    async def _away(self, record: ClaimRecord, index: int, *, due: bool) -> AsyncIterator[None]:
        """Let the driver's session be opened anew after a GPU is back: else it is not seen in it.

        A session that cannot be let go of keeps no GPU from home.
        """
        async with contextlib.AsyncExitStack() as stack:
            if due and self._grip is not None and _is_gpu(record, index):
                await stack.enter_async_context(self._turn)
                try:
                    await stack.enter_async_context(self._grip.let_go())
                except BerthError as error:
                    _log.warning("driver not let go of, going on", reason=error)
            yield

    async def _do(self, address: str, step: Step) -> None:
        if step.verb is Verb.OVERRIDE:
            await self._calls.set_override(address, step.driver)
        elif step.verb is Verb.UNBIND:
            await self._calls.unbind(address, step.driver)
        else:
            await self._calls.probe(address)

    async def note(self, record: ClaimRecord, index: int, changed: Binding) -> ClaimRecord:
        """Write a state on the way home, if the disk takes it."""
        if changed != _binding(record, index):
            record = record.with_binding(index, changed)
            await self._records.put_or_note(record)
        return record


def _binding(record: ClaimRecord, index: int) -> Binding:
    binding = record.devices[index].binding
    if binding is None:
        raise HostError(f"claim {record.claim}", f"has no function at {index}")
    return binding


def _is_gpu(record: ClaimRecord, index: int) -> bool:
    return record.devices[index].link is None
