"""GPUs by both witnesses, NVML's word being that of the stand-in's library."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pytest
import trio

from berth.host.nvml.owner import Nvml
from berth.model.peripheral import Peripheral
from berth.node.gpus.gpus import Gpus
from berth.rehearsal.nvml.cards import whole
from berth.rehearsal.nvml.world import LOST, World
from tests import nvml
from tests.nvml import cards
from tests.unit.node.gpus.test_gpus import ADDRESSES, BUILTIN, NAMES, UP, Driven, at_once

CARDS = tuple(whole(number, address) for number, address in enumerate(ADDRESSES))
Show = Callable[[World], None]


@pytest.fixture
def show(tmp_path: Path) -> Iterator[Show]:
    """Show both cards in good health; another world can be put in their place."""
    nvml.library()
    with nvml.shown(tmp_path / "world", cards(*CARDS)) as put:
        yield put


async def first_sight(folder: Path, *, lost: str = "") -> dict[str, Peripheral]:
    """What a daemon that starts on this machine makes of it.

    Args:
        lost: Name of the GPU of which that is known in the end.
    """
    driven, known = Driven(UP), [lost] if lost else []
    gpus = Gpus(
        BUILTIN,
        open_nvml=lambda: Nvml(library=str(nvml.library()), hold=False),
        folder=folder,
        sysfs=driven,  # type: ignore[arg-type]
        files=driven,  # type: ignore[arg-type]
        links=driven,  # type: ignore[arg-type]
        listen=driven.listen,
        aside=at_once,
    )
    async with trio.open_nursery() as running:
        with trio.fail_after(60):
            await running.start(gpus.run)
            found = await gpus.peripherals.wait_value(
                lambda now: bool(now) and _settled(now) == known
            )
        running.cancel_scope.cancel()
    return {one.name: one for one in found}


def _settled(now: tuple[Peripheral, ...]) -> list[str] | None:
    """Names of the lost; ``None`` while there is one that was not asked yet."""
    if any("probing" in one.obstacle for one in now):
        return None
    return [one.name for one in now if "lost" in one.obstacle]


def _reason(one: Peripheral) -> str:
    return one.exclusion.reason if one.exclusion is not None else ""


async def test_shuffled_machine_with_a_lost_gpu_keeps_its_names(show: Show, tmp_path: Path) -> None:
    """All but one are offered as what they were, and that one is there with a reason (T2)."""

    before = await first_sight(tmp_path / "one")
    show(cards(attrs.evolve(CARDS[1], minor=0), attrs.evolve(CARDS[0], minor=1, error=LOST)))
    after = await first_sight(tmp_path / "two", lost=NAMES[0])

    assert before.keys() == after.keys() == {*NAMES}
    assert {name: _reason(one) for name, one in after.items()} == {NAMES[0]: "lost", NAMES[1]: ""}
    was, now = before[NAMES[1]], after[NAMES[1]]
    assert (was.identity, was.keys, was.attributes) == (now.identity, now.keys, now.attributes)
    assert [node.path for node in now.edits.nodes] == ["/dev/nvidia0"]


async def test_gpu_that_was_known_and_is_lost_is_kept_as_what_it_was(
    show: Show, tmp_path: Path
) -> None:
    """A restart in the same boot lists it under its ids, for nobody to have."""

    before = await first_sight(tmp_path)
    show(cards(CARDS[1], attrs.evolve(CARDS[0], error=LOST)))
    after = await first_sight(tmp_path, lost=NAMES[0])

    assert after[NAMES[0]].attributes == before[NAMES[0]].attributes
    assert after[NAMES[0]].obstacle == "is unhealthy (lost)"
    assert after[NAMES[1]].obstacle == ""
