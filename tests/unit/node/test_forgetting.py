"""What an operator may have forgotten, and what not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from berth.errors import ConfigError, HostError
from berth.model.claim import ClaimRef
from berth.model.device import Exclusion
from berth.model.inventory import Inventory
from berth.model.peripheral import Peripheral
from berth.node.forgetting import forget
from berth.node.gpus.gpus import Gpus
from berth.node.inventory.stock import Stock
from berth.node.ledger import Hold, Ledger
from tests.unit.generic.nodes import kvm, tty
from tests.unit.node.gpus.test_gpus import ADDRESSES, NAMES, UP, Driven, gpus_of
from tests.unit.node.inventory.test_stock import KVM, MODEM, Machine, stock_of
from tests.unit.node.peripherals import modem

CLAIM = ClaimRef(namespace="team", name="gpu", uid="1-2-3")


async def ask(
    name: str,
    *peripherals: Peripheral,
    gpus: Gpus | None = None,
    stock: Stock | None = None,
    ledger: Ledger | None = None,
    forgotten: Callable[[str], None] = lambda _: None,
) -> str:
    """Ask as the operator does."""
    return await forget(
        name,
        inventory=Inventory(peripherals=peripherals),
        ledger=ledger or Ledger(),
        gpus=gpus,
        stock=stock or stock_of(Machine(), []),
        forgotten=forgotten,
    )


@pytest.fixture
async def lost(
    nursery: trio.Nursery, tmp_path: Path, autojump_clock: MockClock
) -> tuple[Driven, Gpus]:
    """Two GPUs of which the second was pulled."""
    driven = Driven(UP)
    gpus = gpus_of(driven, tmp_path)
    await nursery.start(gpus.run)
    await gpus.peripherals.wait_value(lambda now: len(now) == 2)
    del driven.gpus[1]
    driven.functions = driven.functions[:1]
    gpus.look_again()
    await gpus.peripherals.wait_value(lambda now: [one.unhealthy for one in now] == ["", "lost"])
    return driven, gpus


async def test_lost_gpu_is_forgotten(lost: tuple[Driven, Gpus], autojump_clock: MockClock) -> None:
    """It leaves the lists for good; it is welcome again when it comes back."""

    driven, gpus = lost
    found = {one.name: one.unhealthy for one in gpus.peripherals.get()}
    assert found == {NAMES[0]: "", NAMES[1]: "lost"}

    told: list[str] = []
    every = gpus.peripherals.get()
    assert NAMES[1] in await ask(NAMES[1], *every, gpus=gpus, forgotten=told.append)
    assert told == [every[1].identity]
    await gpus.peripherals.wait_value(lambda now: [one.name for one in now] == [NAMES[0]])

    back = Driven(UP)
    driven.gpus, driven.functions = back.gpus, back.functions
    gpus.look_again()
    await gpus.peripherals.wait_value(lambda now: [one.unhealthy for one in now] == ["", ""])
    assert not gpus.is_lost(ADDRESSES[1])


async def test_gpu_that_the_bus_shows_is_lost_when_nvml_lacks_it(
    lost: tuple[Driven, Gpus], autojump_clock: MockClock
) -> None:
    """It is listed with a reason then, and not offered any more."""

    driven, gpus = lost
    driven.functions = Driven(UP).functions
    gpus.look_again()
    await trio.sleep(1)
    await ask(NAMES[1], *gpus.peripherals.get(), gpus=gpus)

    excluded = Exclusion(reason="lost", detail="NVML does not list it")
    await gpus.peripherals.wait_value(lambda now: now[1].exclusion == excluded)


async def test_gpu_that_is_there_is_not_forgotten(
    lost: tuple[Driven, Gpus], autojump_clock: MockClock
) -> None:
    """Nor one about which nobody is asked now."""

    driven, gpus = lost
    with pytest.raises(HostError, match=f"{NAMES[0]}: is there"):
        await ask(NAMES[0], *gpus.peripherals.get(), gpus=gpus)

    driven.slow_s = {0: 100.0}
    gpus.look_again()
    await trio.sleep(5)
    with pytest.raises(HostError, match="is there"):
        await ask(NAMES[0], *gpus.peripherals.get(), gpus=gpus)


async def test_lost_gpu_that_is_held_is_not_forgotten(
    lost: tuple[Driven, Gpus], autojump_clock: MockClock
) -> None:
    """The ledger knows of a holder before the lists do."""

    _, gpus = lost
    one = gpus.peripherals.get()[1]
    ledger = Ledger()
    ledger.take([Hold(key=one.keys[0], device=one.name, holder=CLAIM)])

    with pytest.raises(HostError, match=f"is held by {CLAIM}"):
        await ask(NAMES[1], *gpus.peripherals.get(), gpus=gpus, ledger=ledger)
    assert gpus.is_lost(ADDRESSES[1])


async def test_part_of_a_gpu_is_not_forgotten_alone(
    lost: tuple[Driven, Gpus], autojump_clock: MockClock
) -> None:
    """The refusal names the whole."""

    _, gpus = lost
    part = Peripheral(
        identity="x",
        name=f"{NAMES[1]}-mig-1g10gb-0",
        kind="gpu",
        type="mig",
        group="",
        keys=("y",),
        path=ADDRESSES[1],
    )

    with pytest.raises(
        ConfigError, match=f"is a part of {NAMES[1]}: a GPU is forgotten as a whole"
    ):
        await ask(part.name, part, gpus=gpus)


async def test_device_node_that_is_gone_frees_its_number(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """The next one gets it, and what spoke against the old one is void; what is there keeps it."""

    machine = Machine()
    machine.nodes = (tty(0), kvm())
    stock = stock_of(machine, [MODEM, KVM])
    await nursery.start(stock.run)
    name, identity = next(
        (one.name, one.identity) for one in stock.peripherals.get() if one.group == "modem"
    )
    with pytest.raises(HostError, match="is there"):
        await ask(name, *stock.peripherals.get(), stock=stock)
    machine.nodes = (kvm(),)
    await stock.look()

    told: list[str] = []
    assert name in await ask(name, *stock.peripherals.get(), stock=stock, forgotten=told.append)
    assert told == [identity]

    with pytest.raises(ConfigError, match="is not known here"):
        await ask(name, *stock.peripherals.get(), stock=stock)


async def test_device_node_that_is_held_keeps_its_number() -> None:
    """However long it has been gone."""

    one = modem().absent()
    ledger = Ledger()
    ledger.take([Hold(key=one.keys[0], device=one.name, holder=CLAIM)])

    with pytest.raises(HostError, match="is held by"):
        await ask(one.name, one, ledger=ledger)
