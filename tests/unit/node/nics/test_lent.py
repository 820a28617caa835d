"""When what a CNI plugin brought home is put back."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from pathlib import Path

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from berth.model.device import Nic, NicKind
from berth.model.inventory import Inventory
from berth.nic.config.values import NicConfig
from berth.nic.record import NicRecord, Stage
from berth.node.ledger import PluginHolder
from berth.node.nics.lent import SETTLED_S, Lent
from berth.node.plugin.allotments import given_shelf
from berth.node.records.given import Given, GivenDevice
from berth.runtime.latest import Latest
from tests.unit.node.machine import BOOT
from tests.unit.node.peripherals import modem

IDENTITY = "pci:0000:41:00.0"


class Bench:
    """A NIC that is lent, at home or away."""

    def __init__(self, folder: Path) -> None:
        self.given = given_shelf(folder)
        self.inventory: Latest[Inventory] = Latest(Inventory())
        self.put: list[float] = []
        self.lent = Lent(self.given, inventory=self.inventory, nics=self)

    async def put_back(self, uid: str, identity: str) -> None:
        """Note when it was put back."""
        await trio.lowlevel.checkpoint()
        assert (uid, identity) == ("g", IDENTITY)
        self.put.append(trio.current_time())

    async def see(self, *, home: bool) -> None:
        """Let its link be seen, or not."""
        self.inventory.set(Inventory(nics=(_nic(IDENTITY, home=home),)))
        await wait_all_tasks_blocked()


def _nic(identity: str, *, home: bool = True) -> Nic:
    return Nic(identity=identity, name="nic", kind=NicKind.VF, ifindex=3 if home else 0)


@pytest.fixture(name="bench")
async def _bench(
    tmp_path: Path,
    nursery: trio.Nursery,
    autojump_clock: trio.testing.MockClock,
) -> AsyncIterator[Bench]:
    bench = Bench(tmp_path)
    await bench.given.load()
    nic = NicRecord(
        identity=IDENTITY,
        device="nic",
        group="fast",
        config=NicConfig(),
        boot_id=BOOT,
        stage=Stage.LENT,
    )
    await bench.given.put(
        Given(
            holder=PluginHolder(uid="g", resource="lab.example/fast", ids=("a",), since="today"),
            devices=(GivenDevice(id="a", peripheral=modem(), nic=nic),),
            boot_id=BOOT,
        )
    )
    await bench.see(home=True)
    await nursery.start(bench.lent.run)
    yield bench
    nursery.cancel_scope.cancel()


async def test_nic_that_came_home_is_put_back_after_a_while(
    bench: Bench, autojump_clock: MockClock
) -> None:
    """Not before: its plugin may still be at work."""

    await bench.see(home=False)
    await trio.sleep(100)
    await bench.see(home=True)
    came = trio.current_time()
    await trio.sleep(100)

    assert bench.put == [came + SETTLED_S]


async def test_nic_that_was_never_away_is_left_alone(
    bench: Bench, autojump_clock: MockClock
) -> None:
    """Its plugin has not moved it yet."""

    await trio.sleep(100)

    assert bench.put == []


async def test_nic_beside_one_that_came_home_is_left_alone(
    bench: Bench, autojump_clock: MockClock
) -> None:
    """The one that was home is given to somebody else; the other takes its place in the list."""

    # Writing goes on in a thread, which is no time to jump.
    autojump_clock.autojump_threshold = math.inf
    (one,) = bench.given.all()
    (device,) = one.devices
    assert device.nic is not None
    before = attrs.evolve(device, id="b", nic=attrs.evolve(device.nic, identity="pci:0000:42:00.0"))
    await bench.given.put(attrs.evolve(one, devices=(before, device)))
    for home in (False, True):
        nics = (_nic("pci:0000:42:00.0", home=home), _nic(IDENTITY))
        bench.inventory.set(Inventory(nics=nics))
        await wait_all_tasks_blocked()
    await bench.given.put(one)
    autojump_clock.autojump_threshold = 0
    await trio.sleep(100)

    assert bench.put == []


async def test_nic_that_goes_again_is_left_alone(bench: Bench, autojump_clock: MockClock) -> None:
    """A pod's second sandbox has it."""

    await bench.see(home=False)
    await bench.see(home=True)
    await trio.sleep(SETTLED_S / 2)
    await bench.see(home=False)
    await trio.sleep(100)

    assert bench.put == []
