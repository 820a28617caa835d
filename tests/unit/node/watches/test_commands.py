"""Commands are asked how devices are: four at once, never two for one, and killed when late."""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from typing import Final

import attrs
import pytest
import trio
from trio.testing import MockClock

from berth.config.schema import Config
from berth.errors import HostError
from berth.health.finding import Finding, Severity
from berth.health.watching import Watching
from berth.host.commands import Running
from berth.model.inventory import Inventory
from berth.node.health import judge as health
from berth.node.watches.commands import ENVIRONMENT, SOURCE, CommandWatch
from berth.runtime.latest import Latest
from tests.unit.config.reading import read_table
from tests.unit.node.peripherals import modem
from tests.unit.node.reported import Reported

PROGRAM: Final = "/opt/modem-ok"
HOUR_S: Final = 3600


class Program:
    """A program that was started, and ends by itself, or by a signal if it can."""

    def __init__(self, world: World, script: Script) -> None:
        self._world = world
        self._script = script
        self._dead = trio.Event()
        self._status = script.status

    async def listen(self) -> None:
        """Print, and end when it is time."""
        await trio.sleep(self._script.takes_s)
        self._dead.set()
        await trio.sleep_forever()

    async def wait_dead(self) -> None:
        """Wait for its end."""
        await self._dead.wait()

    def kill_group(self, number: int) -> None:
        """End it, if it can be ended."""
        if not self._script.is_undead and not self._dead.is_set():
            self._status = -number
            self._dead.set()

    def bury(self) -> tuple[int | None, bytes, bytes]:
        """It is no more."""
        self._world.running -= 1
        status = self._status if self._dead.is_set() else None
        return status, self._script.said, self._script.complained


@attrs.frozen(kw_only=True)
class Script:
    """What a program does.

    Attributes:
        is_undead: No signal ends it.
        missing: Why it cannot be started; 0 where it can.
    """

    status: int = 0
    said: bytes = b""
    complained: bytes = b""
    takes_s: float = 1.0
    is_undead: bool = False
    missing: int = 0


class World:
    """Starts programs.

    Attributes:
        scripts: What they do, by their last argument.
        started: Last argument and time of each start.
        running: How many run now.
        most: How many ran at once.
    """

    def __init__(self) -> None:
        self.scripts: dict[str, Script] = {}
        self.started: list[tuple[str, float]] = []
        self.running = self.most = 0

    async def launch(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        limiter: trio.CapacityLimiter,  # noqa: ARG002 - no thread is needed here
    ) -> Running:
        """Start one."""
        await trio.lowlevel.checkpoint()
        assert command[0] == PROGRAM
        assert environment == ENVIRONMENT
        script = self.scripts.get(command[-1], Script())
        self.started.append((command[-1], trio.current_time()))
        if script.missing:
            raise HostError(command[0], "cannot be run: it is so", errno=script.missing)
        self.running += 1
        self.most = max(self.most, self.running)
        return Program(self, script)

    def starts(self, argument: str) -> list[float]:
        """When the programs with this argument were started."""
        return [at_s for each, at_s in self.started if each == argument]


class Bed:
    """A watch over serial adapters by a command that is given the name of each.

    Args:
        count: How many there are.
    """

    def __init__(self, count: int) -> None:
        self.world = World()
        self.reports = Reported()
        devices = [modem(number) for number in range(count)]
        self.inventory: Latest[Inventory] = Latest(Inventory(peripherals=tuple(devices)))
        self.commands: Latest[Mapping[str, tuple[str, ...]]] = Latest(
            {one.identity: (PROGRAM, one.name) for one in devices}
        )
        config, said = read_table(
            Config,
            '[[generic]]\nname = "modem"\nmatch = { path = "/dev/ttyUSB*" }\n'
            f'health = {{ command = ["{PROGRAM}", "{{name}}"] }}',
        )
        assert config is not None
        assert said == []
        terms: Latest[health.Watching] = Latest(Watching.of(config))
        self.watch = CommandWatch(
            self.reports,
            inventory=self.inventory,
            commands=self.commands,
            terms=terms,
            launch=self.world.launch,
        )

    def codes(self, number: int) -> list[tuple[str, ...]]:
        """What was told of one of them."""
        return [each.codes for each in self.reports.of(modem(number).identity)]

    def messages(self, number: int) -> list[str]:
        """In which words."""
        return [each.message for each in self.reports.of(modem(number).identity)]


