"""What needs a process of its own, since a library that is loaded stays loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth.host.nvml import calls
from berth.rehearsal.nvml import world as worlds
from berth.rehearsal.nvml.world import World
from tests import nvml
from tests.nvml import cards
from tests.unit.host.nvml.conftest import FULL, PARTED
from tests.unit.rehearsal.nvml.test_build import symbols

OPEN = """
import sys, trio, trio.testing
from pathlib import Path
from berth.host.nvml.owner import Nvml
from berth.rehearsal.nvml import world as worlds
from tests.nvml import cards
from tests.unit.host.nvml.conftest import FULL, PARTED

async def state(owner, version):
    version = await owner.wait_session_changed(version)
    while owner.session.due_s is not None and owner.session.due_s <= trio.current_time():
        version = await owner.wait_session_changed(version)
    print(owner.session.state.value, flush=True)
    return version

async def main():
    owner = Nvml(library=sys.argv[1])
    async with trio.open_nursery() as nursery:
        await nursery.start(owner.run)
        version = owner.version
        owner.notice(functions=2)
        version = await state(owner, version)
        {then}
        clock.autojump_threshold = 0  # nothing but the stop is left to take time
        nursery.cancel_scope.cancel()

clock = trio.testing.MockClock()
trio.run(main, clock=clock)
"""


def opened(then: str, path: Path, *arguments: str) -> list[str]:
    """Run an owner in a process, and give the words that it printed."""
    lines = "\n        ".join(then.strip().splitlines())
    return nvml.run_alone(OPEN.replace("{then}", lines), path, *arguments).split("\n")[:-1]


def test_library_that_appears_later_is_taken(tmp_path: Path) -> None:
    """No restart: absent, then there but of another driver, then fine (T3)."""

    later = tmp_path / "lib" / "libnvidia-ml.so.1"
    world = tmp_path / "world"
    worlds.write(world, World(cards=(FULL, PARTED), init_error=18))
    then = f"""
Path({str(later)!r}).parent.mkdir()
Path({str(later)!r}).symlink_to(sys.argv[2])
clock.jump(60)
version = await state(owner, version)
worlds.write(Path({str(world)!r}), worlds.World(cards=(FULL, PARTED), init_error=9))
clock.jump(60)
version = await state(owner, version)
worlds.write(Path({str(world)!r}), cards(FULL, PARTED))
owner.notice(functions=2, bind=True)
version = await state(owner, version)
print(len((await owner.walk()).gpus))
"""

    assert opened(then, world, str(later), str(nvml.library())) == [
        "library-absent",
        "mismatch",
        "driver-absent",
        "up",
        "2",
    ]


def test_older_library_gives_what_it_has(tmp_path: Path) -> None:
    """Profiles without names, no addressing mode, no word of processes, and all the rest (T1)."""

    worlds.write(tmp_path / "world", cards(FULL, PARTED))
    then = """
full, parted = (await owner.walk()).gpus
print(full.missing)
print(parted.missing)
print(len(parted.mig_devices), {profile.name for profile in parted.mig_profiles})
print(await owner.probe(full.address))
print((await owner.processes(full.address)).code)
"""
    printed = opened(then, tmp_path / "world", str(nvml.library(old_driver=True)))

    note = "{'addressing_mode': 'the library has no such function (13)'}"
    assert printed[:4] == ["up", note, note, "2 {''}"]
    assert printed[4].startswith("Probe(fields={230: 0")
    assert printed[5] == "13"


def test_library_with_another_soname_is_not_taken_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What pynvml opens then is another file, which nobody named and is never initialised."""

    other = tmp_path / "libother.so"
    content = nvml.library().read_bytes()
    other.write_bytes(content.replace(b"libnvidia-ml.so.1", b"libnvidia-xx.so.1"))
    worlds.write(tmp_path / "world", cards(FULL))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(nvml.library().parent))
    state, detail = opened("print(owner.session.detail)", tmp_path / "world", str(other))

    assert state == "library-absent"
    assert detail == f"{other} is not what answers: {nvml.library()} does"


def test_process_ends_at_once_with_a_call_that_hangs(tmp_path: Path) -> None:
    """The thread is left to itself (T4)."""

    worlds.write(tmp_path / "world", cards(FULL, PARTED))
    then = f"""
import attrs
while not owner.statistics().listening:
    await trio.testing.wait_all_tasks_blocked(0.01)
hung = attrs.evolve(FULL, hang_ms=worlds.FOR_EVER)
worlds.write(Path({str(tmp_path / "world")!r}), cards(hung, PARTED))
nursery.start_soon(owner.probe, FULL.address)
while not owner.statistics().calls.open:
    await trio.testing.wait_all_tasks_blocked(0.01)
clock.jump(4)
print(owner.statistics().calls.open[0].key)
"""

    assert opened(then, tmp_path / "world", str(nvml.library())) == ["up", FULL.address]


def test_symbols_that_are_reached_are_those_that_are_listed(tmp_path: Path) -> None:
    """A walk, a probe and events reach nothing else, and the stand-in has all of them."""

    worlds.write(tmp_path / "world", cards(FULL, PARTED))
    then = """
import pynvml
while not owner.statistics().listening:
    await trio.testing.wait_all_tasks_blocked(0.01)
await owner.walk()
await owner.probe(FULL.address)
print(*pynvml._nvmlGetFunctionPointer_cache)
"""
    printed = opened(then, tmp_path / "world", str(nvml.library()))

    assert set(printed[1].split()) == set(calls.SYMBOLS)
    assert set(calls.SYMBOLS) <= symbols(nvml.library())
