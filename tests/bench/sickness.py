"""Devices that fall ill on a rehearsal's stage: when who is told, and what watching costs.

Run in a world of its own, it plays one scene, as a job on stdin names it, and tells JSON. The
daemon, its sockets and its disk are real; NVML, kubelet and the API server are stand-ins. These two
live in this process, and what they need themselves to take a message is in every figure.
"""

from __future__ import annotations

import json
import os
import stat
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import trio

from berth.health.taints import HEALTH_WORDS
from berth.rehearsal.apiserver import store as stores
from berth.rehearsal.apiserver.resources import SLICES
from berth.rehearsal.gpuworld import GpuWorld, plug_in
from berth.rehearsal.kubelet import Act, Note
from berth.rehearsal.nvml import world as worlds
from berth.rehearsal.nvml.cards import hung, needing, struck, whole
from berth.rehearsal.nvml.world import Card
from berth.rehearsal.stage import Setting, Stage
from tests.bench.processes import cpu_s, rss_mb, switches
from tests.integration.rehearsal.players import until

GPU: Final = "nvidia.com/gpu"
NODE: Final = "berth.dev/lab"
LOOK_S: Final = 5
"""How often the nodes of the scene in which they all fall ill are looked at."""

_XID: Final = 79
_RESET: Final = 1
_BURST: Final = 8
_REFILL_S: Final = 5.3
_QUIET_S: Final = 1.0
_SETTLE_S: Final = 12.0
_FOLDER: Final = Path("/dev/lab")
_MAJOR: Final = 240
_LIMIT_S: Final = 60.0
_LOOKS: Final = 4
# In each second.


class Stamped(list[Note]):
    """What kubelet told, each with its moment."""

    def __init__(self) -> None:
        super().__init__()
        self.moments: list[float] = []

    def append(self, note: Note) -> None:
        """Take one."""
        self.moments.append(time.perf_counter())
        super().append(note)

    def first(self, begin: int, fits: Callable[[Note], bool]) -> float | None:
        """When the first one from a place on came that fits."""
        pairs = zip(self[begin:], self.moments[begin:], strict=True)
        return next((moment for note, moment in pairs if fits(note)), None)


class Written(stores.Store):
    """A store that knows when each slice was accepted, and which devices were told sick in it."""

    writes: list[tuple[float, frozenset[str]]] = []  # noqa: RUF012 - the server makes its one store itself

    def put(self, key: stores.Key, value: Mapping[str, Any]) -> dict[str, Any]:
        """Store it."""
        before = self.version
        stored = super().put(key, value)
        if key.resource == SLICES.plural and self.version != before:
            devices = stored["spec"].get("devices", ())
            sick = frozenset(one["name"] for one in devices if _is_sick(one))
            self.writes.append((time.perf_counter(), sick))
        return stored

    @classmethod
    def first(cls, begin: int, name: str) -> float | None:
        """When the first slice from a place on was accepted in which a device is told sick."""
        return next((moment for moment, sick in cls.writes[begin:] if name in sick), None)


class Scene:
    """One stage, and the devices on it.

    Args:
        gpus: How many of these.
        nodes: How many device nodes.
        look_s: How often nodes are looked at; 0 for the usual time.
    """

    def __init__(self, *, gpus: int, nodes: int, look_s: int = 0) -> None:
        self.cards = [whole(number, f"0000:{0x10 + number:02x}:00.0") for number in range(gpus)]
        self.notes = Stamped()
        self._world = plug_in(self.cards)
        self.nodes = _make_nodes(nodes)
        self.count = gpus + nodes
        self.stage = Stage(
            Setting(
                config=_config(self._world if gpus else None, nodes=nodes, look_s=look_s),
                environment=self._world.environment,
            )
        )
        self.stage.notes = self.notes

    def show(self, number: int, card: Card) -> None:
        """Let one GPU be like this from now on."""
        self.cards[number] = card
        place = Path(self._world.environment[worlds.VARIABLE])
        worlds.write(place, worlds.World(cards=tuple(self.cards)))

    async def healthy(self) -> None:
        """Wait until all devices are published, listed and said to be well."""
        counts = {GPU: len(self.cards), NODE: len(self.nodes)}

        def ready() -> bool:
            listed = all(
                self.stage.devices.allocatable(name) == count for name, count in counts.items()
            )
            return (
                listed and self.told("Healthy") == len(self.stage.cluster.devices()) == self.count
            )

        await until(ready, _LIMIT_S)

    def told(self, health: str) -> int:
        """Of how many devices kubelet was told this by the stream."""
        statuses = self.stage.kubelet.health.statuses.get()
        return sum(status.health == health for status in statuses.values())

    async def moment(self, found: Callable[[], float | None]) -> float:
        """Wait until there is a moment of something, and give it."""
        await until(lambda: found() is not None, _LIMIT_S)
        moment = found()
        assert moment is not None
        return moment


