"""The part of a node that gives functions to vfio-pci, on a machine of files: all but the kernel.

Records, files of claims, ledger, survey and the ways home are the daemon's own. The driver core is
`berth.rehearsal.drivercore`, NVML is a value, and NICs move by word.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import trio

from berth.cdi.store import CdiStore
from berth.config.gpu import GpuGroup, GpuTable, GpuVfio
from berth.config.gpumatch import GpuMatch, GpuType
from berth.gpu.survey import survey
from berth.host.nvidiafiles import NvidiaFiles
from berth.host.nvml.session import Session, SessionState
from berth.host.nvml.silence import Silence
from berth.host.nvml.values import NoAnswer, NvmlEvent, Probe, Refusal, Walk
from berth.host.sysfs import Sysfs
from berth.metadata.store import MetadataStore
from berth.model import jsontext
from berth.model.claim import Claim, ConfigSource, OpaqueConfig, PreparedClaim
from berth.model.gpu import Gpu
from berth.model.inventory import Inventory
from berth.node.claims.claims import Claims
from berth.node.claims.ending import Ending, Ways
from berth.node.claims.handout import Handout
from berth.node.claims.recovery import Recovery
from berth.node.claims.reservation import Reservation
from berth.node.gpus.grip import Grip
from berth.node.gpus.nvml import Tells
from berth.node.holders.equipment import equip
from berth.node.inventory.snapshot import Snapshot
from berth.node.ledger import Ledger
from berth.node.records.record import ClaimRecord
from berth.node.records.records import Records
from berth.node.vfio.bindings import Bindings
from berth.node.views.troubles import Troubles
from berth.runtime.latest import Latest
from berth.vfio.binding import Binding
from tests.unit.gpu.machine import DRIVER as NVIDIA
from tests.unit.gpu.machine import gpu
from tests.unit.node.claimserver import ClaimServer
from tests.unit.node.conftest import Told
from tests.unit.node.hands import SpokenNics
from tests.unit.node.machine import BOOT, DRIVER, SETTINGS, claim, look, result
from tests.vfio_tree import GPU, OTHER, VfioMachine

WHOLE = "gpu-0000-1b-00-0"
FUNCTION = "vfio-0000-1b-00-0"
SECOND = "vfio-0000-1c-00-0"

REBIND = GpuTable(
    groups=(
        GpuGroup(
            name="machines",
            match=GpuMatch(type=(GpuType.VFIO,)),
            vfio=GpuVfio(rebind=True),
        ),
    )
)
CLAIM = claim(result(FUNCTION, "gpu"), name="machine")


def asking(uid: str, *devices: str, **parameters: Any) -> Claim:
    """A claim on GPUs, with a configuration if one is given."""
    text = json.dumps({"apiVersion": f"{DRIVER}/v1alpha1", "kind": "VfioConfig", **parameters})
    entry = OpaqueConfig(
        index=0, source=ConfigSource.CLAIM, requests=(), parameters=jsontext.loads(text)
    )
    return claim(
        *(result(device, f"r{number}") for number, device in enumerate(devices)),
        name=uid,
        configs=(entry,) if parameters else (),
    )


class SpokenNvml:
    """NVML's owner, by word.

    Attributes:
        running: What computes on GPUs, by address.
        opened: How often the session was opened.
        is_open: Whether the driver's files are open now.
    """

    def __init__(self) -> None:
        self.running: dict[str, tuple[int, ...] | Refusal | NoAnswer] = {}
        self.session = Session(state=SessionState.UP, driver=NVIDIA, functions=2)
        self.version = 0
        self.opened = 1
        self.noticed: list[bool] = []

    @property
    def is_open(self) -> bool:
        """Whether the session is up."""
        return self.session.state is SessionState.UP

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Be there."""
        task_status.started()
        await trio.sleep_forever()

    def notice(self, *, functions: int, bind: bool = False) -> None:
        """Remember it."""
        assert functions >= 0
        self.noticed.append(bind)

    async def wait_session_changed(self, since: int) -> int:
        """Wait for nothing: what is not up stays so."""
        await trio.sleep_forever()
        return since

    async def walk(self, *, told: Tells) -> Walk:
        """Nothing is asked this way."""
        assert told is not None
        await trio.lowlevel.checkpoint()
        return Walk()

    async def links(self, address: str) -> tuple[str, ...] | Refusal | NoAnswer:
        """No GPU has any."""
        assert address
        await trio.lowlevel.checkpoint()
        return ()

    async def processes(self, address: str) -> tuple[int, ...] | Refusal | NoAnswer:
        """Say who computes."""
        await trio.lowlevel.checkpoint()
        return self.running.get(address, ()) if self.is_open else Refusal.of(1)

    async def probe(
        self, address: str, *, deadline_s: float, **_: bool
    ) -> Probe | Refusal | NoAnswer:
        """Nobody asks."""
        await trio.lowlevel.checkpoint()
        assert address
        assert deadline_s > 0
        return Probe() if self.is_open else Refusal.of(1)

    async def classify(self, address: str) -> Probe | Refusal | NoAnswer:
        """Nobody asks."""
        return await self.probe(address, deadline_s=0.5)

    async def silences(self) -> Mapping[str, Silence]:
        """Nobody is silent."""
        await trio.lowlevel.checkpoint()
        return {}

    async def receive_event(self) -> NvmlEvent:
        """Nothing happens."""
        await trio.sleep_forever()
        raise AssertionError

    async def successor(self) -> str:
        """No other library is there."""
        await trio.lowlevel.checkpoint()
        return ""

    async def release(self, for_s: float) -> None:
        """Let go."""
        await trio.lowlevel.checkpoint()
        assert for_s > 0
        self.session = Session(state=SessionState.RELEASED, functions=2)

    def resume(self) -> None:
        """Take up again."""
        if not self.is_open:
            self.session = Session(state=SessionState.UP, driver=NVIDIA, functions=2)
            self.opened += 1


