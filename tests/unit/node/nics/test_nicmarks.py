"""The files by which network managers are told, as the inventory changes."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from berth.model.device import Exclusion, Nic, NicKind
from berth.model.inventory import Inventory
from berth.node.nics.nicmarks import NicMarks
from berth.runtime.latest import Latest

FAST, SLOW = "0000:41:00.0", "0000:42:00.0"
LIMIT_S = 10.0


class Bed:
    """A machine's folders, and what udev was told.

    Attributes:
        told: Marks, and whether their file was there by then.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.kept = folder / "run", folder / "state/nics"
        self.folder.mkdir()
        self.inventory: Latest[Inventory] = Latest(Inventory())
        self.told: Latest[tuple[tuple[str, bool], ...]] = Latest(())
        self.marks = NicMarks(self.inventory, kept=self.kept, folder=self.folder, tell=self._note)

    def _note(self, mark: str) -> None:
        found = (mark, (self.folder / mark).exists())
        trio.from_thread.run_sync(lambda: self.told.set((*self.told.get(), found)))

    def see(self, *nics: Nic) -> None:
        """Let these be what the machine has."""
        self.inventory.set(Inventory(nics=nics, has_uplink=True))

    async def wait_told(self, *wanted: tuple[str, bool]) -> None:
        """Wait until udev was told just that, in whatever order."""
        with trio.fail_after(LIMIT_S):
            await self.told.wait_value(lambda told: sorted(told) == sorted(wanted))


def names(folder: Path) -> list[str]:
    """The files of a folder."""
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def _nic(address: str, *, reason: str = "", index: int = 5) -> Nic:
    exclusion = Exclusion(reason=reason) if reason else None
    name = f"nic-{address}"
    return Nic(
        identity=f"pci:{address}",
        name=name,
        kind=NicKind.PCI,
        group="fast",
        pci=address,
        ifindex=index,
        exclusion=exclusion,
    )


@pytest.fixture
def bed(tmp_path: Path) -> Bed:
    """The folders as the package makes them."""
    return Bed(tmp_path)


async def test_marks_come_and_go(bed: Bed, nursery: trio.Nursery) -> None:
    """Whoever listens to udev is told after each change; what lasts is kept with the state."""

    bed.see(_nic(FAST), _nic(SLOW, reason="uplink"))
    nursery.start_soon(bed.marks.run)
    await bed.wait_told((FAST, True))
    bed.see(_nic(FAST, reason="in-use-by-host"), _nic(SLOW))
    await bed.wait_told((FAST, True), (SLOW, True), (FAST, False))

    assert (names(bed.folder), names(bed.kept)) == ([SLOW], [SLOW])


async def test_mark_stays_while_its_nic_is_away(bed: Bed, nursery: trio.Nursery) -> None:
    """It has to be there when the link comes home."""

    bed.see(_nic(FAST))
    nursery.start_soon(bed.marks.run)
    await bed.wait_told((FAST, True))
    bed.see(_nic(FAST, index=0), _nic(SLOW))
    await bed.wait_told((FAST, True), (SLOW, True))

    assert names(bed.folder) == [FAST, SLOW]


async def test_marks_of_the_life_before(tmp_path: Path, nursery: trio.Nursery) -> None:
    """Those of this boot and of the last stand; what is no more is taken away, and told."""

    bed = Bed(tmp_path)
    bed.kept.mkdir(parents=True)
    for path in (bed.folder / "ifindex-99", bed.folder / FAST, bed.kept / FAST, bed.kept / SLOW):
        path.touch()
    bed.see(_nic(FAST), _nic(SLOW))
    nursery.start_soon(bed.marks.run)
    await bed.wait_told(("ifindex-99", False))

    assert names(bed.folder) == [FAST, SLOW]


async def test_no_folder_is_made(tmp_path: Path) -> None:
    """Without the package nobody looks there, and the machine is left as it is."""

    bed = Bed(tmp_path)
    bed.folder.rmdir()
    bed.see(_nic(FAST))

    with trio.fail_after(LIMIT_S):
        await bed.marks.run()
    assert names(tmp_path) == []


async def test_folder_that_refuses_is_tried_again(bed: Bed, nursery: trio.Nursery) -> None:
    """A mark that could not be made counts as missing until it is made."""

    blocker = bed.folder / FAST
    blocker.mkdir()
    bed.see(_nic(FAST))
    nursery.start_soon(bed.marks.run)
    await wait_all_tasks_blocked(0.2)
    blocker.rmdir()
    bed.see(_nic(FAST), _nic(SLOW))
    await bed.wait_told((FAST, True), (SLOW, True))