async def strike(job: Mapping[str, Any]) -> Mapping[str, Any]:
    """One GPU after the other is told an XID of; while its slice may be written at once."""
    scene = Scene(gpus=job["samples"], nodes=0)
    found: dict[str, list[float]] = {"stream": [], "list": [], "slice": []}
    async with playing(scene):
        names = _gpu_names(scene)
        for number, card in enumerate(scene.cards):
            await trio.sleep(_QUIET_S if number < _BURST else _REFILL_S)
            told, written = len(scene.notes), len(Written.writes)
            began = time.perf_counter()
            scene.show(number, needing(struck(card, _XID), _RESET))
            left = f"{len(scene.cards) - number - 1}/{len(scene.cards)}"
            ends = {
                "stream": partial(scene.notes.first, told, _says(names[number], "Unhealthy")),
                "list": partial(scene.notes.first, told, _lists(left)),
                "slice": partial(Written.first, written, names[number]),
            }
            for who, end in ends.items():
                found[who].append((await scene.moment(end) - began) * 1000)
    return found


async def hang(job: Mapping[str, Any]) -> Mapping[str, Any]:
    """One GPU after the other lets no call come back any more, until that was told."""
    scene = Scene(gpus=job["samples"], nodes=0)
    found = []
    async with playing(scene):
        names = _gpu_names(scene)
        for number, card in enumerate(scene.cards):
            # Not in step with the probes.
            await trio.sleep(_SETTLE_S / 10 * (1 + number % 4))
            told = len(scene.notes)
            began = time.perf_counter()
            scene.show(number, hung(card))
            end = partial(scene.notes.first, told, _says(names[number], "Unhealthy"))
            found.append(await scene.moment(end) - began)
            scene.show(number, card)
    return {"seconds": found}


async def fall(job: Mapping[str, Any]) -> Mapping[str, Any]:
    """All device nodes are gone at one moment; times count from the first word of it.

    A pod has them: those that nobody has leave the slices, and fall ill for nobody.
    """
    scene = Scene(gpus=0, nodes=job["devices"], look_s=LOOK_S)
    async with playing(scene):
        await scene.stage.devices.admit("default", "all", {"main": {NODE: scene.count}})
        await trio.sleep(_SETTLE_S)
        pid = scene.stage.berthd.pid
        spent_s = cpu_s(pid)
        await trio.sleep(job["watch_s"])
        quiet_s, spent_s = cpu_s(pid) - spent_s, cpu_s(pid)
        told, written = len(scene.notes), len(Written.writes)
        for path in scene.nodes:
            path.unlink()
        gone = time.perf_counter()
        first = await scene.moment(partial(scene.notes.first, told, _lists("")))
        due: dict[str, Callable[[], bool]] = {
            "stream": lambda: scene.told("Unhealthy") == scene.count,
            "list": lambda: scene.stage.devices.allocatable(NODE) == 0,
            "slices": lambda: _sick(Written.writes[written:]) == scene.count,
        }
        ends = {}
        with trio.fail_after(_LIMIT_S):
            while due:
                for who in [who for who, holds in due.items() if holds()]:
                    ends[who] = time.perf_counter() - first
                    del due[who]
                await trio.sleep(0.01)
        await trio.sleep(job["watch_s"] - (time.perf_counter() - gone))
        return {
            "seen_s": first - gone,
            "ends_s": ends,
            "writes_s": [moment - first for moment, _ in Written.writes[written:]],
            "slices": len(scene.stage.cluster.slices()),
            "lists": sum(_lists("")(note) for note in scene.notes[told:]),
            "cpu_s": cpu_s(pid) - spent_s,
            "quiet_cpu_s": quiet_s,
        }