class Eyes:
    """Whoever looks at the machine: what NVML listed first, and what the tree shows now."""

    def __init__(self, life: BindingNode, table: GpuTable) -> None:
        self.inventory: Latest[Inventory] = Latest(Inventory())
        self.table = table
        self._life = life
        self._known = survey(
            (), (), driver=None, state="up", table=table, memory=(), nodes=life.facts()
        ).memory

    async def look(self) -> Snapshot:
        """Look now."""
        await trio.lowlevel.checkpoint()
        return self.look_nowait()

    def look_nowait(self) -> Snapshot:
        """The same."""
        life = self._life
        found = survey(
            life.listed(),
            Sysfs(life.machine.root / "sys").chosen(lambda one: one.is_nvidia_gpu),
            driver=NVIDIA,
            state="up",
            table=self.table,
            memory=self._known,
            nodes=life.facts(),
            lent=life.bindings.lent(),
        )
        self._known = found.memory
        snapshot = look(peripherals=equip(found.peripherals, life.records.all(), ()))
        self.inventory.set(snapshot.inventory)
        return snapshot


class BindingNode:
    """One life of the daemon's part that binds; a second one on the same folder is a restart.

    Args:
        folder: Its state and its files.
        limit_s: How long a driver is waited for.
    """

    def __init__(
        self,
        machine: VfioMachine,
        folder: Path,
        *,
        table: GpuTable = REBIND,
        limit_s: float = 30.0,
        server: ClaimServer | None = None,
    ) -> None:
        self.machine = machine
        self.folder = folder
        self.server = server or ClaimServer(CLAIM)
        self.records = Records(folder / "claims")
        self.ledger = Ledger()
        self.nvml = SpokenNvml()
        self.grip = Grip(lambda: self.nvml)
        self.grip.take()
        self.changed = 0
        self.bindings = Bindings(
            self.records,
            grip=self.grip,
            files=machine.files,
            drivers=machine.drivers,
            changed=self._change,
            limit_s=limit_s,
        )
        self.nics = SpokenNics(self.records)
        home = Ways(self.bindings, self.nics)
        (folder / "cdi").mkdir(exist_ok=True, parents=True)
        self.handout = Handout(CdiStore(DRIVER, folder / "cdi"), MetadataStore(DRIVER, folder))
        self.eyes = Eyes(self, table)
        told, troubles = Told(), Troubles()
        self.ending = Ending(
            records=self.records,
            ledger=self.ledger,
            home=home,
            remains=self.handout,
            status=told,
        )
        self.claims = Claims(
            SETTINGS,
            api=self.server,
            records=self.records,
            ledger=self.ledger,
            nics=self.nics,
            reservation=Reservation(
                DRIVER,
                api=self.server,
                records=self.records,
                ledger=self.ledger,
                discovery=self.eyes,
                closed=Latest(""),
                troubles=troubles,
                end=self.ending.end,
            ),
            ending=self.ending,
            papers=self.handout,
            status=told,
            troubles=troubles,
            bindings=self.bindings,
        )
        self.recovery = Recovery(
            driver=DRIVER,
            boot_id=BOOT,
            records=self.records,
            ledger=self.ledger,
            nics=self.nics,
            home=home,
            handout=self.handout,
        )

    def listed(self) -> list[Gpu]:
        """What NVML lists: what the driver has."""
        have = self.machine.core.driver
        return [gpu(n) for n, address in enumerate((GPU, OTHER)) if have(address) == "nvidia"]

    def facts(self) -> Any:
        """The files of the machine, and those of a driver that has them all."""
        from tests.unit.gpu.machine import facts

        found = NvidiaFiles(self.machine.root).read(version="", addresses=(GPU, OTHER))
        driver = facts()
        return attrs.evolve(
            driver, nodes={**driver.nodes, **found.nodes}, functions=found.functions
        )

    async def prepare(self, claim: Claim = CLAIM, *, limit_s: float = 60.0) -> PreparedClaim:
        """Prepare a claim as kubelet's call does."""
        self.server.claims.setdefault(claim.ref.uid, claim)
        self.eyes.look_nowait()
        with trio.fail_after(limit_s):
            return await self.claims.prepare(claim.ref)

    async def unprepare(self, claim: Claim = CLAIM) -> None:
        """Undo it as kubelet's call does."""
        await self.claims.unprepare(claim.ref)

    async def start(self) -> None:
        """What a start does before anything is served."""
        await self.recovery.load()
        self.eyes.look_nowait()
        await self.recovery.finish()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Have the background tasks run for the block."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self.bindings.run)
            await nursery.start(self.nics.run)
            await nursery.start(self.ending.run)
            yield
            nursery.cancel_scope.cancel()

    def record(self, claim: Claim = CLAIM) -> ClaimRecord:
        """The claim's record."""
        found = self.records.get(claim.ref.uid)
        assert found is not None
        return found

    def binding(self, claim: Claim = CLAIM, index: int = 0) -> Binding:
        """How a function of the claim is bound."""
        found = self.record(claim).devices[index].binding
        assert found is not None
        return found

    def cdi(self, claim: Claim = CLAIM) -> dict[str, Any]:
        """The edits of the claim's first device, by its CDI file."""
        path = self.folder / "cdi" / f"{DRIVER}-vfio_{claim.ref.uid}.json"
        return dict(json.loads(path.read_text())["devices"][0]["containerEdits"])

    def device_nodes(self, claim: Claim = CLAIM) -> list[str]:
        """Paths of the nodes that its container gets."""
        return [node["path"] for node in self.cdi(claim)["deviceNodes"]]

    def traces(self) -> dict[str, object]:
        """What claims have left; what is empty is left out."""
        found = {
            "records": self.records.all(),
            "files": sorted(path.name for path in (self.folder / "cdi").iterdir()),
            "holds": self.ledger.holds(),
        }
        return {name: value for name, value in found.items() if value}

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the records meet a condition, with a generous limit."""
        with trio.fail_after(60):
            version = self.records.changes.version
            while not condition():
                version = await self.records.changes.wait_changed(version)

    def _change(self) -> None:
        self.changed += 1
