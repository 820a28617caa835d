"""Devices are asked whether they are ready, for as long as somebody waits for them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from typing import Final, TypeVar

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from berth.config.bind import BindWhen, GenericBind, NicBind
from berth.config.template import Template
from berth.errors import HostError
from berth.host.netlink.events import Event, Overflow
from berth.host.netlink.link import Link
from berth.model.inventory import Inventory
from berth.model.readiness import Answer
from berth.node.watches.readiness import LOOK_S, SPACING_S, ReadinessWatch
from berth.readiness.demands import Demands
from berth.runtime.latest import Latest
from tests.unit.nic.links import link_of
from tests.unit.node.machine import FAST, OTHER, PARENT, look
from tests.unit.node.peripherals import modem
from tests.unit.node.watches.test_commands import PROGRAM, Script, World

T = TypeVar("T")
COMMAND: Final = (Template(PROGRAM), Template("{name}"))
DEMANDS: Final = Demands(
    groups={
        ("nic", "fast"): NicBind(when=BindWhen.LINK_UP),
        ("nic", "parent"): NicBind(when=BindWhen.COMMAND, command=COMMAND, interval_s=10),
        ("generic", "modem"): GenericBind(when=BindWhen.COMMAND, command=COMMAND, deadline_s=3),
    }
)
DOWN: Final = link_of("ens1", carrier=False, operstate="down")
UP: Final = link_of("ens1", carrier=True, operstate="up")


class Bed:
    """Two NICs, a parent and a modem, and who asks them.

    Attributes:
        links: What is seen of a link, by index.
        looks: When each link was looked at.
    """

    def __init__(self) -> None:
        seen = look(peripherals=(modem(),)).inventory
        nics = tuple(
            attrs.evolve(nic, ifindex=number, ifname=f"ens{number}")
            for number, nic in enumerate(seen.nics, start=1)
        )
        self.inventory: Latest[Inventory] = Latest(attrs.evolve(seen, nics=nics))
        self.demands = Latest(DEMANDS)
        self.world = World()
        self.links: dict[int, Link | HostError | None] = {1: DOWN, 2: UP}
        self.looks: list[tuple[int, float]] = []
        self._heard: Callable[[Iterable[Event]], None] | None = None
        self.watch = ReadinessWatch(
            inventory=self.inventory,
            commands=Latest({modem().identity: (PROGRAM, "modem-0")}),
            demands=self.demands,
            look=self._look,
            aside=_at_once,
            hear=self._hear,
            launch=self.world.launch,
        )

    def _look(self, index: int) -> Link | None:
        self.looks.append((index, trio.current_time()))
        found = self.links.get(index)
        if isinstance(found, HostError):
            raise found
        return found

    async def _hear(self, wanted: trio.Event, heard: Callable[[Iterable[Event]], None], /) -> None:
        await wanted.wait()
        self._heard = heard
        await trio.sleep_forever()

    def tell_of_links(self) -> None:
        """Have the kernel tell that something happened."""
        assert self._heard is not None
        self._heard((Overflow(),))

    @property
    def answers(self) -> dict[str, tuple[bool | None, str]]:
        """What devices say."""
        return {name: (one.ready, one.reason) for name, one in self.answer.items()}

    @property
    def answer(self) -> dict[str, Answer]:
        """The same, whole."""
        return dict(self.watch.answers.get())


async def _at_once(work: Callable[[], T], /) -> T:
    await trio.lowlevel.checkpoint()
    return work()


@pytest.fixture
async def bed(nursery: trio.Nursery) -> AsyncIterator[Bed]:
    """Nobody waits for anything yet."""
    made = Bed()
    await nursery.start(made.watch.run)
    await wait_all_tasks_blocked()
    yield made
    nursery.cancel_scope.cancel()


async def test_nothing_is_asked_that_nobody_waits_for(bed: Bed, autojump_clock: MockClock) -> None:
    """Neither before nor after."""

    await trio.sleep(60)
    assert (bed.looks, bed.world.started, bed.answers) == ([], [], {})
    bed.watch.want("a", [FAST, "modem-0"])
    bed.watch.want("b", ["modem-0"])
    await trio.sleep(3)
    bed.watch.want("a", [])
    await wait_all_tasks_blocked()
    assert bed.answers == {"modem-0": (True, "CommandSaysYes")}

    bed.watch.want("b", [])
    await wait_all_tasks_blocked()
    looks, starts = len(bed.looks), len(bed.world.started)
    await trio.sleep(60)
    assert (len(bed.looks), len(bed.world.started), bed.answers) == (looks, starts, {})


async def test_link_is_looked_at_when_the_kernel_tells(bed: Bed, autojump_clock: MockClock) -> None:
    """And now and then, since an event may be lost; a flapping one no more than twice a second."""

    bed.watch.want("a", [FAST, OTHER])
    await wait_all_tasks_blocked()
    assert bed.answers == {FAST: (False, "NoCarrier"), OTHER: (True, "LinkUp")}

    await trio.sleep(SPACING_S)
    bed.links[1] = UP
    bed.tell_of_links()
    await wait_all_tasks_blocked()
    assert bed.answers[FAST] == (True, "LinkUp")
    bed.links[1] = None
    await trio.sleep(LOOK_S + 1)
    assert bed.answers[FAST] == (False, "LinkElsewhere")

    before = len(bed.looks)
    for _ in range(100):
        bed.tell_of_links()
        await trio.sleep(0.01)
    assert len(bed.looks) - before <= 2 * 3


async def test_link_that_the_kernel_does_not_tell_of_is_unknown(
    bed: Bed, autojump_clock: MockClock
) -> None:
    """It is looked at again."""

    bed.links[1] = HostError("netlink", "no buffer space")
    bed.watch.want("a", [FAST])
    await wait_all_tasks_blocked()
    assert bed.answers == {FAST: (None, "Unknown")}
    bed.links[1] = UP
    await trio.sleep(LOOK_S + 1)
    assert bed.answers == {FAST: (True, "LinkUp")}


@pytest.mark.parametrize(
    ("script", "ready", "message"),
    [
        (Script(status=0), True, "/opt/modem-ok says so"),
        (Script(status=1, said=b"no path yet"), False, "no path yet"),
        (Script(status=1), False, "/opt/modem-ok says that it is not ready"),
        (Script(status=2, said=b"fabric away"), None, "fabric away"),
        (Script(status=127), False, "/opt/modem-ok ended with status 127"),
        (Script(takes_s=99), False, "/opt/modem-ok had not ended after 3 s and was killed"),
        (Script(missing=2), None, "/opt/modem-ok: cannot be run"),
    ],
)
async def test_command_says_whether_a_device_is_ready(
    bed: Bed, autojump_clock: MockClock, script: Script, ready: bool | None, message: str
) -> None:
    """By its exit status, within its deadline."""

    bed.world.scripts["modem-0"] = script
    bed.watch.want("a", ["modem-0"])
    await trio.sleep(6)

    answer = bed.answer["modem-0"]
    assert (answer.ready, message in answer.message) == (ready, True)


async def test_command_of_a_nic_is_run_again_and_again(bed: Bed, autojump_clock: MockClock) -> None:
    """With the device's own name; never two at a time."""

    bed.world.scripts[PARENT] = Script(takes_s=4)
    bed.watch.want("a", [PARENT])
    await trio.sleep(30)

    assert bed.world.starts(PARENT) == [0, 14, 28]
    assert bed.world.most == 1


async def test_device_that_comes_and_goes(bed: Bed, autojump_clock: MockClock) -> None:
    """It is not ready while it is away, and asked at once when it is back."""

    there = bed.inventory.get()
    bed.watch.want("a", [OTHER])
    await wait_all_tasks_blocked()
    bed.inventory.set(look(names=()).inventory)
    await wait_all_tasks_blocked()
    assert bed.answers == {OTHER: (False, "Gone")}

    bed.inventory.set(there)
    await wait_all_tasks_blocked()
    assert bed.answers == {OTHER: (True, "LinkUp")}
