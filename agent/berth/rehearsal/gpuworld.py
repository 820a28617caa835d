"""GPUs for a world that has none: the stand-in for NVML, and what the kernel would show of them.

Device nodes, ``/proc/devices`` and PCI functions lie over the world's own, in its mount namespace.
The nodes have the numbers of NVIDIA's driver, and are opened by nobody.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

from berth.errors import HostError
from berth.rehearsal.mounts import MS_NOEXEC, MS_NOSUID, bind, mount, unmount
from berth.rehearsal.nvml import world as worlds
from berth.rehearsal.nvml.build import build
from berth.rehearsal.nvml.cards import whole
from berth.rehearsal.nvml.world import Card
from berth.rehearsal.nvml.world import World as Cards
from berth.rehearsal.world import ROOT

CARDS: Final = tuple(
    whole(number, f"0000:{place}:00.0") for number, place in enumerate(("1b", "1c"))
)
"""Two of them, which nobody divides."""

_FOLDER: Final = ROOT / "gpus"
_DEV: Final = Path("/dev")
_PCI: Final = Path("/sys/bus/pci/devices")
_DEVICES: Final = Path("/proc/devices")
_DRIVER: Final = Path("/proc/driver")
_MAJOR: Final = 195
_UVM_MAJOR: Final = 511
_CONTROL: Final = (
    ("nvidiactl", _MAJOR, 255),
    ("nvidia-uvm", _UVM_MAJOR, 0),
    ("nvidia-uvm-tools", _UVM_MAJOR, 1),
)


@attrs.frozen(kw_only=True)
class GpuWorld:
    """GPUs that were plugged in.

    Attributes:
        library: Stands in for the driver's management library.
        environment: With what a process of the world finds these GPUs by it.
        nodes: Paths of their nodes, by PCI address.
    """

    library: Path
    environment: Mapping[str, str]
    nodes: Mapping[str, str]


def plug_in(cards: Sequence[Card] = CARDS) -> GpuWorld:
    """Give the world GPUs; blocks for seconds, in which the stand-in is compiled.

    Raises:
        HostError: There is no compiler, or this user can make no device nodes.
    """
    told = _FOLDER / "world"
    try:
        _FOLDER.mkdir()
        library = build(below=_FOLDER)
        _cover_dev(cards)
        for card in cards:
            _show_function(_PCI / card.address, card)
        _cover_proc()
        worlds.write(told, Cards(cards=tuple(cards)))
    except OSError as error:
        raise HostError("GPUs", f"cannot be shown: {error}") from error
    return GpuWorld(
        library=library,
        environment={worlds.VARIABLE: str(told)},
        nodes={card.address: str(_DEV / f"nvidia{card.minor}") for card in cards},
    )


def pull_out(cards: Sequence[Card] = CARDS) -> None:
    """Take the GPUs away again; blocks.

    Raises:
        HostError: Something still uses what showed them.
    """
    for place in (_DEV, _DEVICES, _DRIVER):
        unmount(place)
    for card in cards:
        shutil.rmtree(_PCI / card.address)


def _cover_dev(cards: Iterable[Card]) -> None:
    """Show a ``/dev`` that has the machine's own entries, and the GPUs' nodes."""
    own = _FOLDER / "dev"
    own.mkdir()
    mount("tmpfs", own, flags=MS_NOSUID | MS_NOEXEC, options="mode=755")
    for name, major, minor in (*_CONTROL, *((f"nvidia{c.minor}", _MAJOR, c.minor) for c in cards)):
        try:
            os.mknod(own / name, 0o666 | stat.S_IFCHR, os.makedev(major, minor))
        except OSError as error:
            found = f"cannot be made: {error.strerror}"
            raise HostError(f"device node {name}", found, mend="run it as root") from error
        (own / name).chmod(0o666)
    _show_again(_DEV, own)
    bind(own, _DEV, whole=True)


def _show_again(folder: Path, own: Path) -> None:
    """Show a folder's entries in another; what is written there does not reach the machine."""
    for entry in folder.iterdir():
        there = own / entry.name
        if there.exists() or there.is_symlink():
            continue
        if entry.is_symlink():
            there.symlink_to(entry.readlink())
        elif not entry.is_dir():
            there.touch()
            bind(entry, there)
        else:
            there.mkdir()
            if entry.is_mount():
                bind(entry, there, whole=True)
            else:
                _show_again(entry, there)


def _show_function(folder: Path, card: Card) -> None:
    folder.mkdir()
    for name, value in (
        ("class", "0x030200"),
        ("vendor", "0x10de"),
        ("device", f"0x{card.device_id >> 16:04x}"),
        ("numa_node", "0"),
    ):
        (folder / name).write_text(f"{value}\n", encoding="ascii")
    (folder / "driver").symlink_to("../../drivers/nvidia")


def _cover_proc() -> None:
    driver = _FOLDER / "driver"
    # A machine with this driver has other numbers for some of it.
    lines = _DEVICES.read_text(encoding="ascii").splitlines(keepends=True)
    text = "".join(line for line in lines if "nvidia" not in line)
    majors = f"{_MAJOR} nvidia-frontend\n{_UVM_MAJOR} nvidia-uvm\n"
    own = _FOLDER / "devices"
    own.write_text(text.replace("\nBlock devices:", f"{majors}\nBlock devices:"), encoding="ascii")
    (driver / "nvidia").mkdir(parents=True)
    bind(own, _DEVICES)
    bind(driver, _DRIVER)