async def test_device_is_unknown_until_its_command_has_answered(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Then it is asked at the command's interval."""
    bed = Bed(1)
    await nursery.start(bed.watch.run)
    await trio.sleep(125)

    assert bed.reports.expected == [(modem(0).identity, SOURCE)]
    assert bed.codes(0) == [(), (), ()]
    assert all(each.asked for each in bed.reports.told)
    assert bed.world.starts("modem-0") == [0, 60, 120]


@pytest.mark.parametrize(
    ("script", "code", "words"),
    [
        (Script(status=1, said=b"no carrier\n"), "probe-failed", "no carrier"),
        (Script(status=2, said=b"asleep\n"), "unasked", "asleep"),
        (Script(status=5), "probe-failed", "ended with status 5"),
        (
            Script(status=127, complained=b"a\nmmcli: not found\n"),
            "probe-failed",
            "mmcli: not found",
        ),
        (Script(takes_s=99), "probe-failed", "had not ended after 10 s and was killed"),
        (Script(missing=errno.ENOENT), "probe-failed", f"{PROGRAM}: cannot be run: it is so"),
        (Script(missing=errno.EMFILE), "unasked", "cannot be run: it is so"),
    ],
)
async def test_answer_is_told(
    script: Script, code: str, words: str, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """What it says, that it says nothing of use, or that it cannot be asked."""
    bed = Bed(1)
    bed.world.scripts["modem-0"] = script
    await nursery.start(bed.watch.run)
    await trio.sleep(30)

    assert bed.codes(0) == [(code,)]
    assert words in bed.messages(0)[0]


async def test_four_commands_run_at_once(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    """However many devices there are, and however slow they are: waiting is no silence."""
    bed = Bed(30)
    for number in range(30):
        bed.world.scripts[f"modem-{number}"] = Script(takes_s=9)
    await nursery.start(bed.watch.run)
    await trio.sleep(600)

    assert bed.world.most == 4
    for number in range(30):
        assert set(bed.codes(number)) == {()}
        assert len(bed.world.starts(f"modem-{number}")) >= 7


async def test_command_that_cannot_be_killed_is_left_alone_and_never_run_twice(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Its device does not answer, the others do; when it ends after all, it is run again."""
    bed = Bed(6)
    for number in range(5):
        bed.world.scripts[f"modem-{number}"] = Script(is_undead=True, takes_s=HOUR_S)
    await nursery.start(bed.watch.run)
    await trio.sleep(HOUR_S - 1)

    for number in range(5):
        assert set(bed.codes(number)) == {("no-answer",)}
        assert len(bed.world.starts(f"modem-{number}")) == 1
        assert f"{PROGRAM} cannot be killed" in bed.messages(number)[-1]
    assert set(bed.codes(5)) == {()}
    assert len(bed.world.starts("modem-5")) == HOUR_S // 60
    bed.world.scripts = {}
    await trio.sleep(3)
    assert bed.codes(0)[-2:] == [("probe-failed",), ()]


async def test_stop_waits_for_no_command(autojump_clock: MockClock) -> None:
    """Not even for one that cannot be killed."""
    bed = Bed(3)
    bed.world.scripts["modem-0"] = Script(is_undead=True, takes_s=HOUR_S)
    bed.world.scripts["modem-1"] = Script(takes_s=HOUR_S)

    with trio.move_on_after(5):
        await bed.watch.run()

    assert trio.current_time() <= 6
    assert bed.world.running == 0


async def test_devices_and_commands_may_change(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Another command is run at once; without one, or without its device, nothing is."""
    bed = Bed(3)
    await nursery.start(bed.watch.run)
    await trio.sleep(10)

    first, second = modem(0).identity, modem(1).identity
    bed.commands.set({first: (PROGRAM, "-v", "modem-0"), second: (PROGRAM, "modem-1")})
    gone = attrs.evolve(modem(1).absent(), held_by=("team/user",))
    bed.inventory.set(Inventory(peripherals=(modem(0), gone, modem(2))))
    await trio.sleep(10)

    assert bed.world.starts("modem-0") == [0, 10]
    assert bed.world.starts("modem-1") == bed.world.starts("modem-2") == [0]
    assert bed.codes(1)[-1] == bed.codes(2)[-1] == ("retired",)


async def test_what_a_command_found_is_void_when_it_is_asked_no_more(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """The operator took it out of the configuration while no agent ran."""
    bed = Bed(2)
    for number in range(2):
        sick = Finding(code="probe-failed", severity=Severity.FAULT, message="no carrier")
        bed.reports.report(modem(number).identity, SOURCE, [sick])
    bed.commands.set({modem(1).identity: (PROGRAM, modem(1).name)})

    await nursery.start(bed.watch.run)
    await trio.sleep(0.5)

    assert bed.reports.standing(modem(0).identity, SOURCE) == ()
    assert [one.code for one in bed.reports.standing(modem(1).identity, SOURCE)] == ["probe-failed"]