async def idle(job: Mapping[str, Any]) -> Mapping[str, Any]:
    """Devices that are well, and nobody who wants any."""
    scene = Scene(gpus=job["gpus"], nodes=job["nodes"])
    async with playing(scene):
        pid = scene.stage.berthd.pid
        ready_mb = rss_mb(pid)
        await trio.sleep(_SETTLE_S)
        before, spent_s, written = _by_thread(switches(pid)), cpu_s(pid), len(Written.writes)
        woken: dict[str, int] = {}
        for _ in range(job["watch_s"] * _LOOKS):
            # Threads that end take their count with them.
            await trio.sleep(1 / _LOOKS)
            woken |= _by_thread(switches(pid))
        return {
            "woken": {number: count - before.get(number, 0) for number, count in woken.items()},
            "cpu_s": cpu_s(pid) - spent_s,
            "ready_mb": ready_mb,
            "last_mb": rss_mb(pid),
            "writes": len(Written.writes) - written,
        }


@asynccontextmanager
async def playing(scene: Scene) -> AsyncIterator[None]:
    """The scene with the daemon on it, once all is well."""
    async with trio.open_nursery() as nursery:
        await nursery.start(scene.stage.run)
        await scene.stage.start()
        await scene.healthy()
        yield
        nursery.cancel_scope.cancel()


def _make_nodes(count: int) -> tuple[Path, ...]:
    """Device nodes in the world's own ``/dev``, of numbers that no driver has."""
    paths = tuple(_FOLDER / f"node{number}" for number in range(count))
    if paths:
        _FOLDER.mkdir()
    for number, path in enumerate(paths):
        os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(_MAJOR, number))
    return paths


def _config(gpus: GpuWorld | None, *, nodes: int, look_s: int) -> dict[str, Any]:
    config: dict[str, Any] = {}
    if gpus is not None:
        library = str(gpus.library)
        config["gpu"] = {"library": library, "cdi": {"source": "builtin"}, "door": "both"}
    if nodes:
        group = {"name": "lab", "match": {"path": f"{_FOLDER}/*"}, "door": "both"}
        times = {"interval_s": look_s, "deadline_s": 2, "timeout_s": 30}
        config["generic"] = [{**group, **({"health": times} if look_s else {})}]
    return config


def _gpu_names(scene: Scene) -> list[str]:
    """Names of the GPUs, in the order of the cards."""
    found = {
        device["attributes"]["uuid"]["string"]: name
        for name, device in scene.stage.cluster.devices().items()
    }
    return [found[card.uuid] for card in scene.cards]


def _says(name: str, health: str) -> Callable[[Note], bool]:
    """Whether kubelet is told this of a device, or of any where none is named."""

    def fits(note: Note) -> bool:
        words = note.detail.split(maxsplit=1)
        return (
            note.act is Act.HEALTH_TOLD
            and words[0].endswith(f"/{name}" if name else "")
            and words[1].startswith(health)
        )

    return fits


def _lists(counts: str) -> Callable[[Note], bool]:
    """Whether kubelet is given a list of so many healthy ids, or any where nothing is said."""
    return lambda note: note.act is Act.LISTED and counts in {"", note.detail}


def _by_thread(found: Mapping[str, int]) -> dict[str, int]:
    """Without what threads are called, which changes with what they do; the first is ``main``."""
    numbers = [name.split()[0] for name in found]
    first = min(numbers, key=int)
    return {
        "main" if number == first else number: count
        for number, count in zip(numbers, found.values(), strict=True)
    }


def _sick(writes: Sequence[tuple[float, frozenset[str]]]) -> int:
    return len(frozenset().union(*(sick for _, sick in writes)))


def _is_sick(device: Mapping[str, Any]) -> bool:
    words = {taint["key"].rpartition("/")[2] for taint in device.get("taints", ())}
    return not words.isdisjoint(HEALTH_WORDS)


SCENES: Final[Mapping[str, Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]]] = {
    each.__name__: each for each in (strike, hang, fall, idle)
}


def main() -> None:
    """Do the job of stdin."""
    import berth.rehearsal.apiserver.server as standin

    # The stand-in makes its store itself.
    setattr(standin, "Store", Written)  # noqa: B010 - mypy knows it as private there
    job = json.load(sys.stdin)
    json.dump(trio.run(SCENES[job["scene"]], job), sys.stdout)


if __name__ == "__main__":
    main()
