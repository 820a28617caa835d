"""A machine with GPUs for our daemon alone: the stand-in for NVML, and trees of files around it.

Nothing of it is seen by kubelet, the runtime or this machine: they hand out what they are told, by
numbers of device nodes that no driver here serves.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Sequence
from pathlib import Path

from berth.rehearsal.nvml import world as worlds
from berth.rehearsal.nvml.build import build
from berth.rehearsal.nvml.world import Card, World
from tests.cluster.berthd import program

UVM_MAJOR = 511
CAPS_MAJOR = 510
LOCAL_MAJOR = 240
"""Left to experiments by the kernel (`admin-guide/devices.txt`)."""
DRIVER_VERSION = "580.65.06"
_HERE = Path(__file__).parent
_LIKE_ANYWHERE = {
    "null": (1, 3),
    "zero": (1, 5),
    "full": (1, 7),
    "random": (1, 8),
    "urandom": (1, 9),
}


class GpuMachine:
    """The trees, and the world that the stand-in shows.

    Args:
        folder: Where they lie, on a file system with device nodes.
        cards: GPUs to begin with.

    Attributes:
        tree: What its kernel shows of it.
    """

    def __init__(self, folder: Path, cards: Sequence[Card]) -> None:
        self.tree = folder / "tree"
        self._world = folder / "world"
        self._library = build()
        for place in ("sys/bus/pci/devices", "proc/driver/nvidia", "dev/nvidia-caps"):
            (self.tree / place).mkdir(parents=True)
        text = Path("/proc/devices").read_text(encoding="utf-8")
        majors = f"195 nvidia-frontend\n{UVM_MAJOR} nvidia-uvm\n{CAPS_MAJOR} nvidia-caps\n"
        whole = text.replace("\nBlock devices:", f"{majors}\nBlock devices:")
        (self.tree / "proc/devices").write_text(whole, encoding="utf-8")
        for name, (major, minor) in _LIKE_ANYWHERE.items():
            self.node(name, major, minor)
        for name, major, minor in (
            ("nvidiactl", 195, 255),
            ("nvidia-uvm", UVM_MAJOR, 0),
            ("nvidia-uvm-tools", UVM_MAJOR, 1),
        ):
            self.node(name, major, minor)
        self.show(cards)

    def show(self, cards: Sequence[Card]) -> None:
        """Let these be its GPUs from now on; those that were there stay on the bus."""
        for card in cards:
            self.node(f"nvidia{card.minor}", 195, card.minor)
            folder = self.tree / "sys/bus/pci/devices" / card.address
            folder.mkdir(exist_ok=True)
            for name, value in (
                ("class", "0x030200"),
                ("vendor", "0x10de"),
                ("device", f"0x{card.device_id >> 16:04x}"),
                ("numa_node", "0"),
            ):
                (folder / name).write_text(f"{value}\n", encoding="utf-8")
            if not (folder / "driver").is_symlink():
                (folder / "driver").symlink_to("../../drivers/nvidia")
            self._capabilities(card)
        worlds.write(self._world, World(cards=tuple(cards)))

    def plug_in(self, name: str, minor: int) -> None:
        """Let a device node below `/dev` be there, of a number that no driver serves."""
        self.node(name, LOCAL_MAJOR, minor)

    def pull_out(self, name: str) -> None:
        """Take a device node away."""
        (self.tree / "dev" / name).unlink()

    @property
    def config(self) -> str:
        """What the daemon's configuration says of the library."""
        return f'[gpu]\nlibrary = "{self._library}"\ncdi = {{ source = "builtin" }}\n'

    @property
    def command(self) -> list[str]:
        """How the daemon is started on this machine."""
        launch = [sys.executable, str(_HERE / "gpulaunch.py"), str(self.tree)]
        return ["/usr/bin/env", f"{worlds.VARIABLE}={self._world}", *launch, *program()]

    def char_links(self) -> dict[str, str]:
        """Where the links by number lead that the daemon has made."""
        return {path.name: str(path.readlink()) for path in (self.tree / "dev/char").iterdir()}

    def _capabilities(self, card: Card) -> None:
        """The nodes of its parts: two for each, of the GPU instance and of the compute instance."""
        for part in card.mig.parts if card.mig is not None else ():
            base = self.tree / f"proc/driver/nvidia/capabilities/gpu{card.minor}/mig/gi{part.gi}"
            for number, place in ((2 * part.gi, base), (2 * part.gi + 1, base / f"ci{part.id}")):
                place.mkdir(parents=True, exist_ok=True)
                minor = 100 * (card.minor + 1) + number
                text = f"DeviceFileMinor: {minor}\nDeviceFileMode: 256\n"
                (place / "access").write_text(text, encoding="utf-8")
                self.node(f"nvidia-caps/nvidia-cap{minor}", CAPS_MAJOR, minor)

    def node(self, name: str, major: int, minor: int) -> None:
        """Let a device node below `/dev` be there."""
        path = self.tree / "dev" / name
        if not path.exists():
            os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(major, minor))
            path.chmod(0o666)
