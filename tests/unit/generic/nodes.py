"""Device nodes and groups as values, for tests of what is decided about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from berth.config.decode import Table
from berth.config.document import parse
from berth.config.finding import Cursor
from berth.config.generic import GenericGroup
from berth.generic.identity import Memory
from berth.generic.survey import GenericSurvey, survey
from berth.host.hardware import PciFunction
from berth.host.nodefacts import DevNode, NodeScan, UsbDevice, part_of
from berth.model.edits import NodeType
from berth.model.peripheral import Door, Peripheral

DRIVER = "berth.dev"

CONTROLLER = PciFunction(
    address="0000:00:14.0",
    class_code=0x0C0330,
    vendor="8086",
    device="a36d",
    numa_node=1,
    pcie_root="pci0000:00",
)
"""A USB controller."""


def group(name: str, text: str) -> GenericGroup:
    """A group by the TOML of its keys less the name."""
    cursor = Cursor()
    read = Table(GenericGroup).read(parse(f'name = "{name}"\n{text}'), cursor)
    assert cursor.findings == []
    assert read is not None
    return read


def node(path: str, number: str, **facts: Any) -> DevNode:
    """A character device that sysfs does not know, unless told otherwise."""
    major, minor = map(int, number.split(":"))
    return DevNode(path=path, type=NodeType.CHAR, major=major, minor=minor, **facts)


def tty(number: int, serial: str = "A5", port: str = "2", **facts: Any) -> DevNode:
    """A USB serial adapter."""
    place = f"pci-0000:00:14.0-usb-0:{port}:1.0"
    usb = UsbDevice(
        vendor="0403",
        product="6001",
        serial=serial,
        name="FT232R",
        interface="00",
        place=place,
    )
    way = f"pci0000:00/0000:00:14.0/usb1/1-{port}/1-{port}:1.0/ttyUSB{number}/tty/ttyUSB{number}"
    return node(
        f"/dev/ttyUSB{number}",
        f"188:{number}",
        **{
            "subsystem": "tty",
            "way": way,
            "part": "ttyUSB",
            "usb": usb,
            "pci": CONTROLLER,
            **facts,
        },
    )


def sound(name: str, number: int) -> DevNode:
    """A node of a sound card."""
    return node(
        f"/dev/snd/{name}",
        f"116:{number}",
        subsystem="sound",
        way=f"pci0000:00/0000:00:1f.3/sound/card/{name}",
        part=part_of(name),
        properties={"ID_PATH": "pci-0000:00:1f.3"} if "C" in name else {},
    )


def kvm() -> DevNode:
    """A node that is always there."""
    return node("/dev/kvm", "10:232", subsystem="misc", way="virtual/misc/kvm", part="kvm")


MODEM = group("modem", 'match = { subsystem = "tty", usb = { vendor = "0403" } }')


def surveyed(
    nodes: Sequence[DevNode],
    *groups: GenericGroup,
    memory: Memory | None = None,
    auto: Door = Door.DRA,
    udev: bool = True,
) -> GenericSurvey:
    """The survey of nodes for groups."""
    scan = NodeScan(nodes=tuple(nodes), udev=udev)
    return survey(scan, groups, driver=DRIVER, memory=memory, auto=auto)


def only(found: GenericSurvey) -> Peripheral:
    """The one device of a survey."""
    (device,) = found.peripherals
    return device
