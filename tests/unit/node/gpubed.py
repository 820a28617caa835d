"""GPUs on a bed: an owner of NVML that answers as the test says, a bus, and the owner of health."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from berth.config.xid import XidTable
from berth.gpu.layout import Layout
from berth.gpu.naming import gpu_identity, gpu_name
from berth.gpu.told import ACTION
from berth.health.terms import GPU, Terms
from berth.health.verdict import Status, Verdict
from berth.host.nvml.session import Session, SessionState
from berth.host.nvml.silence import INDEX, LIBRARY, NEVER, OpenCall, Silence, overdue, silences
from berth.host.nvml.values import EventKind, NoAnswer, NvmlEvent, Probe, Refusal
from berth.host.pcihealth import FunctionSight
from berth.model.device import Nic
from berth.model.gpu import Driver
from berth.model.inventory import Inventory
from berth.model.peripheral import Peripheral
from berth.node.gpus.grip import Grip
from berth.node.health.file import HealthFile
from berth.node.health.judge import Health, Watching
from berth.node.watches.gpus import GpuWatch
from berth.runtime.latest import Latest
from tests.unit.node.gpus.test_gpus import Driven

ADDRESSES: Final = tuple(f"0000:{0x1B + number:02x}:00.0" for number in range(8))
SUBJECTS: Final = tuple(map(gpu_identity, ADDRESSES))
NAMES: Final = tuple(map(gpu_name, ADDRESSES))
PARTED: Final = 7
"""The GPU that is divided, into three parts."""
PARTS: Final = {
    (7, 0): f"{SUBJECTS[PARTED]}/1g.10gb/0+1/0+1",
    (8, 0): f"{SUBJECTS[PARTED]}/1g.10gb/1+1/0+1",
    (9, 0): f"{SUBJECTS[PARTED]}/2g.20gb/2+2/0+2",
}
PART_NAMES: Final = tuple(f"{NAMES[PARTED]}-mig-{number}" for number in range(3))
WELL: Final = Probe(fields={ACTION: 0})
UP: Final = Session(state=SessionState.UP, driver=Driver(version="580.65.06"), functions=8)
BOUND: Final = FunctionSight(driver="nvidia", binding=1)
CLASSIFY_S: Final = 0.5


class AskedNvml(Driven):
    """Stands in for NVML's owner, with one call out for each GPU at most, as that has.

    Attributes:
        answers: What GPUs answer, by address.
        hung: GPUs whose calls do not come back.
        lock: A call that hangs holds up all others.
        begun: How often a call was made, by address.
        asked: When each question was put, and to which GPU.
    """

    def __init__(self) -> None:
        super().__init__(UP)
        self.answers: dict[str, Probe | Refusal] = dict.fromkeys(ADDRESSES, WELL)
        self.hung: set[str] = set()
        self.lock = False
        self.begun: Counter[str] = Counter()
        self.asked: list[tuple[float, str, str]] = []
        self._open: dict[str, OpenCall] = {}
        self._proof_s = NEVER
        self._lot = trio.lowlevel.ParkingLot()

    async def probe(
        self, address: str, *, deadline_s: float, **_: bool
    ) -> Probe | Refusal | NoAnswer:
        """Answer, or not."""
        return await self._ask(address, "probe", deadline_s)

    async def classify(self, address: str) -> Probe | Refusal | NoAnswer:
        """The same."""
        return await self._ask(address, "classify", CLASSIFY_S)

    async def silences(self) -> Mapping[str, Silence]:
        """What the silence of GPUs means, by the rule of the real one."""
        await trio.lowlevel.checkpoint()
        now_s = trio.current_time()
        if len(overdue(self._open.values(), now_s)) > 1:
            if self.lock and self.hung:
                self._open.setdefault(
                    LIBRARY, OpenCall(key=LIBRARY, purpose="count", began_s=now_s, deadline_s=4)
                )
            else:
                self._proof_s = now_s
        return silences(self._open.values(), now_s, proof_s=self._proof_s)

    def hang_nameless(self) -> None:
        """Have NVML list a GPU that does not tell its address."""
        now_s = trio.current_time()
        self._open[f"{INDEX}3"] = OpenCall(
            key=f"{INDEX}3", purpose="identify", began_s=now_s, deadline_s=10
        )

    def return_all(self) -> None:
        """Let every call that hangs come back."""
        self.hung.clear()
        self._open.clear()
        self._lot.unpark_all()

    async def _ask(
        self, address: str, purpose: str, deadline_s: float
    ) -> Probe | Refusal | NoAnswer:
        await trio.lowlevel.checkpoint()
        now_s = trio.current_time()
        self.asked.append((now_s, address, purpose))
        if self.session.state is not SessionState.UP:
            return Refusal.of(1)
        out = self._open.get(address)
        if out is not None and out.overdue(now_s):
            return NoAnswer(purpose=out.purpose, open_s=now_s - out.began_s)
        hangs = address in self.hung or (self.lock and bool(self.hung & self._open.keys()))
        if out is None:
            self.begun[address] += 1
        if not hangs:
            return self.answers[address]
        allowed_s = max(deadline_s, 4)
        out = OpenCall(key=address, purpose=purpose, began_s=now_s, deadline_s=allowed_s)
        self._open.setdefault(address, out)
        with trio.move_on_after(deadline_s):
            while address in self._open:
                await self._lot.park()
            return self.answers[address]
        return NoAnswer(purpose=purpose, open_s=deadline_s)


class Bus:
    """The PCI bus.

    Attributes:
        signs: What a look gives, by address.
    """

    def __init__(self) -> None:
        self.signs: dict[str, FunctionSight | NoAnswer] = {}

    async def of(self, address: str, _deadline_s: float) -> FunctionSight | NoAnswer:
        """Look."""
        await trio.lowlevel.checkpoint()
        return self.signs.get(address, BOUND)


class SeenGpus:
    """Who keeps the GPUs, as far as health asks him."""

    def __init__(self, nvml: AskedNvml) -> None:
        self.grip = Grip(lambda: nvml)
        self.grip.take()
        self.layouts: Latest[tuple[Layout, ...]] = Latest(
            tuple(layout(number) for number in range(8))
        )
        self.hearers: list[Callable[[NvmlEvent], None]] = []

    def tell_events(self, hear: Callable[[NvmlEvent], None]) -> None:
        """Take a hearer."""
        self.hearers.append(hear)


class Always:
    """Every device is watched by the same terms."""

    def of_peripheral(self, _one: Peripheral) -> Terms:
        """The terms."""
        return GPU

    def of_nic(self, _nic: Nic) -> Terms:
        """The terms."""
        return GPU


def layout(number: int, **changes: Any) -> Layout:
    """One GPU as the survey tells it."""
    parts = PARTS if number == PARTED else {}
    whole = Layout(
        address=ADDRESSES[number], subject=SUBJECTS[number], uuid=f"GPU-{number}", parts=parts
    )
    return attrs.evolve(whole, **changes)


def peripherals() -> tuple[Peripheral, ...]:
    """What the GPUs come to."""
    wholes = [
        _peripheral(NAMES[number], SUBJECTS[number], ADDRESSES[number], "gpu")
        for number in range(8)
    ]
    parts = [
        _peripheral(name, subject, ADDRESSES[PARTED], "mig")
        for name, subject in zip(PART_NAMES, PARTS.values(), strict=True)
    ]
    return (*wholes, *parts)


def _peripheral(name: str, identity: str, path: str, kind: str) -> Peripheral:
    return Peripheral(
        identity=identity, name=name, kind="gpu", type=kind, group="", keys=(identity,), path=path
    )


class Bed:
    """All of it, with the owner of health.

    Args:
        folder: Where causes are kept; ``None`` to keep none.
        boot: This boot.
    """

    def __init__(
        self, *, folder: Path | None = None, boot: str = "boot-1", table: XidTable | None = None
    ) -> None:
        self.nvml = AskedNvml()
        self.bus = Bus()
        self.gpus = SeenGpus(self.nvml)
        self.inventory = Latest(Inventory(peripherals=peripherals()))
        self.terms: Latest[Watching] = Latest(Always())
        self.health = Health(
            inventory=self.inventory,
            terms=self.terms,
            file=HealthFile(folder, boot_id=boot) if folder is not None else None,
            wall=lambda: 1_000_000 + trio.current_time(),
        )
        self._table = table or XidTable()
        self.watch = self._new_watch()

    async def restart(self, nursery: trio.Nursery) -> None:
        """Have another process's watch take over; the owner of health stands for its file."""
        self.watch = self._new_watch()
        await nursery.start(self.watch.run)

    def _new_watch(self) -> GpuWatch:
        self.gpus.hearers.clear()
        watch = GpuWatch(
            self.gpus,
            inventory=self.inventory,
            reports=self.health,
            terms=self.terms,
            xids=self._table,
            signs=self.bus.of,
        )
        self.health.add_prober(watch)
        return watch

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Judge and watch."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self.health.run)
            await nursery.start(self.watch.run)
            task_status.started()

    def tell(self, event: NvmlEvent) -> None:
        """Let an event be heard."""
        for hear in self.gpus.hearers:
            hear(event)

    def xid(self, code: int, number: int = 0, gi: int | None = None, ci: int | None = None) -> None:
        """Let an XID be heard."""
        address = ADDRESSES[number]
        self.tell(NvmlEvent(kind=EventKind.XID, address=address, type=8, data=code, gi=gi, ci=ci))

    def verdict(self, number: int = 0) -> Verdict:
        """On a whole GPU."""
        return self.health.state.get().of(NAMES[number])

    def sick(self) -> dict[str, str]:
        """Reasons of all that are not healthy, by name."""
        return {
            name: verdict.reason
            for name, verdict in self.health.state.get().verdicts.items()
            if verdict.status is not Status.HEALTHY
        }

    def unhealthy(self) -> dict[str, str]:
        """Reasons of those that pods do not get."""
        return {
            name: verdict.reason
            for name, verdict in self.health.state.get().verdicts.items()
            if verdict.status is Status.UNHEALTHY
        }

    async def until(
        self, condition: Callable[[dict[str, str]], bool], *, most_s: float
    ) -> tuple[float, dict[str, str]]:
        """Wait for what is sick to be so, and give how long it took and what is sick."""
        began_s = trio.current_time()
        with trio.fail_after(most_s):
            await self.health.state.wait_value(lambda _: condition(self.sick()))
        return trio.current_time() - began_s, self.sick()


def times(asked: Iterable[tuple[float, str, str]], address: str, purpose: str) -> list[float]:
    """When a GPU was asked for a purpose."""
    return [at_s for at_s, who, what in asked if (who, what) == (address, purpose)]
