"""Device nodes as plain values: what the file system, sysfs and udev say of each.

Nothing here was learned by opening a node: to open one may wait, wind a tape or ring a modem.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import attrs

from berth.host.hardware import PciFunction
from berth.model.edits import NodeType
from berth.model.pathglob import PathGlob

DEV: Final = "/dev/"
"""Where nodes lie; what leads elsewhere needs the operator's leave."""


@attrs.frozen(kw_only=True)
class AtPath:
    """What lies at a path where a device node should.

    Attributes:
        type: ``None`` for what is no device node, or nothing.
        exists: Whether anything lies there.
    """

    type: NodeType | None = None
    major: int = 0
    minor: int = 0
    exists: bool = True


@attrs.frozen(kw_only=True)
class UsbDevice:
    """The USB device that a node belongs to.

    Attributes:
        vendor: Four hex digits, as is ``product``.
        serial: As the device gives it; empty when it gives none.
        name: What it calls itself; may be empty.
        interface: Two hex digits of the interface; empty for a node of the whole device.
        place: Where it is plugged in, in the form of udev's ``ID_PATH``, the interface included.
    """

    vendor: str
    product: str
    serial: str = ""
    name: str = ""
    interface: str = ""
    place: str = ""


@attrs.frozen(kw_only=True)
class DevNode:
    """One character or block device node.

    Attributes:
        path: Where the node itself lies, links resolved.
        links: Other names that lead to it, in order.
        mode: Permission bits.
        subsystem: Such as ``tty``; empty when sysfs does not know the device.
        way: Its folder below sysfs' ``devices``; empty when sysfs does not know the device.
        part: Which node of its device it is, without the numbers that the kernel gives in order
            of appearance, such as ``ttyUSB``, ``pcmCD0c`` or ``video.1``.
        usb: ``None`` for what hangs from no USB.
        pci: The nearest PCI function above it; ``None`` where there is none.
        properties: What udev knows; empty where none runs.
        attributes: By name of a file in sysfs: its values, the node's own first, then upwards.
    """

    path: str
    type: NodeType
    major: int
    minor: int
    mode: int = 0o600
    uid: int = 0
    gid: int = 0
    links: tuple[str, ...] = ()
    subsystem: str = ""
    way: str = ""
    part: str = ""
    usb: UsbDevice | None = None
    pci: PciFunction | None = None
    properties: Mapping[str, str] = attrs.field(factory=dict)
    attributes: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Every path that leads to it, its own first."""
        return self.path, *self.links

    @property
    def number(self) -> str:
        """What the kernel calls it, such as ``chr:188:0``; a ledger key while it lasts."""
        return f"{'chr' if self.type is NodeType.CHAR else 'blk'}:{self.major}:{self.minor}"

    @property
    def is_outside(self) -> bool:
        """Whether it lies outside ``/dev``."""
        return not self.path.startswith(DEV)


@attrs.frozen(kw_only=True)
class Oddity:
    """A path that was asked for and is no device node.

    Attributes:
        found: What it is, to follow the path in a sentence: ``is a FIFO``.
    """

    path: str
    found: str


@attrs.frozen(kw_only=True)
class Wanted:
    """Which nodes are looked at; all others are not even listed.

    Attributes:
        globs: Paths of nodes or of links to them.
        subsystems: All nodes of these.
        usb: All nodes of USB devices.
        pci: All nodes of PCI functions, and of what hangs from them.
        everything: All nodes that sysfs knows.
        attributes: Files in sysfs that are read for each node.
    """

    globs: tuple[PathGlob, ...] = ()
    subsystems: frozenset[str] = frozenset()
    usb: bool = False
    pci: bool = False
    everything: bool = False
    attributes: tuple[str, ...] = ()

    @property
    def needs_sysfs(self) -> bool:
        """Whether some nodes are found by what they are and not by their paths."""
        return bool(self.subsystems) or self.usb or self.pci or self.everything


@attrs.frozen(kw_only=True)
class NodeScan:
    """One look at the device nodes.

    Attributes:
        nodes: By path; each device number pair of a type once.
        oddities: What some path asked for and is no device node.
        udev: Whether udev runs, without which there are no properties.
        cut: There were more nodes or folder entries than are looked at; the rest is not known.
    """

    nodes: tuple[DevNode, ...] = ()
    oddities: tuple[Oddity, ...] = ()
    udev: bool = True
    cut: bool = False


def part_of(name: str) -> str:
    """Which node of its device a name means, less what the kernel counts up.

    The first number of a name counts devices in order of appearance, as does the letter of a disk;
    further ones tell parts of one device apart, such as the channels of a sound card.
    """
    disk = re.fullmatch(r"(sd|vd|hd|xvd)[a-z]+(\d*)", name)
    return f"{disk[1]}{disk[2]}" if disk else re.sub(r"\d+", "", name, count=1)
